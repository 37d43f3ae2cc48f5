// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace common {

/// A bar on stderr that is redrawn as the part done rises; nothing if not enabled.
class progress_bar {
public:
  progress_bar(std::string label, std::uint64_t total, bool enabled);
  ~progress_bar(); ///< wipes the line
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  void update(std::uint64_t done);

private:
  std::string label_;
  std::uint64_t total_;
  int drawn_ = -1; ///< percent on the screen
  bool enabled_;
};

/// One bar for runs on several threads, each of `total` steps.
class shared_bar {
public:
  shared_bar(std::string label, std::size_t runs, std::uint64_t total, bool enabled);

  /// Threads  any; of one run, one at a time.
  void update(std::size_t run, std::uint64_t done);

private:
  bool enabled_;
  std::vector<std::atomic<std::uint64_t>> done_;
  std::mutex mutex_;
  progress_bar bar_;
};

} // namespace common
