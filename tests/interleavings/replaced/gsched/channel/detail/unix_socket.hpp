// SPDX-License-Identifier: Apache-2.0
#pragma once

// In place of the library's: one connection whose packets are steps of an explorer.

#include "interleavings/explorer.hpp"

#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/detail/messages.hpp>
#include <gsched/core/time.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace gsched::channel::detail {

/// The only connection there is. Its numbers are those of no file, so that closing one is no harm.
struct network {
  static constexpr int client_end = 1 << 28; ///< numbers that no file has
  static constexpr int server_end = client_end + 1;
  static constexpr int a_file = client_end + 2;

  std::deque<message> to_client, to_server;
  bool client_closed = false;
  bool server_closed = false;
  std::size_t room = 2; ///< packets that wait in each direction

  [[nodiscard]] static network& it() {
    static network n;
    return n;
  }
};

[[nodiscard]] inline file_descriptor connect_to(const std::string&,
                                                duration = std::chrono::seconds{5}) {
  return file_descriptor(network::client_end);
}

[[nodiscard]] inline bool try_send(int socket, const message& m, int = -1) noexcept {
  network& n = network::it();
  if (m.kind == message_kind::hello) {
    message welcome;
    welcome.kind = message_kind::welcome;
    welcome.in_flight = 1024;
    n.to_client.push_back(welcome);
    return true;
  }
  return interleavings::explorer::current()->call([&]() -> std::uint64_t {
    auto& to = socket == network::client_end ? n.to_server : n.to_client;
    const bool closed = socket == network::client_end ? n.server_closed : n.client_closed;
    if (closed || to.size() >= n.room) return 0;
    to.push_back(m);
    return 1;
  }) != 0;
}

enum class received : std::uint8_t { packet, nothing, gone, garbage };

[[nodiscard]] inline received try_receive(int socket, message& m, file_descriptor* file = nullptr,
                                          bool* = nullptr) {
  network& n = network::it();
  if (file != nullptr) *file = file_descriptor(network::a_file);
  return static_cast<received>(interleavings::explorer::current()->call([&]() -> std::uint64_t {
    auto& from = socket == network::client_end ? n.to_client : n.to_server;
    const bool closed = socket == network::client_end ? n.server_closed : n.client_closed;
    if (from.empty())
      return static_cast<std::uint64_t>(closed ? received::gone : received::nothing);
    m = from.front();
    from.pop_front();
    return static_cast<std::uint64_t>(received::packet);
  }));
}

[[nodiscard]] inline bool has_hung_up(int socket) noexcept {
  network& n = network::it();
  return interleavings::explorer::current()->call([&]() -> std::uint64_t {
    return (socket == network::client_end ? n.server_closed : n.client_closed) ? 1 : 0;
  }) != 0;
}

/// The tests close the connection by themselves.
inline void shut_down(int) noexcept {}

/// Without a limit: that a time is over is no way to be woken.
inline bool wait_readable(int socket, std::chrono::nanoseconds) noexcept {
  network& n = network::it();
  interleavings::explorer::current()->wait([&n, socket] {
    return socket == network::client_end ? !n.to_client.empty() || n.server_closed
                                         : !n.to_server.empty() || n.client_closed;
  });
  return true;
}

} // namespace gsched::channel::detail
