// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/detail/blocks/sm_resources.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// SMs [first, last).
struct sm_range {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  [[nodiscard]] std::uint32_t size() const noexcept { return last - first; }
  [[nodiscard]] bool meets(const sm_range& o) const noexcept {
    return first < o.last && o.first < last;
  }
  bool operator==(const sm_range&) const noexcept = default;
};

/// The free resources of each SM, as runs of neighbouring SMs in equal state. Blocks are spread
/// evenly, so there are few runs, and a cost by runs is a cost by waves.
///
/// Order    a block goes to the SM that could hold the most further such blocks; ties to the lowest
///          number.
/// Cost     O(runs) a call; at most one run an SM. No allocation after construction.
/// Threads  one owner; no locking.
class sm_map {
public:
  static constexpr std::uint32_t none = 0xffffffffu;

  /// Neighbouring SMs that hold equally many blocks of one placement; the slices of a placement
  /// form a list.
  struct slice {
    std::uint32_t first = 0;
    std::uint32_t sms = 0;
    std::uint32_t blocks = 0; ///< on each SM
    std::uint32_t next = none;
    std::uint32_t last = none; ///< last slice of the list; valid in its first slice only
  };
  struct placement {
    std::uint64_t blocks = 0;
    std::uint32_t slices = none; ///< the first slice
  };

  sm_map(std::uint32_t sms, sm_resources empty, std::uint32_t max_blocks)
      : empty_(empty), sms_(sms), runs_(sms + 1), next_runs_(sms + 1), open_(sms), edge_(sms + 1),
        slices_(std::size_t{sms} * max_blocks) {
    sms_with_.fill(0);
    edge_[0] = true;
    edges_.push_back(0);
    clear();
    for (std::size_t i = 0; i < slices_.size(); ++i)
      slices_[i].next = i + 1 < slices_.size() ? static_cast<std::uint32_t>(i + 1) : none;
  }

  /// From now on no run extends across the ends of `r`. Set-up.
  void cut(sm_range r) {
    edge_[r.first] = edge_[r.last] = true;
    edges_.clear();
    for (std::uint32_t sm = 0; sm < sms_; ++sm)
      if (edge_[sm]) edges_.push_back(sm);
    rewriting next(*this);
    for (const run* i = runs_.data(); i->first != sms_; ++i) {
      next.append(i->left, i->first);
      for (const std::uint32_t at : {r.first, r.last})
        if (at > i->first && at < i[1].first) next.append(i->left, at);
    }
    next.commit();
  }

  /// Places as many as fit of `want` blocks, in whole clusters.
  [[nodiscard]] placement place(const block_need& need, sm_range where, std::uint64_t want,
                                std::uint32_t cluster) noexcept {
    if (placements_ == 0 && edges_.size() == 1 && where.size() == sms_)
      return place_on_empty(need, want, cluster);
    run* const runs = runs_.data();
    std::uint32_t* const opens = open_.data();
    std::size_t open = 0;
    for (std::uint32_t i = 0; i < size_; ++i) {
      const run& r = runs[i];
      const bool inside = r.first - where.first < where.size();
      opens[open] = i;
      open += static_cast<std::size_t>(inside & resource_packer::holds(r.left, need)); // no branch
    }
    std::uint64_t total = 0;
    std::uint32_t most = 0;
    for (std::size_t k = 0; k < open; ++k) {
      run& r = runs[opens[k]];
      r.fits = std::min(resource_packer::fit(r.left, need), most_fits);
      total += std::uint64_t{r.fits} * sms_of(r);
      most = std::max(most, r.fits);
    }
    std::uint64_t give = std::min(want, total);
    if (cluster > 1) give -= give % cluster;
    if (give == 0) return {};
    ++placements_;
    if (give == total) return {give, take_all(need, open)};

    // In each level, every SM with enough resources takes one block; the last level may be
    // incomplete.
    std::uint32_t level = most;
    std::uint64_t extra = give;
    if (open == 1) {
      const std::uint32_t sms = sms_of(runs[opens[0]]);
      level -= static_cast<std::uint32_t>(give / sms);
      extra = give % sms;
    } else {
      for (std::size_t k = 0; k < open; ++k) {
        const run& r = runs[opens[k]];
        sms_with_[r.fits] += sms_of(r);
      }
      std::uint64_t round = sms_with_[level];
      for (; extra >= round; round += sms_with_[--level]) extra -= round;
      for (std::size_t k = 0; k < open; ++k) sms_with_[runs[opens[k]].fits] = 0;
    }
    return {give, take(need, open, level, static_cast<std::uint32_t>(extra))};
  }

