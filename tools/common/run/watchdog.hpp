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

/// Ends the process with status 3 and one line if it exists for longer than so many seconds: a GPU
/// that hangs cannot be waited for.
class watchdog {
public:
  watchdog(std::string program, double seconds)
      : thread_([this, program = std::move(program), seconds] {
          std::unique_lock hold(mutex_);
          if (ended_.wait_for(hold, std::chrono::duration<double>(seconds),
                              [this] { return done_; }))
            return;
          std::fprintf(stderr, "%s: the GPU does not answer, expected it to within --limit\n",
                       program.c_str());
          std::fflush(nullptr);
          std::_Exit(3);
        }) {}
  ~watchdog() {
    {
      const std::lock_guard hold(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_; ///< last: it uses the others
};

} // namespace common
