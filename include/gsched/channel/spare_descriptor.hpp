// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/file_descriptor.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace gsched::channel {

/// A file descriptor that a listener keeps open until its process has no other left. It then gives
/// this one to the next connection, and tells that client why it is refused. Without a spare one
/// the client would wait, and get no answer.
///
/// Listeners of one process accept one at a time, so none takes what another frees for a
/// connection. Where other code takes it, accept() fails with EMFILE, and the client waits for the
/// next call.
///
/// Threads  one at a time, each with an object of its own.
class spare_descriptor {
public:
  struct connection {
    int socket = -1;      ///< of the caller; -1: none, with the errno of accept4
    bool refused = false; ///< it has the spare one's place: answer, then put_back()
  };

  spare_descriptor() noexcept : source_(open_one()), spare_(open_one()) {}

  /// As accept4 of a listener that does not block.
  [[nodiscard]] connection accept(int listener, int flags) noexcept {
    static std::mutex accepting; // of the process
    const std::scoped_lock held(accepting);
    if (!source_) source_ = open_one();
    if (!spare_) spare_ = open_one();
    int s = ::accept4(listener, nullptr, nullptr, flags);
    if (s >= 0 || !none_left() || !spare_) return {s};
    spare_.reset();
    s = ::accept4(listener, nullptr, nullptr, flags);
    if (s >= 0) return {s, true};
    const int why = errno;
    spare_ = open_one();
    errno = why;
    return {};
  }

  /// Closes a refused connection, whose place the spare descriptor takes at the same moment: no
  /// other thread gets it.
  void put_back(int socket) noexcept {
    if (::dup3(source_.get(), socket, O_CLOEXEC) < 0)
      ::close(socket);
    else
      spare_ = detail::file_descriptor(socket);
  }

  /// Whether errno says that the process, or the machine, has no descriptors left.
  [[nodiscard]] static bool none_left() noexcept {
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
  }

private:
  [[nodiscard]] static detail::file_descriptor open_one() noexcept {
    return detail::file_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }

  detail::file_descriptor source_; ///< what the spare one is a duplicate of
  detail::file_descriptor spare_;  ///< none while a refused connection has its place
};

} // namespace gsched::channel