  /// Frees the resources of a placement that was not empty.
  void release(const block_need& need, std::uint32_t list) noexcept {
    assert(list != none);
    if (--placements_ == 0)
      clear();
    else
      give_back(need, list);
    slices_[slices_[list].last].next = free_;
    free_ = list;
  }

  [[nodiscard]] const slice& at(std::uint32_t list) const noexcept { return slices_[list]; }
  [[nodiscard]] std::uint32_t occupied() const noexcept { return occupied_; } ///< SMs with a block
  [[nodiscard]] std::size_t runs() const noexcept { return size_; }

private:
  static constexpr std::uint32_t most_fits = 64;

  /// A run ends where the next one begins; behind the last is one that begins at sms_.
  struct run {
    sm_resources left = 0;
    std::uint32_t first = 0;
    std::uint32_t fits = 0; ///< number of the present blocks that fit, if the run is open
  };
  static std::uint32_t sms_of(const run& r) noexcept { return (&r)[1].first - r.first; }

  /// place() for an empty map of one run: each SM takes equally many blocks, and the first ones may
  /// take one more.
  [[nodiscard]] placement place_on_empty(const block_need& need, std::uint64_t want,
                                         std::uint32_t cluster) noexcept {
    const std::uint32_t fits = std::min(resource_packer::fit(empty_, need), most_fits);
    auto give = static_cast<std::uint32_t>(std::min(want, std::uint64_t{fits} * sms_));
    if (cluster > 1) give -= give % cluster;
    if (give == 0) return {};
    ++placements_;
    const std::uint32_t each = give / sms_;
    const std::uint32_t more = give % sms_;
    occupied_ = each > 0 ? sms_ : more;
    listing slices(*this);
    run* next = runs_.data();
    const auto put = [&](std::uint32_t first, std::uint32_t sms, std::uint32_t blocks) {
      *next++ = {empty_ - need.bits * blocks, first, 0};
      if (blocks > 0) slices.append(first, sms, blocks);
    };
    if (more > 0) put(0, more, each + 1);
    put(more, sms_ - more, each);
    *next = {0, sms_, 0};
    size_ = static_cast<std::size_t>(next - runs_.data());
    return {give, slices.commit()};
  }

  /// All SMs become empty.
  void clear() noexcept {
    rewriting next(*this);
    for (const std::uint32_t sm : edges_) next.append(empty_, sm);
    next.commit();
    occupied_ = 0;
  }

  void give_back(const block_need& need, std::uint32_t list) noexcept {
    rewriting next(*this);
    const run* i = runs_.data();
    std::uint32_t at = 0; // end of the written runs
    for (std::uint32_t slot = list; slot != none; slot = slices_[slot].next) {
      const slice& p = slices_[slot];
      for (; i[1].first <= p.first; at = (++i)->first) next.append(i->left, at);
      if (at < p.first) next.append(i->left, at);
      at = p.first;
      const std::uint32_t end = p.first + p.sms;
      const sm_resources given = need.bits * p.blocks;
      while (at < end) {
        const sm_resources left = i->left + given;
        const std::uint32_t until = std::min(end, i[1].first);
        next.append(left, at);
        occupied_ -= left == empty_ ? until - at : 0;
        i += until == i[1].first;
        at = until;
      }
    }
    for (; at != sms_; at = (++i)->first) next.append(i->left, at);
    next.commit();
  }

