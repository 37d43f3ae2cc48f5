// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/platform.hpp"
#include "realtime/whole_requests.hpp"

#include "common/stage.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

namespace realtime {

using ordering = whole_requests<gsched::priority<gsched::fifo, gsched::fifo>>;

/// One request, kept for as long as its run.
struct asked {
  std::uint32_t client = 0;
  const gsched::job* active = nullptr; ///< while it is
  bool has_failure = false;            ///< on_failure has said why
};

/// Turns what the dispatcher tells into results, and knows when the run ends: after its length, or
/// when so many real-time requests have been answered or no more of them can come. What was asked
/// before is served to its end.
template <common::stage S, class Device>
class bookkeeper : public gsched::silent_listener {
public:
  bookkeeper(S& on, Device& device, ordering& order, const run_order& run)
      : on_(on), device_(device), order_(order), run_(run) {
    run_.result.clients.resize(run.clients.size());
  }

  /// The run begins now: its sources' clock stands at zero.
  void begin() {
    origin_ = device_.now().time_since_epoch();
    if (run_.length) ends_ = gsched::saturating_add(device_.now(), *run_.length);
  }

  /// The next request to come, on the device's clock; none once the run has ended, or before
  /// another reply.
  [[nodiscard]] std::optional<sources::next_request> next() {
    const auto real_time = [&](std::uint32_t client) { return run_.clients[client].real_time(); };
    const bool enough = run_.requests && asked_ >= *run_.requests;
    if (run_.requests && asked_ == answered_ && (enough || !run_.from.next(real_time)))
      ends_ = std::min(ends_, device_.now());
    if (device_.now() >= ends_) close();
    if (S::ended(device_.inner())) return std::nullopt;
    auto next = run_.from.next([&](std::uint32_t client) { return !enough || !real_time(client); });
    if (next) next->at = gsched::saturating_add(next->at, origin_);
    return next && next->at < ends_ ? next : std::nullopt;
  }

  /// When next() may say something else though the device has told nothing.
  [[nodiscard]] gsched::time_point
  until(const std::optional<sources::next_request>& next) const noexcept {
    return next ? next->at : closed_ ? gsched::no_deadline : ends_;
  }

  [[nodiscard]] asked& ask(std::uint32_t client) {
    ++run_.result.clients[client].submitted;
    asked_ += run_.clients[client].real_time();
    return requests_.emplace_back(asked{client});
  }

  void show_progress() {
    if (run_.length)
      run_.progress(static_cast<std::uint64_t>((device_.now().time_since_epoch() - origin_) /
                                               std::chrono::milliseconds{1}));
    else
      run_.progress(answered_);
  }

  void end() { run_.result.window = ends_.time_since_epoch() - origin_; }

  void on_arrival(const gsched::job& j, void* user, gsched::time_point) noexcept {
    asked& a = *static_cast<asked*>(user);
    a.active = &j;
    if (run_.record != nullptr) run_.record->arrived(j, a.client);
  }
  void on_submit(const gsched::job& j, const gsched::segment& s, gsched::duration expected,
                 gsched::time_point now) noexcept {
    if (run_.record != nullptr) run_.record->decided(j, s, expected, now);
    on_.submitted(j, s, now);
  }
  void on_segment_end(const gsched::job&, gsched::segment_id id, gsched::time_point now) noexcept {
    on_.landed(id, now);
  }
  /// Results count it, and stage::finish reports what the device says.
  void on_failure(const gsched::job& j, std::exception_ptr, gsched::time_point) noexcept {
    static_cast<asked*>(static_cast<const gsched::active_job&>(j).user)->has_failure = true;
  }
  void on_end(const gsched::job& j, void* user, gsched::time_point now) noexcept {
    asked& a = *static_cast<asked*>(user);
    client_result& c = run_.result.clients[a.client];
    a.active = nullptr;
    count(c, j, now);
    // Of jobs that are rejected, on_failure names those over the limit alone.
    c.over_limit += j.state == gsched::job_state::rejected && a.has_failure;
    order_.ended(j.id);
    if (run_.record != nullptr) run_.record->ended(j, a.client, now);
    run_.from.on_reply(a.client, now - origin_);
    answered_ += run_.clients[a.client].real_time();
  }

private:
  void count(client_result& c, const gsched::job& j, gsched::time_point now) {
    switch (j.state) {
    case gsched::job_state::finished:
      ++c.finished;
      c.latencies.push_back(now - j.arrival);
      c.in_window += now <= ends_;
      return;
    case gsched::job_state::rejected: ++c.rejected; return;
    case gsched::job_state::cancelled: ++c.cancelled; return;
    default: ++c.failed; return;
    }
  }
  /// The run has ended: what is done of the requests that have not counts as far as it was
  /// dispatched.
  void close() {
    if (std::exchange(closed_, true)) return;
    for (const asked& a : requests_)
      if (a.active != nullptr)
        run_.result.clients[a.client].parts +=
            std::max(a.active->total - a.active->remaining, gsched::duration::zero());
  }

  S& on_;
  Device& device_;
  ordering& order_;
  const run_order& run_;
  std::deque<asked> requests_; ///< in place until the run is over
  std::uint64_t asked_ = 0;    ///< real-time requests
  std::uint64_t answered_ = 0; ///< of these
  gsched::duration origin_{};  ///< on the device's clock, of the sources'
  gsched::time_point ends_ = gsched::no_deadline;
  bool closed_ = false;
};

} // namespace realtime
