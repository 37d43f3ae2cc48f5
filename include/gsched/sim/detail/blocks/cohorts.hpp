// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/detail/blocks/grid.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gsched::sim {

/// Blocks that a grid placed at once, and that end at once.
struct cohort {
  double ends = 0; ///< unit: progress of its grid
  std::uint32_t blocks = 0;
  std::uint32_t slices = sm_map::none;
  std::uint32_t next = sm_map::none;
  bool preempted = false; ///< its blocks exit at a checkpoint, before they are done
  bool noted = false;     ///< see cohorts::note
};

/// The cohorts of all grids: for each grid a list, in the order of their ends.
///
/// Cost     O(1) a call, except leave; no allocation after construction.
/// Threads  one owner; no locking.
class cohorts {
public:
  cohorts(std::size_t capacity, double slack) : slack_(slack), all_(capacity) {
    sorted_.reserve(capacity);
    for (std::size_t i = 0; i < capacity; ++i) all_[i].next = static_cast<std::uint32_t>(i + 1);
  }

  [[nodiscard]] const cohort& operator[](std::uint32_t c) const noexcept { return all_[c]; }

  /// Adds a cohort, which ends last unless its blocks exit at once; it takes `waves` times the time
  /// of a wave. `noted`: as if note() had been called.
  void push(grid& g, std::uint32_t slices, std::uint64_t blocks, bool noted,
            double waves = 1) noexcept {
    const std::uint32_t c = free_;
    assert(c < all_.size());
    free_ = all_[c].next;
    double ends = g.progress + waves * g.cost.wave_ns;
    if (g.passes) {
      all_[c] = {ends, static_cast<std::uint32_t>(blocks), slices, sm_map::none, true, noted};
      insert(g, c);
      return;
    }
    if (g.oldest != sm_map::none && ends - all_[g.newest].ends < slack_ * g.cost.wave_ns)
      ends = all_[g.newest].ends;
    all_[c] = {ends, static_cast<std::uint32_t>(blocks), slices, sm_map::none, false, noted};
    (g.oldest == sm_map::none ? g.oldest : all_[g.newest].next) = c;
    g.newest = c;
  }

  /// Whether this is the first such call for this cohort.
  bool note(std::uint32_t c) noexcept { return !std::exchange(all_[c].noted, true); }

  /// Removes the first cohort of the list; it remains readable until the next push.
  std::uint32_t pop(grid& g) noexcept {
    const std::uint32_t c = g.oldest;
    g.oldest = all_[c].next;
    all_[c].next = free_;
    free_ = c;
    return c;
  }

  /// From now on each block of the grid exits at its next checkpoint, if it does not end before;
  /// checkpoints are `checkpoint` ns of progress apart. Returns the number of blocks that will
  /// exit. Called at most once a grid.
  ///
  /// Order    blocks that started earlier are further advanced, so the blocks that exit are the
  ///          last ones.
  /// Cost     O(n log n) of the grid's n cohorts.
  std::uint64_t leave(grid& g, duration checkpoint) noexcept {
    const auto every = static_cast<double>(checkpoint.count());
    const double last =
        every > 0 ? (std::ceil(g.cost.wave_ns / every) - 1) * every : g.cost.wave_ns;
    std::uint64_t left = 0;
    sorted_.clear();
    for (std::uint32_t i = g.oldest; i != sm_map::none; i = all_[i].next) {
      cohort& c = all_[i];
      const double begin = c.ends - g.cost.wave_ns;
      const double ran = g.progress - begin;
      if (ran <= last && g.progress < c.ends) {
        c.preempted = true;
        c.ends = every > 0 ? begin + std::ceil(ran / every) * every : g.progress;
        left += c.blocks;
      }
      sorted_.push_back({c.ends, i});
    }
    if (left == 0) return 0;
    std::sort(sorted_.begin(), sorted_.end(), [](const ending& x, const ending& y) {
      return x.at != y.at ? x.at < y.at : x.cohort < y.cohort;
    });
    for (std::size_t i = 0; i + 1 < sorted_.size(); ++i)
      all_[sorted_[i].cohort].next = sorted_[i + 1].cohort;
    g.oldest = sorted_.front().cohort;
    g.newest = sorted_.back().cohort;
    all_[g.newest].next = sm_map::none;
    return left;
  }

private:
  /// Inserts behind the cohorts that end no later.
  [[gnu::cold]] void insert(grid& g, std::uint32_t c) noexcept {
    std::uint32_t before = sm_map::none;
    std::uint32_t behind = g.oldest;
    while (behind != sm_map::none && all_[behind].ends <= all_[c].ends)
      behind = all_[before = behind].next;
    all_[c].next = behind;
    (before == sm_map::none ? g.oldest : all_[before].next) = c;
    if (behind == sm_map::none) g.newest = c;
  }

  struct ending {
    double at = 0;
    std::uint32_t cohort = 0;
  };

  double slack_;
  std::vector<cohort> all_;
  std::vector<ending> sorted_;
  std::uint32_t free_ = 0;
};

} // namespace gsched::sim
