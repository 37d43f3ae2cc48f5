// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/network/socket_listener.hpp"
#include "gsched_server/settings/address.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gsched_server {

/// Hands each connection of a Unix or TCP socket to one of its threads.
///
/// Errors   run_error for an address that cannot be used.
/// Threads  one owner.
class http_listener {
public:
  /// Serves a connection until it ends; closes nothing. Called on several threads.
  using serve_connection = std::function<void(int socket)>;

  /// `no_files_left` is what a client gets for which there is no file descriptor.
  http_listener(const address& at, std::uint32_t threads, serve_connection serve,
                std::string no_files_left);
  /// As stop().
  ~http_listener();
  http_listener(const http_listener&) = delete;
  http_listener& operator=(const http_listener&) = delete;

  /// With the port that it has.
  [[nodiscard]] const address& listens_at() const noexcept { return listener_.listens_at(); }
  /// No more connections; waits until `serve` has returned for all.
  void stop();
  /// True from then on: connections end after the request that they are at.
  [[nodiscard]] bool stops() const noexcept { return listener_.stops(); }
  /// Whether more connections wait for a thread than threads are free: one that is idle may end.
  [[nodiscard]] bool is_short_of_threads() const noexcept {
    return waiting_.load(std::memory_order_relaxed) > free_.load(std::memory_order_relaxed);
  }

private:
  void take(int socket);
  void work();

  serve_connection serve_;
  std::atomic<std::size_t> waiting_{0}, free_{0}; ///< connections, and threads
  std::mutex mutex_;                              ///< of the queue
  std::condition_variable has_come_;
  bool ends_ = false;
  std::deque<int> accepted_;
  std::vector<std::thread> workers_;
  socket_listener listener_;
};

} // namespace gsched_server
