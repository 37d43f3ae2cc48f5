// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/server/detail/futex.hpp>
#include <gsched/server/detail/message.hpp>

#include <boost/intrusive/list.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gsched {

namespace detail {
struct server_state;
}

/// How a request of a server stands, or has ended.
enum class request_status : std::uint8_t { pending, finished, failed, rejected, cancelled };

[[nodiscard]] constexpr std::string_view to_string(request_status s) noexcept {
  switch (s) {
  case request_status::pending: return "pending";
  case request_status::finished: return "finished";
  case request_status::failed: return "failed";
  case request_status::rejected: return "rejected";
  case request_status::cancelled: return "cancelled";
  }
  return "unknown";
}

/// A request from its request_record until its last owner has released it. Programs hold it by a
/// `ticket`; bindings for other languages derive from it.
///
/// Threads  what is asked is set before the request is posted; the result is written by the
///          server's thread and read by others once has_ended().
class request_record {
public:
  enum phase : std::uint32_t { pending, awaited, ended };
  /// Whether server::collect hands the request out at its end; `collecting` owns a share for it.
  enum collection : std::uint32_t { uncollected, collecting, over };

  explicit request_record(std::shared_ptr<detail::server_state> of) : server(std::move(of)) {}
  request_record(const request_record&) = delete;
  request_record& operator=(const request_record&) = delete;
  virtual ~request_record() {
    if (after != nullptr) after->release(); // it was not posted
  }

  // For those that derive ----------------------------------------------------------------------
  /// On the server's thread, as the last of its work is submitted, which is expected to end within
  /// `left`.
  virtual void almost_finished(duration /*left*/) noexcept {}
  /// Right after its end was published, before `done`; on the thread that ends it.
  virtual void was_published() noexcept {}
  /// When the last share is released.
  virtual void dispose() noexcept { delete this; }

  // Shared ------------------------------------------------------------------------------------
  std::shared_ptr<detail::server_state> server;
  sync::atomic<std::uint32_t> owners{2}; ///< the caller, and the server
  detail::futex_word now{pending};
  sync::atomic<bool> cancelling{false}; ///< `cancel` was posted
  sync::atomic<std::uint32_t> collect{uncollected};
  detail::message asked{detail::message::kind::submit, this, nullptr};
  detail::message cancel{detail::message::kind::cancel, this, nullptr};

  // What is asked -----------------------------------------------------------------------------
  std::uint32_t model = 0;
  std::uint32_t client = 0;
  bool real_time = false;
  std::int64_t arrival_ns = 0; ///< on CLOCK_MONOTONIC, as all times below
  std::int64_t deadline_ns = detail::never_ns;
  std::span<std::byte> payload{}; ///< the caller's inputs and outputs, for the model's body
  std::function<void(request_record&)> done{}; ///< on the server's thread, at the end
  void* user = nullptr;
  void* wait_event = nullptr;
  void* signal_event = nullptr;
  std::shared_ptr<void> marked{};  ///< owns wait_event, where the server made it
  request_record* after = nullptr; ///< owns a share of it until this one is taken up or has ended

  // The server's thread's ---------------------------------------------------------------------
  boost::intrusive::list_member_hook<> live_hook{};
  request_record* next_posted = nullptr; ///< among those to be collected
  job_id id{};
  bool taken_up = false;            ///< counted in its model until it has ended
  std::int64_t asked_ns = 0;        ///< when its event was queried last
  std::int64_t undispatched_ns = 0; ///< expected device time that was not submitted
  boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>
      await_hook{}; ///< among those whose events have not completed

  // The result --------------------------------------------------------------------------------
  request_status status = request_status::pending;
  std::int64_t start_ns = 0; ///< 0: it never started
  std::int64_t end_ns = 0;
  std::uint32_t segments = 0;
  std::uint32_t instance = UINT32_MAX; ///< of the model; UINT32_MAX: it never had one
  std::string error{};                 ///< one line, unless it has finished
  std::error_code code{};

  [[nodiscard]] bool has_ended() const noexcept {
    return now.load(sync::acquire) == ended; // [T1] acquire <- [T1] release in publish
  }

