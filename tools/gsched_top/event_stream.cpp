// SPDX-License-Identifier: Apache-2.0
#include "gsched_top/event_stream.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace gsched_top {

using gsched_server::address;

namespace {

constexpr std::size_t longest_line = std::size_t{16} << 20;
constexpr timeval patience{10, 0};

/// A connected socket, or -1 and errno.
int connect_to(const address& to, std::string& why) {
  if (to.what == address::kind::unix_socket) {
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    to.path.copy(path.sun_path, sizeof path.sun_path - 1);
    const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && ::connect(s, reinterpret_cast<const sockaddr*>(&path), sizeof path) == 0)
      return s;
    why = std::strerror(errno);
    if (s >= 0) ::close(s);
    return -1;
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int e = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found);
      e != 0) {
    why = ::gai_strerror(e);
    return -1;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, ::freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int s = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && ::connect(s, a->ai_addr, a->ai_addrlen) == 0) return s;
    why = std::strerror(errno);
    if (s >= 0) ::close(s);
  }
  return -1;
}

} // namespace

event_stream::event_stream(const address& of) : at_(of.text()) {
  std::string why;
  socket_ = connect_to(of, why);
  if (socket_ < 0) fail(why + ", expected the --http of a gsched_server");
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  constexpr std::string_view request =
      "GET /events HTTP/1.1\r\nHost: gsched\r\nAccept: text/event-stream\r\n\r\n";
  if (::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    fail(std::string(std::strerror(errno)) + ", expected a server that takes a request");
  const std::optional<std::string> status = line();
  if (!status || status->substr(0, 9) != "HTTP/1.1 ")
    fail("no HTTP, expected the --http of a gsched_server, without TLS");
  if (const std::string code = status->substr(9, 3); code != "200")
    fail("HTTP status " + code + (code == "503" ? ": too many watch, or the server ends" : "") +
         ", expected 200");
  for (std::optional<std::string> header = line(); header && !header->empty(); header = line()) {
  }
}

event_stream::~event_stream() {
  if (socket_ >= 0) ::close(socket_);
}

std::optional<std::string> event_stream::next() {
  constexpr std::string_view data = "data: ";
  for (std::optional<std::string> l = line(); l; l = line())
    if (l->starts_with(data)) return l->substr(data.size());
  return std::nullopt;
}

std::optional<std::string> event_stream::line() {
  for (std::size_t seen = 0;;) {
    if (const std::size_t end = read_.find('\n', seen); end != read_.npos) {
      std::string out = read_.substr(0, end);
      read_.erase(0, end + 1);
      if (!out.empty() && out.back() == '\r') out.pop_back();
      return out;
    }
    seen = read_.size();
    if (seen > longest_line) fail("a line of more than 16 MiB, expected events");
    std::array<char, 16384> part;
    ssize_t n = 0;
    do n = ::recv(socket_, part.data(), part.size(), 0);
    while (n < 0 && errno == EINTR);
    if (n == 0) return std::nullopt;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      fail("nothing for 10 s, expected events");
    if (n < 0) fail(std::string(std::strerror(errno)) + ", expected events");
    read_.append(part.data(), static_cast<std::size_t>(n));
  }
}

void event_stream::fail(const std::string& why) const {
  throw common::run_error(gsched::errc::io, at_ + ": " + why);
}

} // namespace gsched_top
