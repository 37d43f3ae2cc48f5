// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/contention.hpp>
#include <gsched/sim/grid.hpp>

#include <algorithm>
#include <bit>
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
  neighbours(const contention_law& law, std::uint32_t sms, std::uint32_t grids)
      : law_(law), words_((sms + 63) / 64), grids_(grids), masks_(words_ * grids), held_(grids),
        shared_(std::size_t{grids} * grids) {}

  void clear(std::uint32_t slot) noexcept {
    std::fill_n(masks_.begin() + static_cast<std::ptrdiff_t>(words_ * slot), words_, 0);
    held_[slot] = 0;
  }

  /// The grid holds blocks on SMs [first, first + n).
  void add(std::uint32_t slot, std::uint32_t first, std::uint32_t n) noexcept {
    std::uint64_t* mask = masks_.data() + words_ * slot;
    const std::uint32_t last = first + n;
    for (std::uint32_t w = first / 64; w * 64 < last; ++w) {
      const std::uint32_t from = std::max(first, w * 64) - w * 64;
      const std::uint32_t to = std::min(last, w * 64 + 64) - w * 64; // 1 to 64
      mask[w] |= (~std::uint64_t{0} >> (64 - to)) & (~std::uint64_t{0} << from);
    }
  }

  /// Counts what the grid shares with the others that run.
  void settle(std::uint32_t slot, const std::vector<std::uint32_t>& running) noexcept {
    const std::uint64_t* mine = masks_.data() + words_ * slot;
    held_[slot] = count(mine, mine);
    for (const std::uint32_t other : running) {
      if (other == slot) continue;
      const std::uint32_t n = count(mine, masks_.data() + words_ * other);
      shared_[std::size_t{slot} * grids_ + other] = n;
      shared_[std::size_t{other} * grids_ + slot] = n;
    }
  }

  /// The time of this grid's blocks now over their time when it is alone.
  [[nodiscard]] double slowdown(std::uint32_t slot, const std::vector<grid>& grids,
                                const std::vector<std::uint32_t>& running,
                                bool beside) const noexcept {
    const grid& g = grids[slot];
    const auto held = static_cast<float>(std::max(held_[slot], 1u));
    surroundings s;
    s.beside = beside;
    s.own_warps = g.cost.load.warps * static_cast<float>(g.resident) / held;
    for (const std::uint32_t other : running) {
      if (other == slot) continue;
      const grid& o = grids[other];
      const std::uint32_t shared = shared_[std::size_t{slot} * grids_ + other];
      if (shared == 0) {
        s.far_memory += memory(o);
        continue;
      }
      s.near_memory += memory(o);
      s.other_warps += static_cast<float>(shared) / held * o.cost.load.warps *
                       static_cast<float>(o.resident) / static_cast<float>(held_[other]);
    }
    return law_.stretch(g.cost.load, s);
  }

  /// What is added to the gap before a dependent operation, beside what runs.
  [[nodiscard]] duration gap(const std::vector<grid>& grids,
                             const std::vector<std::uint32_t>& running) const noexcept {
    surroundings s;
    s.beside = true;
    for (const std::uint32_t slot : running) s.far_memory += memory(grids[slot]);
    return law_.gap(s);
  }

private:
  static float memory(const grid& g) noexcept {
    return g.cost.load.memory * static_cast<float>(g.resident) /
           static_cast<float>(g.cost.resident);
  }
  std::uint32_t count(const std::uint64_t* a, const std::uint64_t* b) const noexcept {
    int n = 0;
    for (std::size_t w = 0; w < words_; ++w) n += std::popcount(a[w] & b[w]);
    return static_cast<std::uint32_t>(n);
  }

  contention_law law_;
  std::size_t words_;
  std::size_t grids_;
  std::vector<std::uint64_t> masks_;
  std::vector<std::uint32_t> held_;
  std::vector<std::uint32_t> shared_; ///< grid by grid
};

} // namespace gsched::sim
