// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/client.hpp>
#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace gsched::channel {

/// A client that several threads use: any of them submits and cancels, one at a time reads replies.
/// The functions are those of `client`. What waits for a reply holds no lock, so requests are
/// submitted meanwhile.
///
/// Errors   as client; closed after close(); bad_option in a forked child, which must make a client
///          of its own, and for a read while another thread reads.
/// Cost     a lock and a look at the process's number more than client. models() holds the lock
///          until the server has answered.
/// Threads  any, but for the destructor. Reads, with arm and take_wake_ups: one at a time.
class shared_client {
public:
  /// Connects.
  explicit shared_client(const std::string& socket, const client_options& how = {})
      : client_(socket, how), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        both_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (const int file : {client_.file(), bell_.get()}) {
      epoll_event e{};
      e.events = EPOLLIN;
      if (::epoll_ctl(both_.get(), EPOLL_CTL_ADD, file, &e) != 0)
        throw error(errc::io, "channel: " + socket + ": " + std::system_category().message(errno) +
                                  ", expected file descriptors to wait with");
    }
  }
  shared_client(const shared_client&) = delete;
  shared_client& operator=(const shared_client&) = delete;

  // Models ------------------------------------------------------------------------------------
  [[nodiscard]] std::vector<model_entry> models() {
    return asked([&] { return client_.models(); });
  }
  [[nodiscard]] model_entry model(std::string_view name) {
    return asked([&] { return client_.model(name); });
  }

  // Payloads ----------------------------------------------------------------------------------
  [[nodiscard]] std::span<std::byte> arena() const noexcept { return client_.arena(); }
  [[nodiscard]] std::span<std::byte> allocate(std::uint64_t bytes) {
    const auto held = hold();
    return client_.allocate(bytes);
  }
  /// Also after close(). In a forked child it does nothing.
  void release(std::span<std::byte> piece) noexcept {
    if (!is_here()) return;
    const std::lock_guard held(mutex_);
    client_.release(piece);
  }

  // Requests ----------------------------------------------------------------------------------
  std::uint64_t predict(std::uint32_t model, std::span<std::byte> io,
                        const predict_options& how = {}) {
    const auto held = hold();
    return client_.predict(model, io, how);
  }
  [[nodiscard]] std::optional<std::uint64_t>
  try_predict(std::uint32_t model, std::span<std::byte> io, const predict_options& how = {}) {
    const auto held = hold();
    return client_.try_predict(model, io, how);
  }
  void cancel(std::uint64_t id) {
    const auto held = hold();
    client_.cancel(id);
  }
  [[nodiscard]] std::uint64_t in_flight() const {
    refuse_child();
    const std::lock_guard held(mutex_);
    return client_.in_flight();
  }
  [[nodiscard]] std::uint32_t most_in_flight() const noexcept { return client_.most_in_flight(); }
  [[nodiscard]] std::uint32_t number() const noexcept { return client_.number(); }

  // Replies -----------------------------------------------------------------------------------
  /// None if no reply has come in time; with zero it does not wait. Replies that were there when
  /// the connection ended are read first.
  [[nodiscard]] std::optional<reply> read_result_within(duration most) {
    const reading one(*this);
    try {
      return client_.wait_for_reply(most, one);
    } catch (const error& e) {
      if (e.code() == errc::closed) refuse_closed();
      throw;
    }
  }
  /// Readable when it may be worth to look for a reply, after arm(): for an event loop.
  [[nodiscard]] int file() const noexcept { return both_.get(); }
  [[nodiscard]] bool arm() {
    const reading one(*this);
    return client_.arm();
  }
  bool take_wake_ups() {
    const reading one(*this);
    return take_all();
  }

  /// Ends the connection; a thread that waits for a reply is woken. Requests without a reply are of
  /// unknown outcome. What is in the arena stays until the client is destroyed. In a forked child
  /// it does nothing.
  void close() noexcept {
    if (!is_here()) return;
    closed_.store(true, sync::relaxed); // unordered: only says why the connection has ended
    client_.leave();
  }
  /// Errors   bad_option in a forked child; for a caller with locks of its own to take.
  void refuse_child() const {
    if (!is_here())
      throw error(errc::bad_option, "channel: a client of process " + std::to_string(process_) +
                                        ", expected one of this process: a child made by fork() "
                                        "connects itself");
  }

private:
  /// A read that is under way: the reader that client::wait_for_reply asks for.
  struct reading {
    static constexpr bool is_shared = true;
    explicit reading(shared_client& c) : of(c) {
      c.refuse_child();
      // [R1] acquire <- [R1] release below: the former reader's part of the client
      if (c.reading_.exchange(true, sync::acquire))
        throw error(errc::bad_option, "channel: another thread reads, expected one at a time");
    }
    ~reading() { of.reading_.store(false, sync::release); } // [R1] release -> [R1] acquire
    reading(const reading&) = delete;
    [[nodiscard]] int file() const noexcept { return of.file(); }
    [[nodiscard]] std::unique_lock<std::mutex> hold() const { return std::unique_lock(of.mutex_); }
    [[nodiscard]] bool take_wake_ups() const noexcept { return of.take_all(); }
    shared_client& of;
  };

  [[nodiscard]] bool is_here() const noexcept { return ::getpid() == process_; }
  void refuse_closed() const {
    if (closed_.load(sync::relaxed)) // unordered: as in close
      throw error(errc::closed, "channel: the client was closed, expected an open one");
  }
  [[nodiscard]] std::unique_lock<std::mutex> hold() {
    refuse_child();
    refuse_closed();
    return std::unique_lock(mutex_);
  }
  [[nodiscard]] bool take_all() noexcept {
    const std::lock_guard held(mutex_);
    eventfd_t ignored = 0;
    if (rung_) ::eventfd_read(bell_.get(), &ignored);
    rung_ = false;
    return client_.take_wake_ups();
  }
  /// The answer may have come with wake-ups that were for the reader.
  template <class F>
  [[nodiscard]] std::invoke_result_t<F&> asked(F ask) {
    const auto held = hold();
    struct ring {
      ~ring() {
        of.rung_ = true;
        ::eventfd_write(of.bell_.get(), 1);
      }
      shared_client& of;
    };
    const ring after{*this};
    return ask();
  }

  mutable std::mutex mutex_;
  client client_;
  detail::file_descriptor bell_, both_;
  bool rung_ = false;
  sync::atomic<bool> reading_{false};
  sync::atomic<bool> closed_{false};
  pid_t process_ = ::getpid();
};

} // namespace gsched::channel
