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

/// A program of a chain of nodes, each with a declared duration of `us` microseconds.
[[nodiscard]] gsched::cuda::program make_program(const std::string& name,
                                                 std::span<const node> nodes, double us);

/// Device options with which a program is one grain, unless `piece_us` is given.
[[nodiscard]] gsched::cuda::device_options options_for(const gsched::cuda::gpu& which,
                                                       double piece_us = 1e6);

/// A cuda::device whose calls are timed.
///
/// Errors   gsched::error with the device's message if a segment fails or is refused.
class driven {
public:
  explicit driven(const gsched::cuda::device_options& how);

  [[nodiscard]] gsched::lane_id open_lane(bool yields = false) {
    return device_.open_lane({0, {}, yields});
  }
  void load(gsched::cuda::program& p) { device_.load(p); }
  [[nodiscard]] gsched::cuda::device& device() noexcept { return device_; }

  /// The host time of the call, in microseconds like all times here.
  double submit(gsched::lane_id on, gsched::cuda::program& p) {
    return submit(on, p, 0, p.host().size());
  }
  double submit(gsched::lane_id on, gsched::cuda::program& p, std::size_t first, std::size_t last);
  double yield(gsched::lane_id lane);
  double resume(gsched::lane_id lane);

  struct seen {
    gsched::device_event event{};
    double at = 0;   ///< host time at the start of the poll that returned it
    double took = 0; ///< host time of that poll
  };
  [[nodiscard]] std::optional<seen> poll();
  /// Polls until there is an event; only the watchdog bounds the wait.
  seen next();
  /// The same, until there is an event of that kind; earlier ones are dropped.
  seen next(gsched::device_event::kind what);
  /// Polls until no segment is in flight.
  void drain();
  /// Polls for `us` microseconds, or until no segment is in flight.
  void pass(double us);

private:
  template <class Call>
  double timed(Call call);

  gsched::cuda::device device_;
  std::uint64_t submitted_ = 0;
  std::size_t in_flight_ = 0;
  double clock_us_ = 0; ///< cost of reading the clock
};

} // namespace calibrate
