// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/kernels.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/program.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace calibrate {

/// A chain of nodes as a program, each of which is said to take that long.
[[nodiscard]] gsched::cuda::program make_program(const std::string& name,
                                                 std::span<const node> nodes, double us);

/// Programs are one piece each, unless `piece_us` is given.
[[nodiscard]] gsched::cuda::device_options options_for(const gsched::cuda::gpu& which,
                                                       double piece_us = 1e6);

/// A cuda::device whose calls are timed.
///
/// Errors   gsched::error with the device's words where a segment fails or is refused.
class driven {
public:
  explicit driven(const gsched::cuda::device_options& how);

  [[nodiscard]] gsched::lane_id open_lane(bool yields = false) {
    return device_.open_lane({0, {}, yields});
  }
  void load(gsched::cuda::program& p) { device_.load(p); }
  [[nodiscard]] gsched::cuda::device& device() noexcept { return device_; }

  /// What the call took, in microseconds, as all times here.
  double submit(gsched::lane_id on, gsched::cuda::program& p) {
    return submit(on, p, 0, p.host().size());
  }
  double submit(gsched::lane_id on, gsched::cuda::program& p, std::size_t first, std::size_t last);
  double yield(gsched::lane_id lane);
  double resume(gsched::lane_id lane);

  struct seen {
    gsched::device_event event{};
    double at = 0;   ///< host time at which the poll began that gave it
    double took = 0; ///< that poll
  };
  [[nodiscard]] std::optional<seen> poll();
  /// Polls until there is one: bounded by the watchdog alone.
  seen next();
  /// As next, until it is of that kind; others before it are forgotten.
  seen next(gsched::device_event::kind what);
  /// Until no segment is in flight.
  void drain();
  /// Polls for that long, or until no segment is in flight.
  void pass(double us);

private:
  template <class Call>
  double timed(Call call);

  gsched::cuda::device device_;
  std::uint64_t submitted_ = 0;
  std::size_t in_flight_ = 0;
  double clock_us_ = 0; ///< of asking for the time
};

} // namespace calibrate
