// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/detail/room.hpp>

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

/// What is left on each SM, as runs of neighbours in equal state: blocks are spread evenly, so
/// there are few runs, and a cost by runs is a cost by waves.
///
/// Order    a block goes to the SM that could hold the most further such blocks; ties to the
///          lowest number.
/// Cost     O(runs) a call; at most one run an SM. No allocation after construction.
/// Threads  one owner; no locking.
class sm_map {
public:
  static constexpr std::uint32_t none = 0xffffffffu;

  /// Blocks that were placed together: neighbours that hold equally many, as a list.
  struct piece {
    std::uint32_t first = 0;
    std::uint32_t sms = 0;
    std::uint32_t blocks = 0; ///< on each
    std::uint32_t next = none;
    std::uint32_t last = none; ///< of the list; of its first piece alone
  };
  struct placement {
    std::uint64_t blocks = 0;
    std::uint32_t pieces = none; ///< the first
  };

  sm_map(std::uint32_t sms, room empty, std::uint32_t max_blocks)
      : empty_(empty), sms_(sms), runs_(sms + 1), next_runs_(sms + 1), open_(sms), edge_(sms + 1),
        pieces_(std::size_t{sms} * max_blocks) {
    sms_with_.fill(0);
    edge_[0] = true;
    edges_.push_back(0);
    clear();
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      pieces_[i].next = i + 1 < pieces_.size() ? static_cast<std::uint32_t>(i + 1) : none;
  }

  /// Runs never reach across the ends of `r` from now on. Set-up.
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
      open += static_cast<std::size_t>(inside & room_model::holds(r.left, need)); // no branch
    }
    std::uint64_t total = 0;
    std::uint32_t most = 0;
    for (std::size_t k = 0; k < open; ++k) {
      run& r = runs[opens[k]];
      r.fits = std::min(room_model::fit(r.left, need), most_fits);
      total += std::uint64_t{r.fits} * sms_of(r);
      most = std::max(most, r.fits);
    }
    std::uint64_t give = std::min(want, total);
    if (cluster > 1) give -= give % cluster;
    if (give == 0) return {};
    ++placements_;
    if (give == total) return {give, take_all(need, open)};

    // Level by level, each SM that has that much room takes one; the last level may not go round.
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

  /// Gives back what place() took, unless that was nothing.
  void release(const block_need& need, std::uint32_t list) noexcept {
    assert(list != none);
    if (--placements_ == 0)
      clear();
    else
      give_back(need, list);
    pieces_[pieces_[list].last].next = free_;
    free_ = list;
  }

  [[nodiscard]] const piece& at(std::uint32_t list) const noexcept { return pieces_[list]; }
  [[nodiscard]] std::uint32_t occupied() const noexcept { return occupied_; } ///< SMs with a block
  [[nodiscard]] std::size_t runs() const noexcept { return size_; }

