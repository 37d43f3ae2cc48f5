// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/contention.hpp>
#include <gsched/sim/grid.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// Which SMs each running grid holds and how many of them any two share, and from that how they
/// slow one another.
///
/// Cost     settling a grid O(SMs / 64 * grids that run); slowdown O(grids that run).
/// Threads  one owner; no locking.
class neighbours {
public:
  neighbours(const contention_law& law, std::uint32_t sms, std::size_t grids, std::size_t cohorts)
      : law_(law), sms_(sms), words_((sms + 63) / 64), grids_(grids), union_(words_),
        masks_(words_ * grids), cohorts_(words_ * cohorts), sides_(grids), shared_(grids * grids) {}

  /// A cohort of blocks was placed so.
  void note(std::uint32_t cohort, const sm_map& map, std::uint32_t pieces) noexcept {
    std::uint64_t* const mask = cohorts_.data() + words_ * cohort;
    std::fill_n(mask, words_, 0);
    while (pieces != sm_map::none) {
      const std::uint32_t first = map.at(pieces).first;
      std::uint32_t last = first;
      for (; pieces != sm_map::none && map.at(pieces).first == last; pieces = map.at(pieces).next)
        last += map.at(pieces).sms;
      for (std::uint32_t w = first / 64; w * 64 < last; ++w) {
        const std::uint32_t from = std::max(first, w * 64) - w * 64;
        const std::uint32_t to = std::min(last, w * 64 + 64) - w * 64; // 1 to 64
        mask[w] |= (~std::uint64_t{0} >> (64 - to)) & (~std::uint64_t{0} << from);
      }
    }
  }

  /// A grid is where its cohorts are: begin(), join() for each, settle().
  void begin() noexcept { std::fill(union_.begin(), union_.end(), 0); }
  void join(std::uint32_t cohort) noexcept {
    const std::uint64_t* const mask = cohorts_.data() + words_ * cohort;
    for (std::size_t w = 0; w < words_; ++w) union_[w] |= mask[w];
  }

  /// Counts what the grid shares with the others that run.
  void settle(std::uint32_t slot, const grid& g, bool fresh,
              const std::vector<std::uint32_t>& running) noexcept {
    std::uint64_t* const mine = masks_.data() + words_ * slot;
    if (!fresh && std::equal(union_.begin(), union_.end(), mine)) {
      weigh(slot, g);
      return;
    }
    std::copy(union_.begin(), union_.end(), mine);
    side& s = sides_[slot];
    s.held = count(mine, mine);
    weigh(slot, g);
    if (s.held == sms_) { // slowdown() does not ask; the others' sides are set by what they hold
      for (const std::uint32_t other : running)
        shared_[other * grids_ + slot] = static_cast<float>(sides_[other].held);
      return;
    }
    for (const std::uint32_t other : running) {
      if (other == slot) continue;
      const std::uint32_t n =
          sides_[other].held == sms_ ? s.held : count(mine, masks_.data() + words_ * other);
      shared_[slot * grids_ + other] = static_cast<float>(n);
      shared_[other * grids_ + slot] = static_cast<float>(n);
    }
  }

  /// Adds up all that run: before slowdown() is asked.
  void total(const std::vector<std::uint32_t>& running) noexcept {
    all_warps_ = all_memory_ = 0;
    for (const std::uint32_t slot : running) {
      all_warps_ += sides_[slot].all_warps;
      all_memory_ += sides_[slot].memory;
    }
  }

  /// The time of this grid's blocks now over their time when it is alone.
  [[nodiscard]] double slowdown(std::uint32_t slot, const kernel_load& load,
                                const std::vector<std::uint32_t>& running,
                                bool beside) const noexcept {
    const float* const shared = shared_.data() + slot * grids_;
    const side* const sides = sides_.data();
    const side& me = sides[slot];
    surroundings s;
    s.beside = beside;
    s.own_warps = me.warps;
    if (me.held == sms_) { // it meets all others with all that they have
      s.other_warps = (all_warps_ - me.all_warps) / static_cast<float>(sms_);
      s.near_memory = all_memory_ - me.memory;
      return law_.stretch(load, s);
    }
    for (const std::uint32_t other : running) {
      if (other == slot) continue;
      const side& o = sides[other];
      s.other_warps += shared[other] * o.warps;
      (shared[other] > 0 ? s.near_memory : s.far_memory) += o.memory;
    }
    s.other_warps /= static_cast<float>(std::max(me.held, 1u));
    return law_.stretch(load, s);
  }

  /// What is added to the gap before a dependent operation, beside what runs.
  [[nodiscard]] duration gap(const std::vector<std::uint32_t>& running) noexcept {
    total(running);
    surroundings s;
    s.beside = true;
    s.far_memory = all_memory_;
    return law_.gap(s);
  }

private:
  struct side {
    float warps = 0; ///< resident on each SM that it holds
    float all_warps = 0;
    float memory = 0; ///< of the device's throughput
    std::uint32_t held = 0;
  };

  /// Takes how many blocks the grid has now.
  void weigh(std::uint32_t slot, const grid& g) noexcept {
    side& s = sides_[slot];
    const auto resident = static_cast<float>(g.resident);
    s.all_warps = g.cost.load.warps * resident;
    s.warps = s.all_warps / static_cast<float>(std::max(s.held, 1u));
    s.memory = g.cost.load.memory * resident / static_cast<float>(g.cost.resident);
  }

  /// Bits set in both. Written out: without the instruction, std::popcount is a call.
  std::uint32_t count(const std::uint64_t* a, const std::uint64_t* b) const noexcept {
    std::uint64_t n = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      std::uint64_t x = a[w] & b[w];
      x -= x >> 1 & 0x5555555555555555u;
      x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
      x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
      n += x * 0x0101010101010101u >> 56;
    }
    return static_cast<std::uint32_t>(n);
  }

  contention_law law_;
  std::uint32_t sms_;
  std::size_t words_;
  std::size_t grids_;
  float all_warps_ = 0;
  float all_memory_ = 0;
  std::vector<std::uint64_t> union_;
  std::vector<std::uint64_t> masks_;   ///< a bit an SM, by grid
  std::vector<std::uint64_t> cohorts_; ///< and by cohort
  std::vector<side> sides_;
  std::vector<float> shared_; ///< SMs, grid by grid
};

} // namespace gsched::sim
