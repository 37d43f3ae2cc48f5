// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

namespace gsched::channel::detail {

/// Owns a file descriptor. Threads  one at a time.
class file_descriptor {
public:
  file_descriptor() = default;
  explicit file_descriptor(int owned) noexcept : fd_(owned) {}
  file_descriptor(file_descriptor&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}
  file_descriptor& operator=(file_descriptor&& from) noexcept {
    if (this != &from) {
      reset();
      fd_ = std::exchange(from.fd_, -1);
    }
    return *this;
  }
  ~file_descriptor() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int get() const noexcept { return fd_; }
  void reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

private:
  int fd_ = -1;
};

} // namespace gsched::channel::detail
