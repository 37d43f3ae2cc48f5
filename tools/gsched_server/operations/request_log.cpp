// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/request_log.hpp"

#include "common/cli/option_values.hpp"
#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/trace/json_text.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <sstream>
#include <utility>

namespace gsched_server {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t most_at_once = 4096; ///< a pipe that is writable takes so many without a wait

std::string as_json(std::string_view text) {
  std::ostringstream out;
  gsched::trace::put_text(out, text);
  return out.str();
}

std::string_view level_of(outcome o) noexcept {
  switch (o) {
  case outcome::ok:
  case outcome::cancelled: return "info";
  case outcome::failed:
  case outcome::unavailable: return "error";
  default: return "warning";
  }
}

std::string time_text(std::chrono::system_clock::time_point at) {
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
  const std::time_t s = us / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&s, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:06}Z", text.data(), us % 1'000'000);
}

int open_file(const std::string& file) noexcept {
  // Without O_NONBLOCK the open of a named pipe waits for its reader.
  return ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
}

bool is_pipe(int fd) noexcept {
  struct stat s {};
  return ::fstat(fd, &s) == 0 && !S_ISREG(s.st_mode);
}

} // namespace

std::string to_line(const log_entry& e) {
  if (!e.message.empty())
    return fmt::format(R"({{"time":"{}","level":"info","message":{}}})"
                       "\n",
                       time_text(e.at), as_json(e.message));
  const answer& a = e.end;
  std::string line = fmt::format(
      R"({{"time":"{}","level":"{}","request":{},"model":{},"tenant":{},"end":"{}",)"
      R"("wait_us":{:.1f},"latency_us":{:.1f})",
      time_text(e.at), level_of(a.what), as_json(a.id), as_json(e.model), as_json(e.tenant),
      to_string(a.what), gsched::to_us(a.waited), gsched::to_us(a.latency));
  if (e.device) line += fmt::format(R"(,"device":{})", *e.device);
  if (a.missed_deadline) line += R"(,"missed_deadline":true)";
  if (a.reason != refused_for::nothing)
    line += fmt::format(R"(,"reason":"{}")", reason_names[static_cast<std::size_t>(a.reason)]);
  if (!a.line.empty()) line += R"(,"error":)" + as_json(a.line);
  return line + "}\n";
}

request_log::request_log(std::string file) : file_(std::move(file)) {
  fd_ = is_standard_output() ? STDOUT_FILENO : open_file(file_);
  if (fd_ < 0)
    throw common::run_error(gsched::errc::io, "--log: " + common::in_quotes(file_) + ": " +
                                                  std::strerror(errno) +
                                                  ", expected a file that can be written");
  is_pipe_ = is_pipe(fd_);
  writer_ = std::thread([this] { work(); });
}

request_log::~request_log() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    gives_up_.store(clock::now() + std::chrono::seconds{1}, std::memory_order_relaxed);
  }
  has_come_.notify_all();
  writer_.join();
  if (!is_standard_output() && fd_ >= 0) ::close(fd_);
}

void request_log::add(log_entry e) noexcept {
  try {
    e.at = std::chrono::system_clock::now();
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() < most_waiting) {
        waiting_.push_back(std::move(e));
        if (waiting_.size() > 1) return; // the writer was told
      } else {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        has_come_.notify_one();
        return;
      }
    }
    has_come_.notify_one();
  } catch (const std::exception&) { // no memory
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

void request_log::note(std::string message) noexcept {
  log_entry e;
  e.message = std::move(message);
  add(std::move(e));
}

void request_log::reopen() noexcept {
  {
    const std::lock_guard lock(mutex_);
    reopens_ = true;
  }
  has_come_.notify_one();
}

void request_log::work() {
  std::vector<log_entry> taken;
  std::uint64_t seen_dropped = 0; ///< by add
  std::unique_lock lock(mutex_);
  for (;;) {
    has_come_.wait(lock, [&] { return ends_ || reopens_ || !waiting_.empty(); });
    if (waiting_.empty() && !reopens_ && ends_) return;
    taken.swap(waiting_);
    const bool reopens = std::exchange(reopens_, false);
    lock.unlock();
    try {
      put(taken);
      if (reopens) open_again();
      const std::uint64_t dropped = dropped_.load(std::memory_order_relaxed);
      if (dropped != std::exchange(seen_dropped, dropped)) lose(0, EAGAIN);
    } catch (const std::exception&) { // no memory for the text
      lose(taken.size(), ENOMEM);
    }
    taken.clear();
    lock.lock();
  }
}

void request_log::put(const std::vector<log_entry>& all) {
  std::string text;
  std::uint64_t lines = 0;
  const auto flush = [&] {
    if (lines == 0) return;
    if (put(text))
      written_.fetch_add(lines, std::memory_order_relaxed);
    else
      lose(lines, errno);
    text.clear();
    lines = 0;
  };
  for (const log_entry& e : all) {
    const std::string line = to_line(e);
    if (text.size() + line.size() > (is_pipe_ ? most_at_once : 16 * most_at_once)) flush();
    text += line;
    ++lines;
  }
  flush();
}

/// False, with errno, if not all of it was written.
bool request_log::put(std::string_view text) {
  if (fd_ < 0) return errno = EBADF, false;
  const std::string after_part = torn_ ? "\n" + std::string(text) : std::string();
  if (torn_) text = after_part;
  const std::size_t all = text.size();
  while (!text.empty()) {
    if (is_pipe_) {
      const bool is_late = clock::now() >= gives_up_.load(std::memory_order_relaxed);
      pollfd p{fd_, POLLOUT, 0};
      if (::poll(&p, 1, is_late ? 0 : 100) <= 0) {
        if (is_late) return errno = EAGAIN, false;
        continue;
      }
    }
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      torn_ |= text.size() != all;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  torn_ = false;
  return true;
}

void request_log::open_again() {
  if (is_standard_output()) return;
  const int next = open_file(file_);
  if (next < 0) { // the old one stays
    const int why = errno;
    fmt::print(stderr, "gsched_server: --log: {}: {}, expected a file that can be written\n",
               common::in_quotes(file_), std::strerror(why));
    return;
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = next;
  is_pipe_ = is_pipe(fd_);
  complained_.store(false, std::memory_order_relaxed);
}

/// Counts lines that are gone, and says so the first time.
void request_log::lose(std::uint64_t lines, int why) noexcept {
  dropped_.fetch_add(lines, std::memory_order_relaxed);
  if (complained_.exchange(true, std::memory_order_relaxed)) return;
  std::fprintf(stderr, "gsched_server: --log: lines are dropped: %s; serving goes on\n",
               why == EAGAIN ? "they come faster than they can be written" : std::strerror(why));
}

void request_log::write(metrics_text& out) const {
  out.metric("gsched_log_lines_total", "counter", "Lines of the log that were written.");
  out.sample("", "", static_cast<double>(written_.load(std::memory_order_relaxed)));
  out.metric("gsched_log_lines_dropped_total", "counter",
             "Lines of the log that could not be written.");
  out.sample("", "", static_cast<double>(dropped_.load(std::memory_order_relaxed)));
}

} // namespace gsched_server
