// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/reservation.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/program.hpp>
#include <gsched/preempt/colocate/exploration.hpp>
#include <gsched/preempt/colocate/side_speed.hpp>
#include <gsched/preempt/forecast.hpp>
#include <gsched/preempt/options.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace gsched {

/// The load of the two service classes: the jobs that can run, the remaining real-time work, when
/// more is expected, and what was learned about best-effort work beside real-time jobs. The life
/// cycle of jobs updates it, and class isolation decides by it.
///
/// Cost     O(1) each, plus that of reservation and exploration.
/// Threads  one owner; no locking. The state depends on the calls alone.
class class_load {
public:
  class_load(const preemption_options& how, sm_count all)
      : options_(how), all_(all), reserve_(how, all),
        beside_(1 + how.side.size() + how.pads, how.tolerance) {
    if (how.pads) beside_.presume(padding_choice());
  }

  // Set-up ------------------------------------------------------------------------------------

  /// Called after the device has set the program's id.
  void add_program(const program& p) {
    for (std::size_t i = 0; i < options_.side.size(); ++i)
      beside_.may_reach(i + 1, speed_on(p, options_.side[i], all_));
    reserve_.load(p);
  }
  /// Called before the first job of a model.
  void add_model(model_id m) { reserve_.add_model(static_cast<std::size_t>(m)); }

  // Jobs --------------------------------------------------------------------------------------

  [[nodiscard]] static bool is_real_time(const job& j) noexcept {
    return j.service == service_class::real_time;
  }

  /// A job that may start as soon as it has an instance.
  void arrived(const active_job& a, time_point now) noexcept {
    if (is_real_time(a)) arrivals_.arrived(index(a.owner->id), now);
  }
  /// The job can run. A real-time job that waits for an instance cannot: a best-effort job may hold
  /// the instance and has to continue.
  void count(active_job& a) noexcept {
    if (std::exchange(a.counted, true)) return;
    ++active_[static_cast<std::size_t>(a.service)];
    if (!is_real_time(a)) return;
    a.to_end = a.total;
    real_time_left_ += a.to_end;
  }
  void flight_began(active_job& a) noexcept {
    if (++a.flights == 1 && !is_real_time(a)) ++best_effort_in_flight_;
  }
  void flight_ended(active_job& a) noexcept {
    if (--a.flights == 0 && !is_real_time(a)) --best_effort_in_flight_;
  }
  /// A segment of a real-time job has ended. `took`: its time on the lane, if known.
  void real_time_ended(active_job& a, duration expected, std::optional<duration> took) noexcept {
    const duration gone = std::clamp(expected, duration::zero(), a.to_end);
    a.to_end -= gone;
    real_time_left_ -= gone;
    if (!took) return;
    a.ended_expected += expected;
    a.ended_took += *took;
  }
  void ended(active_job& a, job_state how, time_point now) noexcept {
    if (std::exchange(a.counted, false)) {
      --active_[static_cast<std::size_t>(a.service)];
      real_time_left_ -= a.to_end;
    }
    const bool finished = how == job_state::finished;
    if (is_real_time(a) && finished && a.dispatched)
      beside_.ended(a.side_epoch, {a.ended_expected, a.ended_took, now - a.arrival});
    reserve_.ended(a.id, finished, a.ended_expected, a.ended_took);
  }

  // Queries ------------------------------------------------------------------------------------

  /// The number of jobs of a class that can run.
  [[nodiscard]] std::size_t active(service_class of) const noexcept {
    return active_[static_cast<std::size_t>(of)];
  }
  /// Whether some best-effort job that can run has nothing in flight.
  [[nodiscard]] bool some_best_effort_idle() const noexcept {
    return active(service_class::best_effort) > best_effort_in_flight_;
  }
  /// The longest best-effort segment while real-time jobs are likely to arrive.
  [[nodiscard]] duration most_best_effort() const noexcept { return most_best_effort_; }
  void set_most_best_effort(duration most) noexcept { most_best_effort_ = most; }
  /// The expected time of the remaining work of active real-time jobs.
  [[nodiscard]] duration real_time_left() const noexcept { return real_time_left_; }

  [[nodiscard]] const arrival_forecast& arrivals() const noexcept { return arrivals_; }
  [[nodiscard]] arrival_forecast& arrivals() noexcept { return arrivals_; }
  /// The choice of the SMs that long best-effort work leaves to real-time jobs.
  [[nodiscard]] reservation& reserve() noexcept { return reserve_; }
  [[nodiscard]] const reservation& reserve() const noexcept { return reserve_; }
  /// The choice of what runs beside real-time jobs: 0 nothing, then the side lanes by size, then
  /// padding.
  [[nodiscard]] exploration& beside() noexcept { return beside_; }
  [[nodiscard]] const exploration& beside() const noexcept { return beside_; }
  /// The index of padding among the choices of beside().
  [[nodiscard]] std::size_t padding_choice() const noexcept { return 1 + options_.side.size(); }

private:
  const preemption_options& options_;
  sm_count all_;
  reservation reserve_;
  arrival_forecast arrivals_;
  exploration beside_;
  std::array<std::size_t, 2> active_{};   ///< by class
  std::size_t best_effort_in_flight_ = 0; ///< best-effort jobs with segments in flight
  duration real_time_left_{};
  duration most_best_effort_ = run_to_completion;
};

} // namespace gsched
