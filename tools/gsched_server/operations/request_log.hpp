// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/operations/metrics.hpp"
#include "gsched_server/requests/answer.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace gsched_server {

/// A line of the log.
struct log_entry {
  std::chrono::system_clock::time_point at{};
  std::string model, tenant;
  std::optional<std::uint32_t> device{}; ///< none of a request that got to none
  answer end;
  std::string message{}; ///< not empty: a line about the server, without a request
};
/// As JSON, with the end of the line. Bytes that are not UTF-8 become question marks.
[[nodiscard]] std::string to_line(const log_entry& e);

/// Writes one JSON object a line, on a thread of its own.
///
/// Serving never waits for it: where lines come faster than they can be written, the disk is full
/// or nothing reads the pipe, they are dropped and counted, and the first time one line on standard
/// error says so.
///
/// Cost     add: a lock, and a move of an entry.
/// Threads  any, but for the constructor and the destructor.
class request_log {
public:
  static constexpr std::size_t most_waiting = 8192; ///< lines

  /// A file's path, to which it appends, or "-": standard output.
  /// Errors   run_error for a file that cannot be opened.
  explicit request_log(std::string file);
  /// Writes what waits, for a second at most.
  ~request_log();
  request_log(const request_log&) = delete;
  request_log& operator=(const request_log&) = delete;

  void add(log_entry e) noexcept;
  /// A line about the server.
  void note(std::string message) noexcept;
  /// Opens the file again, as it may have been renamed. Lines added before it may go to either.
  void reopen() noexcept;

  [[nodiscard]] bool is_standard_output() const noexcept { return file_ == "-"; }
  void write(metrics_text& out) const;

private:
  void work();
  void put(const std::vector<log_entry>& all);
  [[nodiscard]] bool put(std::string_view text);
  void open_again();
  void lose(std::uint64_t lines, int why) noexcept;

  std::string file_;
  int fd_ = -1;
  bool is_pipe_ = false;
  bool torn_ = false; ///< the file ends with a part of a line
  std::atomic<std::uint64_t> written_{0}, dropped_{0};
  std::atomic<bool> complained_{false};
  std::atomic<std::chrono::steady_clock::time_point> gives_up_{
      std::chrono::steady_clock::time_point::max()};

  std::mutex mutex_; ///< of what follows
  std::condition_variable has_come_;
  std::vector<log_entry> waiting_;
  bool reopens_ = false, ends_ = false;
  std::thread writer_;
};

} // namespace gsched_server
