// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/address.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gsched_server {

/// Accepts connections on a Unix or TCP socket and hands each to one of its threads.
///
/// Errors   run_error for an address that cannot be used.
/// Threads  one owner.
class http_listener {
public:
  /// Serves a connection until it ends; closes nothing. Called on several threads.
  using serve_connection = std::function<void(int socket)>;

  http_listener(const address& at, std::uint32_t threads, serve_connection serve);
  /// As stop().
  ~http_listener();
  http_listener(const http_listener&) = delete;
  http_listener& operator=(const http_listener&) = delete;

  /// With the port that it has.
  [[nodiscard]] const address& listens_at() const noexcept { return at_; }
  /// No more connections; waits until `serve` has returned for all.
  void stop();
  /// True from then on: connections end after the request that they are at.
  [[nodiscard]] bool stops() const noexcept { return stops_.load(std::memory_order_relaxed); }
  /// Whether connections wait for a thread: one that is idle may end.
  [[nodiscard]] bool is_short_of_threads() const noexcept {
    return waiting_.load(std::memory_order_relaxed) > 0;
  }

private:
  void accept_all();
  void work();

  address at_;
  serve_connection serve_;
  int socket_ = -1, bell_ = -1;
  std::atomic<bool> stops_{false};
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_; ///< of the queue
  std::condition_variable has_come_;
  std::deque<int> accepted_;
  std::thread acceptor_;
  std::vector<std::thread> workers_;
};

} // namespace gsched_server
