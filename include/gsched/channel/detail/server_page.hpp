// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/detail/messages.hpp>
#include <gsched/core/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::channel::detail {

/// One page that a server writes and its clients read: a client cannot even map it for writing.
///
/// Errors   gsched::error io, one line.
class server_page {
public:
  server_page() : file_(::memfd_create("gsched-server", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (!file_ || ::ftruncate(file_.get(), bytes) != 0) refuse("memfd_create");
    map(PROT_READ | PROT_WRITE);
    if (::fcntl(file_.get(), F_ADD_SEALS,
                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
      refuse("seals");
  }
  /// A client's view of what the server has handed over.
  explicit server_page(file_descriptor file) : file_(std::move(file)) {
    struct stat s {};
    const int seals = ::fcntl(file_.get(), F_GET_SEALS);
    if (::fstat(file_.get(), &s) != 0 || s.st_size < bytes || seals < 0 ||
        (seals & F_SEAL_SHRINK) == 0)
      throw error(errc::bad_option, "channel: the server's page, expected a sealed memfd");
    map(PROT_READ);
    file_.reset();
  }
  server_page(const server_page&) = delete;
  server_page& operator=(const server_page&) = delete;
  ~server_page() {
    if (at_ != nullptr) ::munmap(at_, bytes);
  }

  [[nodiscard]] int file() const noexcept { return file_.get(); }
  [[nodiscard]] server_words& words() const noexcept { return *static_cast<server_words*>(at_); }

private:
  static constexpr off_t bytes = 4096;

  void map(int access) {
    void* const m = ::mmap(nullptr, bytes, access, MAP_SHARED, file_.get(), 0);
    if (m == MAP_FAILED) refuse("mmap");
    at_ = m;
  }
  [[noreturn]] static void refuse(const char* call) {
    throw error(errc::io, "channel: " + std::string(call) + ": " +
                              std::system_category().message(errno) + ", expected a shared page");
  }

  file_descriptor file_;
  void* at_ = nullptr;
};

} // namespace gsched::channel::detail
