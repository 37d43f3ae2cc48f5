// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// Shared by the experiments on a GPU: clock, quantiles, a watchdog.
namespace experiment {

[[nodiscard]] inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Nearest rank; 0 without values.
[[nodiscard]] inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = static_cast<std::ptrdiff_t>(std::lround(q * last));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

[[nodiscard]] inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// Ends the process with status 3 and one line if a step exceeds its time limit. A GPU that hangs
/// cannot be waited for, so nothing is cleaned up.
class watchdog {
public:
  explicit watchdog(std::string program)
      : program_(std::move(program)), thread_([this] { watch(); }) {}
  ~watchdog() {
    ended_.store(true, std::memory_order_release); // pairs with watch()
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  /// Starts a step with a new time limit.
  void step(std::string what, double seconds) {
    const std::lock_guard hold(mutex_);
    what_ = std::move(what);
    until_ = seconds_now() + seconds;
  }
  void rest() {
    const std::lock_guard hold(mutex_);
    until_ = -1;
  }

private:
  void watch() {
    while (!ended_.load(std::memory_order_acquire)) {
      {
        const std::lock_guard hold(mutex_);
        if (until_ >= 0 && seconds_now() > until_) {
          std::fprintf(stderr, "%s: %s hangs; given up\n", program_.c_str(), what_.c_str());
          std::fflush(nullptr);
          std::_Exit(3);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
  }

  std::string program_;
  std::string what_;
  double until_ = -1;
  std::mutex mutex_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

} // namespace experiment
