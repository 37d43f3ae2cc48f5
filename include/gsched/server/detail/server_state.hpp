// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/server/detail/doorbell.hpp>
#include <gsched/server/detail/ended_queue.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/message.hpp>
#include <gsched/server/detail/ownership.hpp>
#include <gsched/server/detail/retained_memory.hpp>
#include <gsched/server/events.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/statistics.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::detail {

/// What a server's thread shares with other threads. It lives as long as the server, its thread and
/// any request_record.
struct server_state {
  static constexpr std::uint32_t most_models = 4096;

  /// A model as requests see it.
  struct entry {
    sync::atomic<served_model*> record{nullptr}; ///< in place until the server's end
    sync::atomic<bool> removed{false};           ///< no more requests
    futex_word active{0};                        ///< requests taken up and not ended
  };

  // Of any thread -----------------------------------------------------------------------------
  inbox<message> box;
  doorbell bell; ///< rung after each post
  ownership whose;
  sync::atomic<bool> stopping{false};                  ///< no more requests
  sync::atomic<std::int64_t> drain_until_ns{never_ns}; ///< then the active ones are cancelled
  sync::atomic<bool> failed{false};                    ///< the device has
  sync::atomic<std::uint64_t> rounds{0};               ///< of the thread's loop: it is alive
  futex_word stopped{0};                               ///< the thread has released everything
  sync::atomic<bool> hangs{false};                     ///< a kernel does, and the device works on
  futex_word visitors{0};           ///< other threads that build and free on the engine's device
  std::int64_t longest_away_ns = 0; ///< in a driver call; set before the thread starts
  std::thread::id dispatcher;       ///< set before the server is open
  const pid_t process = ::getpid(); ///< the one that the thread is in
  sync::atomic<std::uint64_t> active{0};  ///< of server_load; written by the thread alone ...
  sync::atomic<std::uint64_t> waiting{0}; ///< ... as are these
  sync::atomic<std::int64_t> queued_ns{0};
  std::array<entry, most_models> models{};
  sync::atomic<std::uint32_t> models_count{0};
  sync::atomic<std::uint32_t> clients_count{0};
  ended_queue ended;
  inbox<request_record> unposted; ///< ended by end_unposted; until the server's end

  // Of the owner of the requests --------------------------------------------------------------
  record_list live;                                   ///< taken up and not ended
  std::deque<command*> commands;                      ///< begun, oldest first
  std::vector<std::unique_ptr<served_model>> records; ///< in place, what was removed included
  const event_source* events = nullptr;               ///< of the engine; none once it is gone
  std::uint64_t unsignalled = 0;                      ///< failed by their signal_event alone
  server_statistics last_statistics{};                ///< for after the end, from before `stopped`

  /// False once the server's thread takes nothing more.
  [[nodiscard]] bool try_post(message& m) noexcept {
    if (!box.try_post(m)) return false;
    bell.ring();
    return true;
  }

  /// Ends a request that the closed inbox has refused. Another thread may already wait for it, so
  /// it stays until the server's end. Any thread.
  void end_unposted(request_record& t) noexcept;

  /// Refuses requests from now on. Active ones are served until the given time, then cancelled. Of
  /// two calls the earlier time counts.
  void stop(std::int64_t drain_until) noexcept {
    std::int64_t before = drain_until_ns.load(sync::relaxed); // unordered: a number
    while (drain_until < before &&
           !drain_until_ns.compare_exchange_weak(before, drain_until, sync::relaxed, sync::relaxed))
      ;
    stopping.store(true, sync::release); // [Z1] release -> [Z1] acquire: publishes drain_until_ns
    bell.ring();
  }

  /// Whether memory of the GPU is retained: to free it could wait for ever for a hanging kernel.
  [[nodiscard]] bool keeps_memory() const noexcept {
    return failed.load(sync::acquire) || hangs.load(sync::acquire); // [F1], [F2] acquire
  }

  void set_failure(std::string line) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_.empty()) return;
    failure_ = std::move(line);
    failed.store(true, sync::release); // [F1] release -> [F1] acquire in failure
  }
  [[nodiscard]] std::string failure() const {
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  }

  /// One round of the oldest command; false if there is none.
  bool work_on_commands(engine& e) noexcept {
    if (commands.empty()) return false;
    command& c = *commands.front();
    std::exception_ptr thrown;
    try {
      if (!c.round(e)) return true;
    } catch (...) {
      thrown = std::current_exception();
    }
    commands.pop_front();
    c.answer(std::move(thrown));
    return true;
  }

  /// Ends a request whose result is known: records its event, removes it from the lists and
  /// publishes its end.
  void end(request_record& t, request_status how, std::int64_t at_ns) noexcept;

  /// Retains the live requests until the process ends: the driver call that did not return may
  /// still read them. By the thread that has taken over.
  void keep_live() noexcept;

  /// Removes a model that nothing refers to from the records, for the caller to free.
  [[nodiscard]] std::unique_ptr<served_model> take_record(const served_model& of) noexcept;

  /// Ends whatever has not ended, and closes the inbox. By the owner of the requests; a second call
  /// has no effect.
  void end_everything(request_status how, std::error_code code, const char* why) noexcept;

