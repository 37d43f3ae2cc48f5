// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/http_listener.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

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

namespace gsched_server {

namespace {

constexpr int backlog = 256;

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

} // namespace

http_listener::http_listener(const address& at, std::uint32_t threads, serve_connection serve)
    : at_(at), serve_(std::move(serve)) {
  claim(at);
  socket_ = at.what == address::kind::unix_socket ? listen_on_path(at_) : listen_on_port(at_);
  bell_ = ::eventfd(0, EFD_CLOEXEC);
  for (std::uint32_t i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  acceptor_ = std::thread([this] { accept_all(); });
}

http_listener::~http_listener() { stop(); }

void http_listener::stop() {
  if (stops_.exchange(true)) return;
  if (at_.what == address::kind::unix_socket) ::unlink(at_.path.c_str()); // no more come
  static_cast<void>(::eventfd_write(bell_, 1));
  acceptor_.join();
  { const std::lock_guard lock(mutex_); }
  has_come_.notify_all();
  for (std::thread& each : workers_) each.join();
  ::close(socket_);
  ::close(bell_);
}

void http_listener::accept_all() {
  std::array<pollfd, 2> both{{{socket_, POLLIN, 0}, {bell_, POLLIN, 0}}};
  // Until it stops, and then those that have come before.
  for (int left = backlog; !stops() || (left-- > 0 && ::poll(both.data(), 1, 0) > 0);) {
    if (::poll(both.data(), both.size(), -1) < 0 || both[0].revents == 0) continue;
    const int s = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (s < 0) { // no more files, or the client has left
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    const int yes = 1;
    if (at_.what == address::kind::tcp) ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    {
      const std::lock_guard lock(mutex_);
      accepted_.push_back(s);
      waiting_.store(accepted_.size(), std::memory_order_relaxed);
    }
    has_come_.notify_one();
  }
}

void http_listener::work() {
  for (;;) {
    int s = -1;
    {
      std::unique_lock lock(mutex_);
      has_come_.wait(lock, [&] { return stops() || !accepted_.empty(); });
      if (accepted_.empty()) return;
      s = accepted_.front();
      accepted_.pop_front();
      waiting_.store(accepted_.size(), std::memory_order_relaxed);
    }
    serve_(s);
    ::close(s);
  }
}

} // namespace gsched_server
