// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/socket_listener.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace gsched_server {

namespace {

constexpr int backlog = 256;
constexpr std::chrono::milliseconds until_some_close{10};

[[noreturn]] void refuse_address(const address& at, const std::string& why) {
  throw common::run_error(gsched::errc::io,
                          at.text() + ": " + why + ", expected a free address of this machine");
}

int listen_on_path(const address& at) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  at.path.copy(to.sun_path, sizeof to.sun_path - 1);
  const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0 || ::bind(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 ||
      ::listen(s, backlog) != 0) {
    const int why = errno;
    if (s >= 0) ::close(s);
    refuse_address(at, std::strerror(why));
  }
  return s;
}

int listen_on_port(address& at) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int e = ::getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found);
      e != 0)
    refuse_address(at, ::gai_strerror(e));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, ::freeaddrinfo);
  const int s = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (s >= 0) ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (s < 0 || ::bind(s, found->ai_addr, found->ai_addrlen) != 0 || ::listen(s, backlog) != 0) {
    const int why = errno;
    if (s >= 0) ::close(s);
    refuse_address(at, std::strerror(why));
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(s, reinterpret_cast<sockaddr*>(&bound), &size);
  at.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                              : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return s;
}

/// Reads what has come or comes in this time, until the client closes its side.
void read_for(int socket, std::chrono::milliseconds time) noexcept {
  std::array<char, 4096> ignored;
  const auto until = std::chrono::steady_clock::now() + time;
  for (pollfd p{socket, POLLIN, 0};;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() < 0 || ::poll(&p, 1, static_cast<int>(left.count())) <= 0) return;
    if (::recv(socket, ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) return;
  }
}

} // namespace

socket_listener::socket_listener(const address& at) : at_(at) {
  claim(at);
  socket_ = at.what == address::kind::unix_socket ? listen_on_path(at_) : listen_on_port(at_);
  bell_ = ::eventfd(0, EFD_CLOEXEC);
}

socket_listener::~socket_listener() {
  stop();
  for (const int each : {socket_, bell_})
    if (each >= 0) ::close(each);
}

void socket_listener::start(int flags, on_socket take, std::string no_files_left) {
  flags_ = flags | SOCK_CLOEXEC;
  take_ = std::move(take);
  no_files_left_ = std::move(no_files_left);
  // Not blocking, since a client that has come may have left when it is accepted.
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  acceptor_ = std::thread([this] { accept_all(); });
}

void socket_listener::stop() {
  if (stops_.exchange(true)) return;
  if (at_.what == address::kind::unix_socket) ::unlink(at_.path.c_str()); // no more come
  static_cast<void>(::eventfd_write(bell_, 1));
  if (acceptor_.joinable()) acceptor_.join();
  ::close(std::exchange(socket_, -1));
}

void socket_listener::accept_all() {
  std::array<pollfd, 2> both{{{socket_, POLLIN, 0}, {bell_, POLLIN, 0}}};
  // Until it stops, and then those that have come before.
  for (int left = backlog; !stops() || (left-- > 0 && ::poll(both.data(), 1, 0) > 0);) {
    if (::poll(both.data(), both.size(), -1) < 0 || both[0].revents == 0) continue;
    const auto [s, refused] = spare_.accept(socket_, flags_);
    if (refused)
      refuse(s);
    else if (s < 0 && gsched::channel::spare_descriptor::none_left())
      std::this_thread::sleep_for(until_some_close);
    if (refused || s < 0) continue;
    const int yes = 1;
    if (at_.what == address::kind::tcp) ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    take_(s);
  }
}

void socket_listener::refuse(int socket) {
  constexpr std::chrono::milliseconds for_request{20}, for_answer{20};
  read_for(socket, for_request); // or it would learn only that the connection is closed
  static_cast<void>(
      ::send(socket, no_files_left_.data(), no_files_left_.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  ::shutdown(socket, SHUT_WR);
  read_for(socket, for_answer);
  spare_.put_back(socket);
}

} // namespace gsched_server