  /// Once, when the result is written.
  void publish() noexcept {
    if (now.exchange(ended, sync::release) == awaited) // [T1] release -> [T1] acquire
      detail::futex_wake_all(now);
  }

  /// Whether anybody but the one owner who asks has a share: only then can one more be taken.
  [[nodiscard]] bool is_shared() const noexcept {
    return owners.load(sync::acquire) != 1; // [O1] acquire: what former owners did
  }

  /// Asks for the request to be collected at its end. Nothing changes if that was asked before or
  /// the request has ended; returns the former state.
  [[nodiscard]] collection try_collect() noexcept {
    hold();
    std::uint32_t was = uncollected;
    // [L1] acq_rel, acquire <-> [L1] acq_rel in end_collection: one of the two sees the other
    if (!collect.compare_exchange_strong(was, collecting, sync::acq_rel, sync::acquire)) release();
    return static_cast<collection>(was);
  }
  /// Once, after publish. True: collect is to hand the request out.
  [[nodiscard]] bool end_collection() noexcept {
    return collect.exchange(over, sync::acq_rel) == collecting; // [L1]
  }

  /// Registers the one coroutine that awaits the end. False if the request has ended: go on.
  [[nodiscard]] bool try_suspend(std::coroutine_handle<> h) noexcept {
    void* none = nullptr;
    // [H1] acq_rel, acquire <-> [H1] acq_rel in resume: one of the two sees the other
    return continuation_.compare_exchange_strong(none, h.address(), sync::acq_rel, sync::acquire);
  }
  /// Once, after publish, on the thread that ends the request: goes on with the coroutine.
  void resume() noexcept {
    void* const h = continuation_.exchange(this, sync::acq_rel); // [H1]; no frame has this address
    if (h != nullptr) std::coroutine_handle<>::from_address(h).resume();
  }

  /// False if the deadline came first.
  [[nodiscard]] bool wait_until(std::int64_t until_ns) noexcept {
    for (;;) {
      if (has_ended()) return true;
      if (until_ns != detail::never_ns && detail::now_ns() >= until_ns) return false;
      std::uint32_t seen = pending;
      // unordered: has_ended orders what is read after it
      now.compare_exchange_strong(seen, awaited, sync::relaxed, sync::relaxed);
      if (seen != ended) detail::futex_wait(now, awaited, until_ns);
    }
  }

  void hold() noexcept { owners.fetch_add(1, sync::relaxed); } // unordered: one is held
  void release() noexcept {
    // [O1] acq_rel <-> [O1] acq_rel: what each owner did is before the end of the last
    if (owners.fetch_sub(1, sync::acq_rel) == 1) dispose();
  }

protected:
  /// Makes an ended record, which is shared by nobody, one of a new request with so many owners.
  void renew(std::uint32_t shares) noexcept {
    // unordered: nobody else has it
    owners.store(shares, sync::relaxed);
    now.store(pending, sync::relaxed);
    cancelling.store(false, sync::relaxed);
    collect.store(uncollected, sync::relaxed);
    continuation_.store(nullptr, sync::relaxed);
    deadline_ns = detail::never_ns;
    status = request_status::pending;
    start_ns = end_ns = asked_ns = 0;
    segments = 0;
    instance = UINT32_MAX;
    error.clear();
    code = {};
  }

private:
  sync::atomic<void*> continuation_{nullptr};
};

namespace detail {

using record_list = boost::intrusive::list<
    request_record,
    boost::intrusive::member_hook<request_record, boost::intrusive::list_member_hook<>,
                                  &request_record::live_hook>>;
using awaiting_list = boost::intrusive::list<
    request_record,
    boost::intrusive::member_hook<request_record,
                                  boost::intrusive::list_member_hook<
                                      boost::intrusive::link_mode<boost::intrusive::auto_unlink>>,
                                  &request_record::await_hook>,
    boost::intrusive::constant_time_size<false>>;

/// Copies a line; without memory for it the line is empty.
inline void set_line(std::string& to, std::string_view line) noexcept {
  try {
    to = line;
  } catch (...) {
    to.clear();
  }
}

} // namespace detail

} // namespace gsched
