// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/device/device_driven.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>

namespace gsched::testing {

/// Runs a program repeatedly on a lane, a few segments ahead, and resubmits preempted segments from
/// the operation at which they stopped.
class endless_runs {
public:
  endless_runs(cuda::device& d, gsched::program& p, lane_id lane, double quantum_us,
               std::uint64_t first_id)
      : device_(d), program_(p), lane_(lane), quantum_(from_us(quantum_us)), id_(first_id) {}

  /// Submits up to `ahead` segments ahead, for the requested number of runs.
  void feed(std::size_t ahead, std::uint64_t runs) {
    while (in_flight_.size() < ahead && next_ < runs * program_.size()) {
      const std::size_t first = next_ % program_.size();
      const std::size_t last = program_.cut(first, quantum_);
      segment s;
      s.id = segment_id{id_++};
      s.lane = lane_;
      s.program = program_.id();
      s.first = static_cast<std::uint32_t>(first);
      s.operations = program_.range(first, last);
      if (device_.submit(s)) {
        ++refused;
        return;
      }
      in_flight_.push_back({s.id, next_, next_ + (last - first)});
      next_ += last - first;
      furthest_ = std::max(furthest_, next_);
    }
  }
  void hear(const device_event& e) {
    using kind = device_event::kind;
    if (e.lane == lane_ && e.what == kind::lane_yielded) ++yielded;
    if (e.lane == lane_ && e.what == kind::lane_resumed) ++resumed;
    if (in_flight_.empty() || e.segment != in_flight_.front().id) return;
    const part p = in_flight_.front();
    if (e.what == kind::segment_done) {
      if (p.first != ended) ++out_of_order;
      ended = p.last;
    } else if (e.what == kind::segment_preempted) {
      ++preempted;
      if (p.first == ended)
        ended += e.operation;
      else if (e.operation != 0) // behind a preempted segment
        ++out_of_order;
      next_ = ended;
    } else if (e.what == kind::segment_failed) {
      ++failed;
    } else {
      return;
    }
    in_flight_.pop_front();
  }
  [[nodiscard]] lane_id lane() const noexcept { return lane_; }
  [[nodiscard]] bool idle() const { return in_flight_.empty(); }
  /// Includes segments of which no operation has ended: blocks of the first operation may have.
  [[nodiscard]] std::uint64_t runs_begun() const {
    return (furthest_ + program_.size() - 1) / program_.size();
  }
  [[nodiscard]] std::uint64_t runs_ended() const { return ended / program_.size(); }

  std::uint64_t ended = 0; ///< operations
  std::uint64_t preempted = 0;
  std::uint64_t failed = 0;
  std::uint64_t refused = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t yielded = 0;
  std::uint64_t resumed = 0;

private:
  struct part {
    segment_id id;
    std::uint64_t first, last; ///< operations, numbered over all runs
  };
  cuda::device& device_;
  gsched::program& program_;
  lane_id lane_;
  duration quantum_;
  std::uint64_t id_;
  std::uint64_t next_ = 0;
  std::uint64_t furthest_ = 0; ///< end of the submitted operations
  std::deque<part> in_flight_;
};

/// Polls the device for these lanes until a condition holds; false after ten seconds.
template <class Stop>
[[nodiscard]] bool run_until(cuda::device& d, std::span<endless_runs* const> hear, Stop stop) {
  const time_point late = d.now() + from_us(1e7);
  std::array<device_event, 16> out;
  while (!stop()) {
    if (d.now() >= late) return false;
    const std::size_t k = d.poll(out);
    for (std::size_t i = 0; i < k; ++i)
      for (endless_runs* const r : hear) r->hear(out[i]);
  }
  return true;
}

} // namespace gsched::testing