  /// A list of slices under construction.
  class listing {
  public:
    explicit listing(sm_map& m) noexcept : map_(m) {}
    void append(std::uint32_t first, std::uint32_t sms, std::uint32_t blocks) noexcept {
      const std::uint32_t slot = map_.free_;
      assert(slot != none); // each slice holds a block, and there is a slice a block
      map_.free_ = map_.slices_[slot].next;
      map_.slices_[slot] = {first, sms, blocks, none, none};
      *end_ = last_ = slot;
      end_ = &map_.slices_[slot].next;
    }
    /// Returns the first slice.
    [[nodiscard]] std::uint32_t commit() noexcept {
      map_.slices_[first_].last = last_;
      return first_;
    }

  private:
    sm_map& map_;
    std::uint32_t first_ = none;
    std::uint32_t last_ = none;
    std::uint32_t* end_ = &first_;
  };

  /// The open runs take all blocks that fit. Runs that become equal are joined by the next release.
  std::uint32_t take_all(const block_need& need, std::size_t open) noexcept {
    listing slices(*this);
    for (std::size_t k = 0; k < open; ++k) {
      run& r = runs_[open_[k]];
      const std::uint32_t sms = sms_of(r);
      slices.append(r.first, sms, r.fits);
      occupied_ += r.left == empty_ ? sms : 0;
      r.left -= need.bits * r.fits;
    }
    return slices.commit();
  }

  /// The SMs of open runs take the blocks that fit above `level`, and the first `extra` SMs that
  /// fit one block more take it.
  std::uint32_t take(const block_need& need, std::size_t open, std::uint32_t level,
                     std::uint32_t extra) noexcept {
    listing slices(*this);
    rewriting next(*this);
    const auto put = [&](const run& r, std::uint32_t first, std::uint32_t sms,
                         std::uint32_t blocks) {
      next.append(r.left - need.bits * blocks, first);
      if (blocks == 0) return;
      occupied_ += r.left == empty_ ? sms : 0;
      slices.append(first, sms, blocks);
    };
    const run* i = runs_.data();
    for (std::size_t k = 0; k < open; ++k, ++i) {
      const run& r = runs_[open_[k]];
      for (; i != &r; ++i) next.append(i->left, i->first);
      const std::uint32_t sms = sms_of(r);
      const std::uint32_t blocks = std::max(r.fits, level) - level;
      const std::uint32_t more = r.fits >= level ? std::min(extra, sms) : 0;
      extra -= more;
      if (more > 0) put(r, r.first, more, blocks + 1);
      if (more < sms) put(r, r.first + more, sms - more, blocks);
    }
    for (; i->first != sms_; ++i) next.append(i->left, i->first);
    next.commit();
    return slices.commit();
  }

  /// Rewrites the runs in order, and joins neighbours that have become equal: the entry of the
  /// second of two is overwritten by the next.
  class rewriting {
  public:
    explicit rewriting(sm_map& m) noexcept
        : map_(m), edge_(m.edge_.data()), first_(m.next_runs_.data()), end_(first_) {}
    /// From SM `first` on, `left` is free.
    void append(sm_resources left, std::uint32_t first) noexcept {
      *end_ = {left, first, 0};
      end_ += static_cast<int>(left != left_) | edge_[first];
      left_ = left;
    }
    void commit() noexcept {
      *end_ = {0, map_.sms_, 0};
      map_.runs_.swap(map_.next_runs_);
      map_.size_ = static_cast<std::size_t>(end_ - first_);
    }

  private:
    sm_map& map_;
    const unsigned char* edge_;
    run* first_;
    run* end_;
    sm_resources left_ = 0;
  };

  sm_resources empty_;
  std::uint32_t sms_;
  std::vector<run> runs_, next_runs_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> open_; ///< runs that hold a block of the present placement
  std::array<std::uint32_t, most_fits + 1> sms_with_; ///< zero, except while levels are counted
  std::vector<unsigned char> edge_;  ///< no run extends across the start of this SM
  std::vector<std::uint32_t> edges_; ///< the SMs for which that holds
  std::vector<slice> slices_;
  std::uint32_t free_ = 0;
  std::uint32_t occupied_ = 0;
  std::size_t placements_ = 0; ///< not released
};

} // namespace gsched::sim
