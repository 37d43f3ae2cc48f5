// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/core/error.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::channel {

/// A mapping of the memory that a client shares with a server: two rings, words to wait with, and
/// the arena of payloads. The client makes it as a memfd sealed against a change of size, so that
/// no access of the server's can fault, whatever the client does later.
///
/// Errors   gsched::error, one line: bad_option for a region that the other side cannot use, io
///          for what the system refuses.
/// Threads  the parts have their own rules; the object itself, one at a time.
class region {
public:
  /// A client's: new, zero, and sealed.
  [[nodiscard]] static region make(std::uint32_t slots, std::uint64_t arena_bytes) {
    const layout l = layout::of(slots, arena_bytes);
    detail::file_descriptor fd(::memfd_create("gsched-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) refuse("memfd_create", errno);
    if (::ftruncate(fd.get(), static_cast<off_t>(l.total_bytes())) != 0) refuse("ftruncate", errno);
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      refuse("seals", errno);
    region r(std::move(fd), l);
    region_header h;
    h.slots = slots;
    h.arena_bytes = arena_bytes;
    std::memcpy(r.base_, &h, sizeof h);
    return r;
  }

  /// A server's, of what a client has handed over. The file is checked before it is mapped, and
  /// its header is copied once.
  [[nodiscard]] static region adopt(detail::file_descriptor fd) {
    // Only files in memory have seals. This comes first: of a file system in user space, any other
    // call could block. Huge pages could be missing when they are touched.
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    struct statfs of {};
    struct stat s {};
    if (seals < 0 || ::fstatfs(fd.get(), &of) != 0 || of.f_type != TMPFS_MAGIC ||
        ::fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode))
      throw error(errc::bad_option, "channel: not a memfd, expected one");
    if ((seals & F_SEAL_SHRINK) == 0)
      throw error(errc::bad_option, "channel: a region that can shrink, expected F_SEAL_SHRINK");
    if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
      throw error(errc::bad_option, "channel: a region sealed against writing, expected replies "
                                    "to be possible");
    const auto size = static_cast<std::uint64_t>(s.st_size);
    region_header h;
    if (size < layout::page || ::pread(fd.get(), &h, sizeof h, 0) != static_cast<ssize_t>(sizeof h))
      throw error(errc::bad_option, "channel: a region of " + std::to_string(size) +
                                        " bytes, expected " + std::to_string(layout::page) +
                                        " or more");
    if (h.magic != magic)
      throw error(errc::bad_option, "channel: not a region of gsched, expected its magic number");
    if (h.version != version)
      throw error(errc::bad_option, "channel: a client of version " + std::to_string(h.version) +
                                        ", expected " + std::to_string(version));
    const layout l = layout::of(h.slots, h.arena_bytes);
    if (size < l.total_bytes())
      throw error(errc::bad_option, "channel: a region of " + std::to_string(size) +
                                        " bytes, expected " + std::to_string(l.total_bytes()) +
                                        " for what its header says");
    return region(std::move(fd), l);
  }

  region(region&& from) noexcept
      : file_(std::move(from.file_)), layout_(from.layout_),
        base_(std::exchange(from.base_, nullptr)) {}
  region& operator=(region&&) = delete;
  ~region() {
    if (base_ != nullptr) ::munmap(base_, layout_.total_bytes());
  }

  [[nodiscard]] const layout& shape() const noexcept { return layout_; }
  /// The memfd, until close_file().
  [[nodiscard]] int file() const noexcept { return file_.get(); }
  /// The mapping stays.
  void close_file() noexcept { file_.reset(); }

  [[nodiscard]] client_words& words() const noexcept {
    return *at<client_words>(layout_.client_words_at());
  }
  /// As many as there are slots.
  [[nodiscard]] std::uint32_t* cancels() const noexcept {
    return at<std::uint32_t>(layout_.cancels_at());
  }
  [[nodiscard]] request_slot* requests() const noexcept {
    return at<request_slot>(layout_.requests_at());
  }
  [[nodiscard]] reply_slot* replies() const noexcept {
    return at<reply_slot>(layout_.replies_at());
  }
  /// Of the reply in that slot.
  [[nodiscard]] std::span<char> text(std::uint32_t slot) const noexcept {
    return {at<char>(layout_.texts_at() + slot * layout::text_bytes), layout::text_bytes};
  }
  [[nodiscard]] std::span<std::byte> arena() const noexcept {
    return {base_ + layout_.arena_at(), layout_.arena_bytes};
  }

private:
  region(detail::file_descriptor fd, const layout& l) : file_(std::move(fd)), layout_(l) {
    void* const m =
        ::mmap(nullptr, l.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (m == MAP_FAILED) refuse("mmap", errno);
    base_ = static_cast<std::byte*>(m);
  }

  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(base_ + offset);
  }
  [[noreturn]] static void refuse(const char* call, int code) {
    throw error(code == ENOMEM ? errc::out_of_memory : errc::io,
                "channel: " + std::string(call) + ": " + std::system_category().message(code) +
                    ", expected shared memory");
  }

  detail::file_descriptor file_;
  layout layout_;
  std::byte* base_ = nullptr;
};

} // namespace gsched::channel
