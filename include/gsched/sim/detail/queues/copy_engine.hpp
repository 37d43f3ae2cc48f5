// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// One direction of the bus: one copy at a time, in the order of arrival. Each lane has at most one
/// copy, so the queue is a list of lanes.
///
/// Cost     O(1) a call; only opening a lane allocates.
class copy_engine {
public:
  static constexpr std::uint32_t none = 0xffffffffu;

  void open_lane() { waiting_.push_back({}); }

  void append(std::uint32_t lane, duration takes) noexcept {
    waiting_[lane] = {takes, none};
    (head_ == none ? head_ : waiting_[tail_].next) = lane;
    tail_ = lane;
  }

  /// The lane whose copy uses the engine, or none.
  [[nodiscard]] std::uint32_t head() const noexcept { return head_; }
  [[nodiscard]] bool running() const noexcept { return ends_ != time_point::max(); }
  [[nodiscard]] time_point ends() const noexcept { return ends_; }

  void start(time_point now) noexcept { ends_ = now + waiting_[head_].takes; }
  void finish() noexcept {
    head_ = waiting_[head_].next;
    ends_ = time_point::max();
  }

private:
  struct copy {
    duration takes{};
    std::uint32_t next = none;
  };

  std::vector<copy> waiting_; ///< by lane
  std::uint32_t head_ = none;
  std::uint32_t tail_ = none;
  time_point ends_ = time_point::max();
};

} // namespace gsched::sim
