// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/address.hpp"

#include <gsched/channel/spare_descriptor.hpp>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace gsched_server {

/// Listens on a Unix or TCP socket, and accepts connections on a thread of its own.
///
/// Where the process has no file descriptor left, a connection is accepted in the place of a spare
/// one and refused, so that its client learns why and does not wait. Others are not affected, and
/// connections are taken again once there are descriptors.
///
/// Errors   run_error for an address that cannot be used.
/// Threads  one owner.
class socket_listener {
public:
  using on_socket = std::function<void(int socket)>;

  /// Listens, and accepts nothing yet.
  explicit socket_listener(const address& at);
  /// As stop().
  ~socket_listener();
  socket_listener(const socket_listener&) = delete;
  socket_listener& operator=(const socket_listener&) = delete;

  /// `take` owns each socket that it is given, and returns at once; `flags` are those of accept4.
  /// `no_files_left` is what a client is sent that is refused. Once.
  void start(int flags, on_socket take, std::string no_files_left);
  /// No more connections, besides those that have come before.
  void stop();

  /// With the port that it has.
  [[nodiscard]] const address& listens_at() const noexcept { return at_; }
  [[nodiscard]] bool stops() const noexcept { return stops_.load(std::memory_order_relaxed); }

private:
  void accept_all();
  void refuse(int socket);

  address at_;
  int socket_ = -1, bell_ = -1, flags_ = 0;
  gsched::channel::spare_descriptor spare_;
  on_socket take_;
  std::string no_files_left_;
  std::atomic<bool> stops_{false};
  std::thread acceptor_;
};

} // namespace gsched_server
