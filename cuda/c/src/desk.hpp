// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collector.hpp"
#include "doorbell.hpp"
#include "events.hpp"
#include "message.hpp"
#include "model.hpp"
#include "ticket.hpp"
#include "turn.hpp"

#include <gsched/gsched_c.h>

#include <gsched/core/sync.hpp>
#include <gsched/dispatch/inbox.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace gsched::abi {

/// Where a server's thread and everybody else meet. It lives as long as the server, its thread and
/// any ticket.
struct desk {
  static constexpr std::uint32_t most_models = GSCHED_MOST_MODELS;

  /// A model as submissions see it.
  struct entry {
    sync::atomic<model_record*> record{nullptr}; ///< in place until the server's end
    sync::atomic<bool> removed{false};           ///< no more requests
    futex_word active{0};                        ///< requests taken up and not ended
  };

  // Anybody's ---------------------------------------------------------------------------------
  inbox<message> box;
  doorbell bell; ///< rung after each post
  turn whose;
  sync::atomic<bool> stopping{false};                  ///< no more requests
  sync::atomic<std::int64_t> drain_until_ns{never_ns}; ///< then the active ones are cancelled
  sync::atomic<bool> failed{false};                    ///< the device has
  sync::atomic<std::uint64_t> rounds{0};               ///< of the thread's loop: it is alive
  futex_word stopped{0};                               ///< the thread has let go of everything
  sync::atomic<bool> hangs{false};                     ///< a kernel does, and the device works on
  futex_word visitors{0};           ///< other threads that build and free on the engine's device
  std::int64_t longest_away_ns = 0; ///< in the driver; set before the thread starts
  std::thread::id dispatcher;       ///< set before the server is open
  const pid_t process = ::getpid(); ///< the one that the thread is in
  std::array<entry, most_models> models{};
  sync::atomic<std::uint32_t> models_count{0};
  sync::atomic<std::uint32_t> clients_count{0};
  collector ended;
  inbox<ticket> unposted; ///< ended by end_unposted; until the server's end

  // Of who has the turn -----------------------------------------------------------------------
  ticket_list live;                                   ///< taken up and not ended
  std::deque<command*> commands;                      ///< begun, oldest first
  std::vector<std::unique_ptr<model_record>> records; ///< in place, what was removed included
  const event_source* events = nullptr;               ///< of the engine; none once it is gone
  std::uint64_t unsignalled = 0;                      ///< failed by their signal_event alone
  gsched_statistics last_statistics{};                ///< for after the end, from before `stopped`

  /// False once the server's thread takes nothing more.
  [[nodiscard]] bool try_post(message& m) noexcept {
    if (!box.try_post(m)) return false;
    bell.ring();
    return true;
  }

  /// Ends a request that the closed inbox has refused. Another thread may have read the ticket
  /// where the caller wanted it and may wait for it, so it stays until the server's end. Any
  /// thread.
  void end_unposted(ticket& t) noexcept;

  /// From now on requests are refused. Those active are served until then, and cancelled. Of two
  /// such calls the earlier time counts.
  void stop(std::int64_t drain_until) noexcept {
    std::int64_t before = drain_until_ns.load(sync::relaxed); // unordered: a number
    while (drain_until < before &&
           !drain_until_ns.compare_exchange_weak(before, drain_until, sync::relaxed, sync::relaxed))
      ;
    stopping.store(true, sync::release); // [Z1] release -> [Z1] acquire: publishes drain_until_ns
    bell.ring();
  }

  /// Whether CUDA memory is kept: to free it could wait without end for what hangs.
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

  /// A request's last moment: its result is known. Records its event, takes it off the lists and
  /// publishes its end.
  void end(ticket& t, gsched_state how, std::int64_t at_ns) noexcept;

  /// Keeps the live tickets until the process ends: the call of the driver that did not return may
  /// still read them. By the thread that has taken over.
  void keep_live() noexcept;

  /// Takes a model that nothing refers to off the records; for its own memory to be freed
  /// elsewhere.
  [[nodiscard]] std::unique_ptr<model_record> take_record(const model_record& of) noexcept;

  /// Ends whatever has not ended, and takes nothing more. By who has the turn; again: nothing.
  void end_everything(gsched_state how, gsched_code code, const char* why) noexcept;

private:
  [[nodiscard]] gsched_state signal(ticket& t, gsched_state how) noexcept;

  mutable std::mutex failure_mutex_;
  std::string failure_;
};

/// Watches that a server's thread goes on, for whoever waits for it: one that stays in the driver
/// for too long is given up, and all that waits for it ends as failed.
class patience {
public:
  explicit patience(desk& at) : at_(at), seen_(at.rounds.load(sync::relaxed)), since_(now_ns()) {}

  /// When to look again, at the latest.
  [[nodiscard]] std::int64_t next(std::int64_t deadline_ns) const noexcept {
    return std::min(deadline_ns, now_ns() + at_.longest_away_ns / 4);
  }
  void look();

private:
  desk& at_;
  std::uint64_t seen_; ///< unordered: only whether it changes counts
  std::int64_t since_;
};

/// Refuses a model that is one too many for a server that has had `so_far`.
void refuse_one_more_model(std::uint32_t so_far);

/// Copies a line; without memory for it there is none.
void set_line(std::string& to, const char* line) noexcept;

} // namespace gsched::abi
