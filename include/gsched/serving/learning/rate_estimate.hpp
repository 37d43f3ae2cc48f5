// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>

namespace gsched {

/// Parameters of a rate estimate.
struct rate_memory {
  duration window = std::chrono::seconds{1}; ///< over which requests are counted
  double weight = 0.3; ///< of the newest window; a window's weight falls by 1 - weight with each
                       ///< later one
};

/// Estimates a request rate: an exponentially weighted moving average over windows of equal length.
/// The first window sets the average. Until it ends, the estimate is the number of requests over
/// the elapsed time. Empty windows count.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3; the paper gives no weight.
/// Units    requests a second.
/// Errors   the constructor: bad_option for a window that is not above 0, or a weight outside
///          (0, 1].
/// Cost     O(1), also after many empty windows; no allocation.
/// Threads  one owner. The caller owes: `now` never falls.
class rate_estimate {
public:
  explicit rate_estimate(time_point begin = {}, rate_memory memory = {})
      : memory_(memory), begin_(begin) {
    if (memory.window <= duration::zero())
      throw error(errc::bad_option, "rate window of " + std::to_string(memory.window.count()) +
                                        " ns, expected more than 0");
    if (!(memory.weight > 0 && memory.weight <= 1))
      throw error(errc::bad_option,
                  "rate weight of " + number_text(memory.weight) + ", expected above 0, at most 1");
  }

  void arrive(time_point now, std::uint64_t requests = 1) noexcept {
    if (now - begin_ >= memory_.window) close(now);
    count_ += requests;
  }

  [[nodiscard]] double rate(time_point now) const noexcept {
    rate_estimate then = *this;
    if (now - begin_ >= memory_.window) then.close(now);
    if (then.known_) return then.mean_;
    return now > begin_ ? static_cast<double>(count_) / to_s(now - begin_) : 0;
  }

private:
  void close(time_point now) noexcept {
    const std::int64_t windows = (now - begin_) / memory_.window;
    const double newest = static_cast<double>(count_) / to_s(memory_.window);
    mean_ = known_ ? mean_ + memory_.weight * (newest - mean_) : newest;
    if (windows > 1) mean_ *= std::pow(1 - memory_.weight, static_cast<double>(windows - 1));
    known_ = true;
    begin_ += windows * memory_.window;
    count_ = 0;
  }

  rate_memory memory_;
  time_point begin_; ///< of the current window
  std::uint64_t count_ = 0;
  double mean_ = 0;
  bool known_ = false; ///< at least one window has ended
};

} // namespace gsched
