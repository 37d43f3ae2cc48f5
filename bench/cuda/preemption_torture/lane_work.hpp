// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/device/device.hpp>
#include <gsched/job/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <system_error>

namespace preemption_torture {

/// Runs a program repeatedly on its own lane, a few segments ahead, and continues where segments
/// were taken back.
class lane_work {
public:
  lane_work(gsched::cuda::device& on, gsched::lane_id lane, gsched::program& of, double quantum_us,
            std::uint32_t number)
      : device_(on), program_(of), lane_(lane),
        quantum_(quantum_us > 0 ? gsched::from_us(quantum_us) : gsched::run_to_completion),
        next_id_(std::uint64_t{number} << 40) {}

  /// Submits segments until that many are in flight or that many runs have been submitted.
  void feed(std::size_t ahead, std::uint64_t runs) {
    while (in_flight_.size() < ahead && next_ < runs * program_.size() && wrong_.empty()) {
      const std::size_t first = next_ % program_.size();
      const std::size_t last = program_.cut(first, quantum_);
      gsched::segment s;
      s.id = gsched::segment_id{next_id_++};
      s.lane = lane_;
      s.program = program_.id();
      s.first = static_cast<std::uint32_t>(first);
      s.operations = program_.range(first, last);
      if (const std::error_code e = device_.submit(s)) {
        wrong_ = "submit refused operations " + std::to_string(first) + " to " +
                 std::to_string(last) + " of " + program_.name() + ": " + e.message();
        return;
      }
      in_flight_.push_back({s.id, next_, next_ + (last - first)});
      next_ += last - first;
      furthest_ = std::max(furthest_, next_);
    }
  }

  /// Handles an event of one of its segments.
  void handle(const gsched::device_event& e) {
    using kind = gsched::device_event::kind;
    if (in_flight_.empty() || e.segment != in_flight_.front().id) {
      wrong_ = program_.name() + ": an event of a segment that is not the first in flight";
      return;
    }
    const part p = in_flight_.front();
    in_flight_.pop_front();
    if (e.what == kind::segment_done) {
      if (p.first != ended_) wrong_ = program_.name() + ": segments ended out of order";
      ended_ = p.last;
    } else if (e.what == kind::segment_preempted) {
      if (p.first == ended_)
        ended_ += e.operation;
      else if (e.operation != 0)
        wrong_ = program_.name() + ": a segment ended in part behind one that was preempted";
      next_ = ended_;
    } else {
      wrong_ = program_.name() + ": a segment failed";
    }
  }

  [[nodiscard]] gsched::lane_id lane() const noexcept { return lane_; }
  [[nodiscard]] bool idle() const noexcept { return in_flight_.empty(); }
  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_.size(); }
  [[nodiscard]] std::uint64_t ended() const noexcept { return ended_; } ///< operations
  [[nodiscard]] std::uint64_t runs_ended() const noexcept { return ended_ / program_.size(); }
  /// Includes segments of which nothing has ended.
  [[nodiscard]] std::uint64_t runs_begun() const noexcept {
    return (furthest_ + program_.size() - 1) / program_.size();
  }
  /// The violation of the device's contract, in a line; empty if there is none.
  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }

private:
  struct part {
    gsched::segment_id id;
    std::uint64_t first, last; ///< operations of all runs
  };

  gsched::cuda::device& device_;
  gsched::program& program_;
  gsched::lane_id lane_;
  gsched::duration quantum_;
  std::uint64_t next_id_;
  std::uint64_t next_ = 0;
  std::uint64_t furthest_ = 0; ///< furthest operation that was ever submitted
  std::uint64_t ended_ = 0;
  std::deque<part> in_flight_;
  std::string wrong_;
};

} // namespace preemption_torture