private:
  [[nodiscard]] request_status signal(request_record& t, request_status how) noexcept;

  mutable std::mutex failure_mutex_;
  std::string failure_;
};

/// Throws bad_option where a server that has had `so_far` models can take no more.
inline void refuse_one_more_model(std::uint32_t so_far) {
  if (so_far >= server_state::most_models)
    throw error(errc::bad_option, "add_model: the server has had " + std::to_string(so_far) +
                                      " models, removed ones included, expected fewer than " +
                                      std::to_string(server_state::most_models));
}

// Implementation ------------------------------------------------------------------------------

inline request_status server_state::signal(request_record& t, request_status how) noexcept {
  if (t.signal_event == nullptr || events == nullptr || !events->record) return how;
  // While the ownership is lent nothing may be read that a thread which takes over writes. The
  // request_record is still on the list of those that it ends, should this call not return.
  const int code = whose.lend(
      [&record = events->record, event = t.signal_event]() noexcept { return record(event); });
  if (code == 0 || how != request_status::finished) return how;
  try {
    t.error = "signal_event: " + events->text(code);
  } catch (...) { // no memory for the line
  }
  t.code = errc::bad_handle;
  ++unsignalled;
  return request_status::failed;
}

inline void server_state::end(request_record& t, request_status how, std::int64_t at_ns) noexcept {
  if (how == request_status::finished) t.error.clear();
  how = signal(t, how);
  if (t.live_hook.is_linked()) live.erase(live.iterator_to(t));
  t.await_hook.unlink();
  if (t.after != nullptr) std::exchange(t.after, nullptr)->release();
  if (std::exchange(t.taken_up, false)) {
    entry& of = models[t.model];
    // [A1] release -> [A1] acquire in remove_model: what the request did with the model's memory
    if (of.active.fetch_sub(1, sync::release) == 1 && of.removed.load(sync::relaxed))
      futex_wake_all(of.active); // unordered: set before the server's thread was asked to look
  }
  t.status = how;
  t.end_ns = at_ns;
  if (!t.done && !t.is_shared()) { // no other thread can read it, so no atomics are needed
    t.was_published();
    return t.dispose();
  }
  t.publish();
  t.was_published();
  if (t.done) t.done(t);
  t.resume();
  if (t.end_collection()) ended.put(t); // with the collector's share
  t.release();
}

inline void server_state::end_unposted(request_record& t) noexcept {
  set_line(t.error, "cancelled: the server was closed");
  t.status = request_status::cancelled;
  t.code = errc::closed;
  t.end_ns = now_ns();
  t.publish();
  t.release();                             // the caller's share: the call gives it no ticket
  static_cast<void>(unposted.try_post(t)); // which is never closed
}

inline void server_state::keep_live() noexcept {
  for (request_record& t : live) {
    t.hold();
    try {
      retain_until_exit({std::shared_ptr<void>(&t, [](void*) {})});
    } catch (...) { // no memory for the list; the ticket stays all the same
    }
  }
}

inline std::unique_ptr<served_model> server_state::take_record(const served_model& of) noexcept {
  const auto at = std::find_if(records.begin(), records.end(),
                               [&](const auto& each) { return each.get() == &of; });
  std::unique_ptr<served_model> taken = std::move(*at);
  records.erase(at);
  return taken;
}

inline void server_state::end_everything(request_status how, std::error_code code,
                                         const char* why) noexcept {
  stopping.store(true, sync::relaxed); // unordered: the inbox decides
  const auto closed = std::make_exception_ptr(error(errc::closed, "the server was closed"));
  const auto give_up = [&](request_record& t) {
    set_line(t.error, why);
    t.code = code;
    end(t, how, now_ns());
  };
  while (!live.empty()) give_up(live.front());
  for (; !commands.empty(); commands.pop_front()) commands.front()->answer(closed);
  box.close([&](message& m) {
    switch (m.what) {
    case message::kind::submit: {
      request_record& t = *static_cast<request_record*>(m.of);
      live.push_back(t); // its signal_event may never return: a takeover ends what is live
      return give_up(t);
    }
    case message::kind::cancel: static_cast<request_record*>(m.of)->release(); return;
    case message::kind::command: static_cast<command*>(m.of)->answer(closed); return;
    }
  });
  ended.close();
}

} // namespace gsched::detail
