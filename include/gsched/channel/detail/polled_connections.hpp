// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/connection.hpp>
#include <gsched/channel/detail/messages.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/server/request_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::channel::detail {

/// The connections that a server's thread polls. They come from the host's thread and go back to it
/// once they are drained.
///
/// Threads  join and take_left: the host's; the rest: the server's.
class polled_connections {
public:
  /// `words` is what the clients read of the server.
  polled_connections(server_words& words, std::size_t most) : words_(words) { all_.reserve(most); }

  // Of the host's thread ----------------------------------------------------------------------
  /// Followed by server::wake. The connection stays in place until take_left hands it out, or the
  /// server's thread has ended.
  void join(connection& c) noexcept { static_cast<void>(joining_.try_post(c)); } // never closed
  /// Calls f(connection) for each that the server holds nothing of any more; f may free it.
  template <class F>
  void take_left(F f) {
    left_.take_each(f);
  }

  // Of the server's thread --------------------------------------------------------------------
  /// Polls each; calls drained() if one is there for take_left.
  template <class F>
  bool poll(request_taker& to, F drained) noexcept {
    bool moved = joining_.take_each([&](connection& c) {
      all_.push_back(&c); // reserved
      if (closed_) c.close();
    });
    // In turn, so that of many clients none is always the last.
    const std::size_t n = all_.size();
    if (n == 0) return moved;
    if (++first_ >= n) first_ = 0;
    bool any_left = false;
    for (std::size_t i = 0; i < n; ++i) {
      connection& c = *all_[i + first_ < n ? i + first_ : i + first_ - n];
      moved |= c.poll(to);
      any_left |= c.is_leaving();
    }
    if (any_left)
      std::erase_if(all_, [&](connection* c) {
        if (!c->try_drain()) return false;
        static_cast<void>(left_.try_post(*c)); // which is never closed
        drained();
        return true;
      });
    return moved;
  }
  /// As request_source::fall_asleep.
  [[nodiscard]] bool fall_asleep() noexcept {
    // [W2] seq_cst <-> [W2] seq_cst in client::predict: after a request was written (exchange)
    sync::atomic_ref<std::uint32_t>(words_.asleep).store(1, sync::seq_cst);
    if (!joining_.was_empty()) return true;
    return std::any_of(all_.begin(), all_.end(), [](const connection* c) { return c->has_work(); });
  }
  void wake_up() noexcept {
    // unordered: a wake too many does no harm
    sync::atomic_ref<std::uint32_t>(words_.asleep).store(0, sync::relaxed);
  }
  /// Further requests are refused.
  void close() noexcept {
    closed_ = true;
    sync::atomic_ref<std::uint32_t>(words_.closed).store(1, sync::relaxed); // unordered: a hint
    for (connection* const c : all_) c->close();
  }

private:
  server_words& words_;
  std::vector<connection*> all_;
  std::size_t first_ = 0; ///< to be polled: in turn
  bool closed_ = false;
  inbox<connection> joining_;
  inbox<connection> left_;
};

} // namespace gsched::channel::detail
