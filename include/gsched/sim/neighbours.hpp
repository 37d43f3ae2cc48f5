// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/sm_map.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// Which SMs each grid holds, and how many of them any two share.
///
/// Cost     O(SMs / 64 * grids that run) for a grid that changes; reading is one load.
/// Threads  one owner; no locking.
class neighbours {
public:
  neighbours(std::uint32_t sms, std::uint32_t grids)
      : words_((sms + 63) / 64), grids_(grids), masks_(words_ * grids), held_(grids),
        shared_(std::size_t{grids} * grids) {}

  void clear(std::uint32_t slot) noexcept {
    std::fill_n(masks_.begin() + static_cast<std::ptrdiff_t>(words_ * slot), words_, 0);
    held_[slot] = 0;
  }

  /// SMs [first, first + n).
  void add(std::uint32_t slot, std::uint32_t first, std::uint32_t n) noexcept {
    std::uint64_t* mask = masks_.data() + words_ * slot;
    const std::uint32_t last = first + n;
    for (std::uint32_t w = first / 64; w * 64 < last; ++w) {
      const std::uint32_t from = std::max(first, w * 64) - w * 64;
      const std::uint32_t to = std::min(last, w * 64 + 64) - w * 64; // 1 to 64
      mask[w] |= (~std::uint64_t{0} >> (64 - to)) & (~std::uint64_t{0} << from);
    }
  }

  /// Counts what `slot` shares with the others that run.
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

  [[nodiscard]] std::uint32_t held(std::uint32_t slot) const noexcept { return held_[slot]; }
  [[nodiscard]] std::uint32_t shared(std::uint32_t a, std::uint32_t b) const noexcept {
    return shared_[std::size_t{a} * grids_ + b];
  }

private:
  std::uint32_t count(const std::uint64_t* a, const std::uint64_t* b) const noexcept {
    int n = 0;
    for (std::size_t w = 0; w < words_; ++w) n += std::popcount(a[w] & b[w]);
    return static_cast<std::uint32_t>(n);
  }

  std::size_t words_;
  std::size_t grids_;
  std::vector<std::uint64_t> masks_;
  std::vector<std::uint32_t> held_;
  std::vector<std::uint32_t> shared_; ///< grid by grid
};

} // namespace gsched::sim
