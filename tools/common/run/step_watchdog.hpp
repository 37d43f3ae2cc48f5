// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace common {

/// Ends the process, with status 3 and one line, if a step exceeds its time limit, because a hung
/// GPU cannot be waited for.
class step_watchdog {
public:
  explicit step_watchdog(std::string program)
      : program_(std::move(program)), thread_([this] { watch(); }) {}
  ~step_watchdog() {
    {
      const std::lock_guard hold(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  step_watchdog(const step_watchdog&) = delete;
  step_watchdog& operator=(const step_watchdog&) = delete;

  void step(std::string what, std::chrono::seconds most) {
    const std::lock_guard hold(mutex_);
    what_ = std::move(what);
    most_ = most;
    until_ = std::chrono::steady_clock::now() + most;
  }
  /// The step goes on: its time begins again.
  void restart() {
    const std::lock_guard hold(mutex_);
    until_ = std::chrono::steady_clock::now() + most_;
  }

private:
  void watch() {
    std::unique_lock hold(mutex_);
    while (!ended_) {
      changed_.wait_for(hold, std::chrono::milliseconds{100});
      if (ended_ || std::chrono::steady_clock::now() < until_) continue;
      std::fflush(stdout);
      std::fprintf(stderr, "%s: %s: hangs, expected it to end\n", program_.c_str(), what_.c_str());
      std::_Exit(3);
    }
  }

  std::string program_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  std::chrono::seconds most_ = std::chrono::hours{24};
  std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::time_point::max();
  bool ended_ = false;
  std::thread thread_; ///< last member: uses the others
};

} // namespace common
