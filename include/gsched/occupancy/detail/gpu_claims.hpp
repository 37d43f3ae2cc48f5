// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/occupancy/detail/sm_shares.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// The total demand of all dispatched blocks: resident blocks and blocks that wait for room.
///
/// Units    sums are integers (sm_shares), so that they return to exactly zero.
/// Cost     O(1) each, over the four resources; never allocates.
/// Threads  one owner; no locking.
class gpu_claims {
public:
  /// The largest counted number of waiting blocks. Sums of 4096 times as many do not overflow.
  static constexpr std::uint64_t most_waiting = std::uint64_t{1} << 31;

  gpu_claims(std::uint32_t sms, std::uint64_t overshoot_blocks) noexcept
      : full_(sms * sm_shares::one), overshoot_(static_cast<double>(overshoot_blocks)) {}

  void wait(const sm_shares& block, std::uint64_t blocks) noexcept {
    load_.add(block, blocks);
    waiting_.add(block, blocks);
    waiting_blocks_ += blocks;
  }
  void stop_waiting(const sm_shares& block, std::uint64_t blocks) noexcept {
    assert(blocks <= waiting_blocks_);
    load_.take(block, blocks);
    waiting_.take(block, blocks);
    waiting_blocks_ -= blocks;
  }
  void place(const sm_shares& block, std::uint64_t blocks) noexcept {
    load_.add(block, blocks);
    resident_blocks_ += blocks;
  }
  void take(const sm_shares& block, std::uint64_t blocks) noexcept {
    assert(blocks <= resident_blocks_);
    load_.take(block, blocks);
    resident_blocks_ -= blocks;
  }

  /// Whether one more block is wanted: no resource is demanded in full on all SMs, or fewer blocks
  /// than the overshoot wait beyond that.
  [[nodiscard]] bool has_room() const noexcept {
    for (std::size_t r = 0; r < sm_resources; ++r)
      if (load_.of[r] >= full_ && beyond(r) >= overshoot_) return false;
    return true;
  }

  /// Whether the demand stays within the full GPU and the overshoot.
  [[nodiscard]] bool within() const noexcept {
    for (std::size_t r = 0; r < sm_resources; ++r)
      if (load_.of[r] > full_ && beyond(r) > overshoot_) return false;
    return true;
  }

  /// The demanded share of the GPU, of the most demanded resource; 1 is full.
  [[nodiscard]] double load() const noexcept {
    return static_cast<double>(*std::max_element(load_.of.begin(), load_.of.end())) /
           static_cast<double>(full_);
  }
  [[nodiscard]] std::uint64_t resident_blocks() const noexcept { return resident_blocks_; }
  [[nodiscard]] std::uint64_t waiting_blocks() const noexcept { return waiting_blocks_; }

private:
  /// The number of waiting blocks that find no room, if each took the mean share of the waiting
  /// blocks.
  [[nodiscard]] double beyond(std::size_t r) const noexcept {
    if (waiting_.of[r] == 0) return 0.0;
    return static_cast<double>(waiting_blocks_) * static_cast<double>(load_.of[r] - full_) /
           static_cast<double>(waiting_.of[r]);
  }

  std::uint64_t full_; ///< of each resource, on all SMs
  double overshoot_;
  sm_shares load_{};    ///< resident and waiting blocks
  sm_shares waiting_{}; ///< the waiting blocks of load_
  std::uint64_t resident_blocks_ = 0;
  std::uint64_t waiting_blocks_ = 0;
};

} // namespace gsched
