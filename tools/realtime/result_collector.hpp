// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/platform.hpp"
#include "realtime/whole_requests.hpp"

#include "common/run/backend.hpp"

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

/// One request, kept until the run ends.
struct pending_request {
  std::uint32_t client = 0;
  const gsched::job* active = nullptr; ///< while it is
  bool has_failure = false;            ///< on_failure was called
};

/// Counts the requests of a run from the events of the dispatcher, and ends the run: after its
/// length, or when so many real-time requests have been answered or no more of them can come.
/// Requests that arrived before are served to their end.
template <common::backend S, class Device>
class result_collector : public gsched::silent_listener {
public:
  result_collector(S& on, Device& device, ordering& order, const run_request& run)
      : on_(on), device_(device), order_(order), run_(run) {
    run_.result.clients.resize(run.clients.size());
  }

  /// Begins the run: the clock of its sources is zero now.
  void begin() {
    origin_ = device_.now().time_since_epoch();
    if (run_.length) ends_ = gsched::saturating_add(device_.now(), *run_.length);
  }

  /// The next request to come, on the device's clock; none once the run has ended, or before
  /// another reply.
  [[nodiscard]] std::optional<sources::next_request> next() {
    const auto real_time = [&](std::uint32_t client) { return run_.clients[client].real_time(); };
    const bool enough = run_.requests && requested_ >= *run_.requests;
    if (run_.requests && requested_ == answered_ && (enough || !run_.from.next(real_time)))
      ends_ = std::min(ends_, device_.now());
    if (device_.now() >= ends_) close();
    if (S::ended(device_.inner())) return std::nullopt;
    auto next = run_.from.next([&](std::uint32_t client) { return !enough || !real_time(client); });
    if (next) next->at = gsched::saturating_add(next->at, origin_);
    return next && next->at < ends_ ? next : std::nullopt;
  }

  /// When the result of next() can change without an event of the device.
  [[nodiscard]] gsched::time_point
  until(const std::optional<sources::next_request>& next) const noexcept {
    return next ? next->at : closed_ ? gsched::no_deadline : ends_;
  }

  [[nodiscard]] pending_request& add_request(std::uint32_t client) {
    ++run_.result.clients[client].submitted;
    requested_ += run_.clients[client].real_time();
    return requests_.emplace_back(pending_request{client});
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
    pending_request& a = *static_cast<pending_request*>(user);
    a.active = &j;
    if (run_.record != nullptr) run_.record->arrived(j, a.client);
  }
  void on_submit(const gsched::job& j, const gsched::segment& s, gsched::duration,
                 gsched::time_point now) noexcept {
    on_.submitted(j, s, now);
  }
  void on_segment_end(const gsched::job&, gsched::segment_id id, gsched::time_point now) noexcept {
    on_.landed(id, now);
  }
  /// on_end counts the request; backend::finish reports an error of the device.
  void on_failure(const gsched::job& j, std::exception_ptr, gsched::time_point) noexcept {
    static_cast<pending_request*>(static_cast<const gsched::active_job&>(j).user)->has_failure =
        true;
  }
  void on_end(const gsched::job& j, void* user, gsched::time_point now) noexcept {
    pending_request& a = *static_cast<pending_request*>(user);
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
  /// Ends the run: unfinished requests count by the part that was dispatched.
  void close() {
    if (std::exchange(closed_, true)) return;
    for (const pending_request& a : requests_)
      if (a.active != nullptr)
        run_.result.clients[a.client].parts +=
            std::max(a.active->total - a.active->remaining, gsched::duration::zero());
  }

  S& on_;
  Device& device_;
  ordering& order_;
  const run_request& run_;
  std::deque<pending_request> requests_; ///< in place until the run is over
  std::uint64_t requested_ = 0;          ///< real-time requests
  std::uint64_t answered_ = 0;           ///< of these
  gsched::duration origin_{};            ///< on the device's clock, of the sources'
  gsched::time_point ends_ = gsched::no_deadline;
  bool closed_ = false;
};

} // namespace realtime
