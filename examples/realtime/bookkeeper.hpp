// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/platform.hpp"
#include "realtime/whole_requests.hpp"

#include "parts/stage.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/priority.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace realtime {

using ordering = whole_requests<gsched::priority<gsched::fifo, gsched::fifo>>;

/// One request, kept for as long as its run.
struct asked {
  std::uint32_t client = 0;
  gsched::duration done{}; ///< of its work, before the run's end
};

/// Turns what the dispatcher tells into results, and knows when the run ends: after its length, or
/// when so many real-time requests have been answered or no more of them can come. What was asked
/// before is served to its end.
template <parts::stage S, class Device>
class bookkeeper : public gsched::silent_listener {
public:
  bookkeeper(S& on, Device& device, ordering& order, const run_order& run)
      : on_(on), device_(device), order_(order), run_(run),
        in_flight_(run.how.dispatch.max_segments) {
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
    if (S::ended(device_.inner())) return std::nullopt;
    auto next = run_.from.next([&](std::uint32_t client) { return !enough || !real_time(client); });
    if (next) next->at = gsched::saturating_add(next->at, origin_);
    return next && next->at < ends_ ? next : std::nullopt;
  }

  [[nodiscard]] asked& ask(std::uint32_t client) {
    ++run_.result.clients[client].submitted;
    asked_ += run_.clients[client].real_time();
    return requests_.emplace_back(asked{client});
  }

  void show_progress() {
    if (run_.length)
      run_.bar.update(static_cast<std::uint64_t>((device_.now().time_since_epoch() - origin_) /
                                                 std::chrono::milliseconds{1}));
    else
      run_.bar.update(answered_);
  }

  void end() {
    run_.result.window = ends_.time_since_epoch() - origin_;
    for (const asked& a : requests_) run_.result.clients[a.client].parts += a.done;
  }

  void on_arrival(const gsched::job& j, void* user, gsched::time_point) noexcept {
    if (requests_.size() == 1) first_ = index(j.id);
    if (run_.record != nullptr) run_.record->arrived(j, static_cast<const asked*>(user)->client);
  }
  void on_submit(const gsched::job& j, const gsched::segment& s, gsched::duration expected,
                 gsched::time_point now) noexcept {
    in_flight_[slot(s.id)] = expected;
    if (run_.record != nullptr) run_.record->decided(j, s, expected, now);
    on_.submitted(j, s, now);
  }
  void on_segment_end(const gsched::job& j, gsched::segment_id id,
                      gsched::time_point now) noexcept {
    on_.landed(id, now);
    if (now <= ends_) requests_[index(j.id) - first_].done += in_flight_[slot(id)];
  }
  void on_end(const gsched::job& j, void* user, gsched::time_point now) noexcept {
    asked& a = *static_cast<asked*>(user);
    client_result& c = run_.result.clients[a.client];
    count(c, j, a, now);
    order_.ended(j.id);
    if (run_.record != nullptr) run_.record->ended(j, a.client, now);
    run_.from.on_reply(a.client, now - origin_);
    answered_ += run_.clients[a.client].real_time();
  }

private:
  void count(client_result& c, const gsched::job& j, asked& a, gsched::time_point now) {
    switch (j.state) {
    case gsched::job_state::finished:
      ++c.finished;
      c.latencies.push_back(now - j.arrival);
      if (now > ends_) return;
      ++c.in_window;
      a.done = {};
      return;
    case gsched::job_state::rejected: ++c.rejected; return;
    case gsched::job_state::cancelled: ++c.cancelled; return;
    default: ++c.failed; return;
    }
  }
  [[nodiscard]] static std::size_t slot(gsched::segment_id id) noexcept {
    return index(id) & ((std::size_t{1} << gsched::flight_table::slot_bits) - 1);
  }

  S& on_;
  Device& device_;
  ordering& order_;
  const run_order& run_;
  std::deque<asked> requests_;              ///< in the order of their jobs' ids, from first_ on
  std::vector<gsched::duration> in_flight_; ///< expected time of each segment, by its slot
  std::uint64_t first_ = 0;
  std::uint64_t asked_ = 0;    ///< real-time requests
  std::uint64_t answered_ = 0; ///< of these
  gsched::duration origin_{};  ///< on the device's clock, of the sources'
  gsched::time_point ends_ = gsched::no_deadline;
};

} // namespace realtime
