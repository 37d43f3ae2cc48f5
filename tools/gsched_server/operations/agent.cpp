// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/operations/agent.hpp"

#include "gsched_server/network/http_listener.hpp"
#include "gsched_server/requests/service.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace gsched_server {

std::string agent_line(const load_figures& l) {
  if (l.failed) return "down#the device has failed\n";
  if (!l.ready) return "drain\n";
  return fmt::format("up ready {}%\n", std::max(1L, std::lround(100 * (1 - l.fill()))));
}

namespace {

constexpr std::uint32_t threads = 2;
constexpr int patience_ms = 200; ///< for the client to close, so that it gets to the line first

void give_line(int socket, const std::string& line) {
  static_cast<void>(::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  ::shutdown(socket, SHUT_WR);
  std::array<char, 512> sent; // by the client: what is not read would reset the connection
  pollfd p{socket, POLLIN, 0};
  for (int most = 16; most > 0 && ::poll(&p, 1, patience_ms) > 0; --most)
    if (::recv(socket, sent.data(), sent.size(), MSG_DONTWAIT) <= 0) return;
}

} // namespace

struct agent::state {
  state(service& of, const address& at)
      : listener(
            at, threads, [&of](int socket) { give_line(socket, agent_line(of.load())); }, "\n") {}
  http_listener listener;
};

agent::agent(service& of, const address& at) : state_(std::make_unique<state>(of, at)) {}
agent::~agent() = default;

const address& agent::listens_at() const noexcept { return state_->listener.listens_at(); }

} // namespace gsched_server
