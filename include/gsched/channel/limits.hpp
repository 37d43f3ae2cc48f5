// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace gsched::channel {

/// What a server grants one client. Beyond it a request is refused, with the reason; others are not
/// delayed.
struct client_limits {
  double weight = 1;             ///< share of the device, as server::add_client
  std::uint32_t in_flight = 256; ///< requests; the client's ring may hold fewer
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max(); ///< of payload in flight
  double rate = 0;                                                 ///< requests a second; 0: any
  double burst = 64;                                   ///< requests at once, where there is a rate
  std::uint64_t region_bytes = std::uint64_t{8} << 30; ///< of shared memory

  /// Errors   bad_option, one line.
  [[nodiscard]] const client_limits& checked() const {
    const auto refuse = [](const char* what, const char* expected) {
      throw error(errc::bad_option,
                  "channel: limit '" + std::string(what) + "', expected " + expected);
    };
    if (!std::isfinite(weight) || weight <= 0) refuse("weight", "a finite number above 0");
    if (in_flight < 1) refuse("in_flight", "1 or more");
    if (!std::isfinite(rate) || rate < 0) refuse("rate", "a finite number, or 0 for none");
    if (!std::isfinite(burst) || burst < 1) refuse("burst", "a finite number from 1 on");
    return *this;
  }
};

namespace detail {

/// A token bucket: `burst` requests at once, `rate` a second in the long run.
///
/// Cost     O(1).
class rate_limit {
public:
  rate_limit(double rate, double burst) noexcept
      : per_ns_(rate * 1e-9), most_(burst), tokens_(burst) {}

  [[nodiscard]] bool try_take(std::int64_t now_ns) noexcept {
    if (per_ns_ == 0) return true;
    if (now_ns > then_ns_) {
      if (then_ns_ != 0)
        tokens_ = std::fmin(most_, tokens_ + static_cast<double>(now_ns - then_ns_) * per_ns_);
      then_ns_ = now_ns;
    }
    if (tokens_ < 1) return false;
    --tokens_;
    return true;
  }

private:
  double per_ns_;
  double most_;
  double tokens_;
  std::int64_t then_ns_ = 0;
};

} // namespace detail

} // namespace gsched::channel
