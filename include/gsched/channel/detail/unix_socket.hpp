// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/detail/messages.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::channel::detail {

/// Who is at the other end of a socket, as the kernel knows it.
struct peer {
  pid_t pid = 0; ///< 0: in a namespace that is not visible here
  uid_t uid = 0;
  gid_t gid = 0;
};

[[noreturn]] inline void refuse_socket(const std::string& path, const char* call, int code) {
  throw error(errc::io, "channel: " + path + ": " + call + ": " +
                            std::system_category().message(code) + ", expected a Unix socket");
}

/// The address of a path. A path that begins with @ is a name without a file.
/// Errors   bad_option for a path that is empty or too long.
[[nodiscard]] inline std::pair<sockaddr_un, socklen_t> address_of(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof a.sun_path)
    throw error(errc::bad_option, "channel: a socket's path of " + std::to_string(path.size()) +
                                      " bytes, expected 1 to " +
                                      std::to_string(sizeof a.sun_path - 1));
  std::memcpy(a.sun_path, path.data(), path.size());
  if (path.front() == '@') a.sun_path[0] = '\0';
  return {a, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                    (path.front() == '@' ? 0 : 1))};
}

[[nodiscard]] inline file_descriptor make_socket(const std::string& path) {
  file_descriptor s(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) refuse_socket(path, "socket", errno);
  return s;
}

/// Listens. A socket's file that no process listens on is replaced; another file is never touched.
/// Errors   io, one line: in use by another server, or not a socket.
[[nodiscard]] inline file_descriptor listen_on(const std::string& path) {
  const auto [address, size] = address_of(path);
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  file_descriptor s = make_socket(path);
  if (path.front() != '@') {
    struct stat is {};
    if (::lstat(path.c_str(), &is) == 0) {
      if (!S_ISSOCK(is.st_mode))
        throw error(errc::io, "channel: " + path + ": a file that is no socket, expected none");
      if (::connect(make_socket(path).get(), at, size) == 0 || errno != ECONNREFUSED)
        throw error(errc::io,
                    "channel: " + path + ": a socket in use by another server, expected none");
      ::unlink(path.c_str());
    }
  }
  if (::bind(s.get(), at, size) != 0) {
    if (errno == EADDRINUSE)
      throw error(errc::io,
                  "channel: " + path + ": a socket in use by another server, expected none");
    refuse_socket(path, "bind", errno);
  }
  if (::listen(s.get(), 128) != 0) refuse_socket(path, "listen", errno);
  return s;
}

/// The file of a listener. It is removed at the end, unless another has taken its place.
class socket_file {
public:
  /// Right after the path was bound.
  explicit socket_file(std::string path) : path_(std::move(path)) {
    if (path_.front() == '@' || ::lstat(path_.c_str(), &is_) != 0) path_.clear();
  }
  socket_file(const socket_file&) = delete;
  socket_file& operator=(const socket_file&) = delete;
  ~socket_file() {
    struct stat now {};
    if (!path_.empty() && ::lstat(path_.c_str(), &now) == 0 && now.st_dev == is_.st_dev &&
        now.st_ino == is_.st_ino)
      ::unlink(path_.c_str());
  }

private:
  std::string path_; ///< empty: there is none
  struct stat is_ {};
};

/// Errors   io, one line; timed_out if the server does not accept within that time.
[[nodiscard]] inline file_descriptor connect_to(const std::string& path,
                                                duration within = std::chrono::seconds{5}) {
  const auto [address, size] = address_of(path);
  file_descriptor s = make_socket(path);
  const auto begin = std::chrono::steady_clock::now();
  while (::connect(s.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) { // the queue of the listener is full
      if (std::chrono::steady_clock::now() - begin >= within)
        throw error(errc::timed_out,
                    "channel: " + path + ": the server accepts nobody, expected it to in time");
      ::poll(nullptr, 0, 1);
      continue;
    }
    refuse_socket(path, "connect", errno);
  }
  return s;
}

[[nodiscard]] inline peer peer_of(int socket) {
  ucred c{};
  socklen_t size = sizeof c;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &size) != 0)
    throw error(errc::io, "channel: SO_PEERCRED: " + std::system_category().message(errno) +
                              ", expected a Unix socket's peer");
  return {c.pid, c.uid, c.gid};
}

/// Sends a packet, with a file if that is not -1. Never waits; false if it cannot be sent, since
/// the peer has gone or does not read.
[[nodiscard]] inline bool try_send(int socket, const message& m, int file = -1) noexcept {
  iovec what{const_cast<message*>(&m), sizeof m};
  msghdr h{};
  h.msg_iov = &what;
  h.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (file >= 0) {
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    cmsghdr* const c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &file, sizeof file);
  }
  ssize_t n;
  do n = ::sendmsg(socket, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof m);
}

/// Whether the peer has closed, or this side has shut down; what was sent before may be unread.
[[nodiscard]] inline bool has_hung_up(int socket) noexcept {
  pollfd p{socket, 0, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

enum class received : std::uint8_t {
  packet,
  nothing, ///< yet
  gone,    ///< the peer has closed
  garbage  ///< not a message of this version
};

/// Takes a packet, and the first file that came with it; further ones are closed. `lost_file`: one
/// came for which this process had no room. Never waits.
[[nodiscard]] inline received try_receive(int socket, message& m, file_descriptor* file = nullptr,
                                          bool* lost_file = nullptr) {
  iovec what{&m, sizeof m};
  msghdr h{};
  h.msg_iov = &what;
  h.msg_iovlen = 1;
  constexpr std::size_t most_files = 8;
  alignas(cmsghdr) char control[CMSG_SPACE(most_files * sizeof(int))];
  h.msg_control = control;
  ssize_t n;
  // ECONNRESET comes once, and ahead of what the peer had sent before it closed: its last words.
  // The end, too, may come ahead of them: the kernel finds the queue empty, the peer sends and
  // closes, and the kernel then sees that it has closed. A second call reads the last words.
  // A packet of no bytes, which is not ours, reads as an end too.
  for (bool reset = false, ended = false;;) {
    h.msg_controllen = sizeof control;
    n = ::recvmsg(socket, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ECONNRESET && !std::exchange(reset, true)) continue;
    if (n != 0 || h.msg_controllen > 0 || !has_hung_up(socket) || std::exchange(ended, true)) break;
  }
  if (n < 0) return errno == EAGAIN ? received::nothing : received::gone;
  if (lost_file != nullptr) *lost_file = (h.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&h); c != nullptr; c = CMSG_NXTHDR(&h, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      file_descriptor one(fd);
      if (file != nullptr && !*file) *file = std::move(one);
    }
  }
  if (n == 0) return received::gone;
  const bool whole = n == static_cast<ssize_t>(sizeof m) && (h.msg_flags & MSG_TRUNC) == 0;
  return whole && m.magic == magic ? received::packet : received::garbage;
}

/// Waits until there is something to receive, or for so long, at most an hour. False if nothing is.
inline bool wait_readable(int socket, std::chrono::nanoseconds timeout) noexcept {
  pollfd p{socket, POLLIN, 0};
  const auto ns = std::clamp<std::int64_t>(timeout.count(), 0, std::int64_t{3600} * 1'000'000'000);
  const timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
  return ::ppoll(&p, 1, &t, nullptr) > 0;
}

/// Ends the connection for both sides, whatever process has a copy of the socket.
inline void shut_down(int socket) noexcept { ::shutdown(socket, SHUT_RDWR); }

} // namespace gsched::channel::detail
