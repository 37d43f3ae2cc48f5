// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <cmath>
#include <cstdint>
#include <span>

namespace gsched {

/// How long copies between requests' memory on the host and the GPU take, one after the other.
/// Numbers that are 0 take no time.
struct copy_times {
  duration each{}; ///< the part of a copy's time that its bytes do not change
  double to_device_bytes_per_ns = 0;
  double to_host_bytes_per_ns = 0;

  /// Errors   bad_option, one line, for a number below 0 or none.
  void check() const {
    if (each < duration::zero() || !(to_device_bytes_per_ns >= 0) || !(to_host_bytes_per_ns >= 0) ||
        std::isinf(to_device_bytes_per_ns) || std::isinf(to_host_bytes_per_ns))
      throw error(errc::bad_option,
                  "times of copies: a number below 0 or none, expected 0 or more");
  }
};

/// The bytes of a request in each of its model's buffers.
struct request_data {
  std::span<const std::uint64_t> inputs{};
  std::span<const std::uint64_t> outputs{};
};

/// The time that copies add to a batch of so many requests, each of which has its own memory.
[[nodiscard]] inline duration copy_time(const copy_times& t, const request_data& of,
                                        std::uint32_t batch) noexcept {
  const auto moving = [](std::span<const std::uint64_t> buffers, double rate) {
    double bytes = 0;
    for (const std::uint64_t b : buffers) bytes += static_cast<double>(b);
    return rate > 0 ? bytes / rate : 0.0;
  };
  const double one = static_cast<double>(t.each.count()) *
                         static_cast<double>(of.inputs.size() + of.outputs.size()) +
                     moving(of.inputs, t.to_device_bytes_per_ns) +
                     moving(of.outputs, t.to_host_bytes_per_ns);
  return duration{static_cast<duration::rep>(std::llround(one * batch))};
}

} // namespace gsched
