// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/unix_socket.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>

namespace gsched::channel::detail {

/// A rate limit for each process that connects. Processes of a namespace that is not visible count
/// as one for each user. A process whose limit is full again is forgotten.
///
/// Errors   bad_option, one line, of the constructor; bad_alloc.
/// Cost     O(log n) of n processes of the last burst / rate seconds.
class process_rates {
public:
  /// So many a second, 0: any number; and at once.
  process_rates(double rate, double burst) : rate_(rate), burst_(burst) {
    if (!std::isfinite(rate) || rate < 0)
      throw error(errc::bad_option,
                  "channel: connect_rate, expected a finite number, or 0 for none");
    if (!std::isfinite(burst) || burst < 1)
      throw error(errc::bad_option, "channel: connect_burst, expected a finite number from 1 on");
  }

  [[nodiscard]] bool try_take(const peer& who, std::int64_t now_ns) {
    if (rate_ == 0) return true;
    if (all_.size() >= most_) forget_full(now_ns);
    const std::int64_t key = who.pid > 0 ? who.pid : -1 - std::int64_t{who.uid};
    one& of = all_.try_emplace(key, one{rate_limit(rate_, burst_)}).first->second;
    of.asked_ns = now_ns;
    return of.limit.try_take(now_ns);
  }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

private:
  struct one {
    rate_limit limit;
    std::int64_t asked_ns = 0; ///< last
  };

  void forget_full(std::int64_t now_ns) {
    const double full_ns = burst_ / rate_ * 1e9;
    std::erase_if(all_, [&](const auto& each) {
      return static_cast<double>(now_ns - each.second.asked_ns) >= full_ns;
    });
    most_ = std::max<std::size_t>(64, 2 * all_.size());
  }

  double rate_, burst_;
  std::map<std::int64_t, one> all_;
  std::size_t most_ = 64; ///< then it looks for those that are full
};

} // namespace gsched::channel::detail