private:
  static constexpr std::uint32_t most_fits = 64;

  /// Reaches to where the next one begins; behind the last stands one that begins at sms_.
  struct run {
    room left = 0;
    std::uint32_t first = 0;
    std::uint32_t fits = 0; ///< of the blocks that are being placed, if it is among the open
  };
  static std::uint32_t sms_of(const run& r) noexcept { return (&r)[1].first - r.first; }

  /// As place(), where all SMs are empty and in one run: each takes as many blocks as the others,
  /// and the first ones may take one more.
  [[nodiscard]] placement place_on_empty(const block_need& need, std::uint64_t want,
                                         std::uint32_t cluster) noexcept {
    const std::uint32_t fits = std::min(room_model::fit(empty_, need), most_fits);
    auto give = static_cast<std::uint32_t>(std::min(want, std::uint64_t{fits} * sms_));
    if (cluster > 1) give -= give % cluster;
    if (give == 0) return {};
    ++placements_;
    const std::uint32_t each = give / sms_;
    const std::uint32_t more = give % sms_;
    occupied_ = each > 0 ? sms_ : more;
    listing pieces(*this);
    run* next = runs_.data();
    const auto put = [&](std::uint32_t first, std::uint32_t sms, std::uint32_t blocks) {
      *next++ = {empty_ - need.bits * blocks, first, 0};
      if (blocks > 0) pieces.append(first, sms, blocks);
    };
    if (more > 0) put(0, more, each + 1);
    put(more, sms_ - more, each);
    *next = {0, sms_, 0};
    size_ = static_cast<std::size_t>(next - runs_.data());
    return {give, pieces.commit()};
  }

  /// All SMs are empty.
  void clear() noexcept {
    rewriting next(*this);
    for (const std::uint32_t sm : edges_) next.append(empty_, sm);
    next.commit();
    occupied_ = 0;
  }

  void give_back(const block_need& need, std::uint32_t list) noexcept {
    rewriting next(*this);
    const run* i = runs_.data();
    std::uint32_t at = 0; // as far as the runs are written
    for (std::uint32_t slot = list; slot != none; slot = pieces_[slot].next) {
      const piece& p = pieces_[slot];
      for (; i[1].first <= p.first; at = (++i)->first) next.append(i->left, at);
      if (at < p.first) next.append(i->left, at);
      at = p.first;
      const std::uint32_t end = p.first + p.sms;
      const room given = need.bits * p.blocks;
      while (at < end) {
        const room left = i->left + given;
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

  /// A list of pieces in the making.
  class listing {
  public:
    explicit listing(sm_map& m) noexcept : map_(m) {}
    void append(std::uint32_t first, std::uint32_t sms, std::uint32_t blocks) noexcept {
      const std::uint32_t slot = map_.free_;
      assert(slot != none); // each piece holds a block, and there is a piece a block
      map_.free_ = map_.pieces_[slot].next;
      map_.pieces_[slot] = {first, sms, blocks, none, none};
      *end_ = last_ = slot;
      end_ = &map_.pieces_[slot].next;
    }
    /// Says the first.
    [[nodiscard]] std::uint32_t commit() noexcept {
      map_.pieces_[first_].last = last_;
      return first_;
    }

  private:
    sm_map& map_;
    std::uint32_t first_ = none;
    std::uint32_t last_ = none;
    std::uint32_t* end_ = &first_;
  };

  /// The open runs take all that they fit. They stay as they are: those that become equal are
  /// joined by the next release.
  std::uint32_t take_all(const block_need& need, std::size_t open) noexcept {
    listing pieces(*this);
    for (std::size_t k = 0; k < open; ++k) {
      run& r = runs_[open_[k]];
      const std::uint32_t sms = sms_of(r);
      pieces.append(r.first, sms, r.fits);
      occupied_ += r.left == empty_ ? sms : 0;
      r.left -= need.bits * r.fits;
    }
    return pieces.commit();
  }

  /// The SMs of open runs take what they fit above `level`, and the first `extra` of those that fit
  /// as many as that one more.
  std::uint32_t take(const block_need& need, std::size_t open, std::uint32_t level,
                     std::uint32_t extra) noexcept {
    listing pieces(*this);
    rewriting next(*this);
    const auto put = [&](const run& r, std::uint32_t first, std::uint32_t sms,
                         std::uint32_t blocks) {
      next.append(r.left - need.bits * blocks, first);
      if (blocks == 0) return;
      occupied_ += r.left == empty_ ? sms : 0;
      pieces.append(first, sms, blocks);
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
    return pieces.commit();
  }

  /// The runs as they will be, written in order; neighbours that have become equal are joined:
  /// what is written for the second of two is written over by the next.
  class rewriting {
  public:
    explicit rewriting(sm_map& m) noexcept
        : map_(m), edge_(m.edge_.data()), first_(m.next_runs_.data()), end_(first_) {}
    /// From SM `first` on, so much is left.
    void append(room left, std::uint32_t first) noexcept {
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
    room left_ = 0;
  };

  room empty_;
  std::uint32_t sms_;
  std::vector<run> runs_, next_runs_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> open_; ///< runs that hold a block of those that are being placed
  std::array<std::uint32_t, most_fits + 1> sms_with_; ///< 0, but while levels are counted
  std::vector<unsigned char> edge_;                   ///< no run reaches across this SM's start
  std::vector<std::uint32_t> edges_;                  ///< SMs of which that is true
  std::vector<piece> pieces_;
  std::uint32_t free_ = 0;
  std::uint32_t occupied_ = 0;
  std::size_t placements_ = 0; ///< not given back
};

} // namespace gsched::sim
