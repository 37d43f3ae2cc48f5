// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/room.hpp>

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
  };
  struct placement {
    std::uint64_t blocks = 0;
    std::uint32_t pieces = none; ///< the first
  };

  sm_map(std::uint32_t sms, room empty, std::uint32_t max_blocks)
      : empty_(empty), runs_(sms), next_runs_(sms), edge_(sms + 1),
        pieces_(std::size_t{sms} * max_blocks) {
    runs_[0] = {empty, 0, sms, 0};
    size_ = 1;
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      pieces_[i].next = i + 1 < pieces_.size() ? static_cast<std::uint32_t>(i + 1) : none;
  }

  /// Runs never reach across the ends of `r` from now on. Set-up.
  void cut(sm_range r) noexcept {
    edge_[r.first] = edge_[r.last] = true;
    rewriting next(*this);
    for (std::size_t i = 0; i < size_; ++i) {
      run left = runs_[i];
      for (const std::uint32_t at : {r.first, r.last}) {
        if (at <= left.first || at >= left.first + left.sms) continue;
        next.append(left.left, left.first, at - left.first);
        left.sms -= at - left.first;
        left.first = at;
      }
      next.append(left.left, left.first, left.sms);
    }
    next.commit();
  }

  /// Places as many as fit of `want` blocks, in whole clusters.
  [[nodiscard]] placement place(const block_need& need, sm_range where, std::uint64_t want,
                                std::uint32_t cluster) noexcept {
    std::array<std::uint32_t, 65> sms_with{};
    std::uint64_t total = 0;
    std::uint32_t most = 0;
    run* const end = runs_.data() + size_;
    for (run* i = runs_.data(); i != end; ++i) {
      run& r = *i;
      const bool inside = r.first >= where.first && r.first < where.last;
      r.fits = inside ? std::min(room_model::fit(r.left, need), 64u) : 0;
      total += std::uint64_t{r.fits} * r.sms;
      most = std::max(most, r.fits);
      sms_with[r.fits] += r.sms;
    }
    std::uint64_t give = std::min(want, total);
    if (cluster > 1) give -= give % cluster;
    if (give == 0) return {};

    // Level by level, each SM that has that much room takes one; the last level may not go round.
    std::uint32_t level = 0;
    std::uint32_t extra = 0;
    if (give < total) {
      std::uint64_t rest = give;
      std::uint64_t round = 0;
      for (level = most;; --level) {
        round += sms_with[level];
        if (rest < round) break;
        rest -= round;
      }
      extra = static_cast<std::uint32_t>(rest);
    }
    return take(need, give, level, extra);
  }

  /// Gives back what place() took.
  void release(const block_need& need, std::uint32_t list) noexcept {
    rewriting next(*this);
    const run* const last = runs_.data() + size_;
    for (const run* i = runs_.data(); i != last; ++i) {
      const run& r = *i;
      std::uint32_t at = r.first;
      const std::uint32_t end = r.first + r.sms;
      while (at < end) {
        if (list == none || pieces_[list].first >= end) {
          next.append(r.left, at, end - at);
          break;
        }
        piece& p = pieces_[list];
        if (p.first > at) {
          next.append(r.left, at, p.first - at);
          at = p.first;
        }
        const std::uint32_t until = std::min(end, p.first + p.sms);
        const room left = r.left + need.bits * p.blocks;
        if (left == empty_) occupied_ -= until - at;
        next.append(left, at, until - at);
        p.sms -= until - at;
        p.first = at = until;
        if (p.sms == 0) {
          const std::uint32_t rest = p.next;
          p.next = free_;
          free_ = list;
          list = rest;
        }
      }
    }
    next.commit();
  }

  [[nodiscard]] const piece& at(std::uint32_t list) const noexcept { return pieces_[list]; }
  [[nodiscard]] std::uint32_t occupied() const noexcept { return occupied_; } ///< SMs with a block
  [[nodiscard]] std::size_t runs() const noexcept { return size_; }

private:
  struct run {
    room left = 0;
    std::uint32_t first = 0;
    std::uint32_t sms = 0;
    std::uint32_t fits = 0; ///< of the blocks that are being placed
  };

  placement take(const block_need& need, std::uint64_t give, std::uint32_t level,
                 std::uint32_t extra) noexcept {
    placement p{give, none};
    std::uint32_t tail = none;
    rewriting next(*this);
    const auto put = [&](const run& r, std::uint32_t first, std::uint32_t sms,
                         std::uint32_t blocks) {
      next.append(r.left - need.bits * blocks, first, sms);
      if (blocks == 0) return;
      if (r.left == empty_) occupied_ += sms;
      const std::uint32_t slot = free_;
      assert(slot != none); // each piece holds a block, and there is a piece a block
      free_ = pieces_[slot].next;
      pieces_[slot] = {first, sms, blocks, none};
      (tail == none ? p.pieces : pieces_[tail].next) = slot;
      tail = slot;
    };
    const run* const end = runs_.data() + size_;
    for (const run* i = runs_.data(); i != end; ++i) {
      const run& r = *i;
      if (r.fits == 0) {
        next.append(r.left, r.first, r.sms);
        continue;
      }
      const std::uint32_t blocks = r.fits > level ? r.fits - level : 0;
      const std::uint32_t more = r.fits >= level ? std::min(extra, r.sms) : 0;
      extra -= more;
      if (more > 0) put(r, r.first, more, blocks + 1);
      if (more < r.sms) put(r, r.first + more, r.sms - more, blocks);
    }
    next.commit();
    return p;
  }

  /// The runs as they will be, written in order; neighbours that have become equal are joined.
  class rewriting {
  public:
    explicit rewriting(sm_map& m) noexcept
        : map_(m), edge_(m.edge_.data()), first_(m.next_runs_.data()), end_(first_) {}
    void append(room left, std::uint32_t first, std::uint32_t sms) noexcept {
      if (end_ != first_ && end_[-1].left == left && edge_[first] == 0)
        end_[-1].sms += sms;
      else
        *end_++ = {left, first, sms, 0};
    }
    void commit() noexcept {
      map_.runs_.swap(map_.next_runs_);
      map_.size_ = static_cast<std::size_t>(end_ - first_);
    }

  private:
    sm_map& map_;
    const unsigned char* edge_;
    run* first_;
    run* end_;
  };

  room empty_;
  std::vector<run> runs_, next_runs_;
  std::size_t size_ = 0;
  std::vector<unsigned char> edge_; ///< a run may not reach across the start of this SM
  std::vector<piece> pieces_;
  std::uint32_t free_ = 0;
  std::uint32_t occupied_ = 0;
};

} // namespace gsched::sim
