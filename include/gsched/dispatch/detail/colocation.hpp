// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/class_load.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/job_lifecycle.hpp>
#include <gsched/dispatch/detail/policy_queue.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/waitlist.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/preempt/colocate/padded_programs.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gsched {

/// Best-effort work inside padded real-time programs. The operations of another job that such a
/// program carries form a flight of that job that the device does not know; it ends with the flight
/// that carries it.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.
/// Differs  a job with in-flight work is never carried. Co-located jobs wait with nothing in
///          flight; the policy's first choice comes first.
/// Cost     find examines at most most_looks jobs; no allocation after set-up.
/// Threads  one owner; no locking.
template <policy Policy, device Device, listener Listener>
class colocation {
public:
  /// A job, and the padded program that carries some of its operations.
  struct choice {
    active_job* corunner = nullptr;
    const padded_program* by = nullptr;
  };

  colocation(policy_queue<Policy>& order, Listener& listens, const dispatch_options& how,
             job_lifecycle<Policy, Device, Listener>& jobs, class_load& load,
             dispatch_statistics& counts)
      : policy_(order), listener_(listens), options_(how), jobs_(jobs), load_(load),
        statistics_(counts) {}

  /// As dispatcher::add_padded.
  void add(const program& real_time, const program& corunner, std::uint32_t from, std::uint32_t to,
           const program& padded) {
    const auto expect = [&](bool holds, const std::string& what) {
      if (!holds) throw error(errc::bad_option, padded.name() + ": " + what);
    };
    expect(options_.preemption.pads, "expected preemption.pads with padded programs");
    expect(from < to && to <= corunner.size(),
           "operations " + std::to_string(from) + " to " + std::to_string(to) + " of " +
               corunner.name() + ", expected some of its " + std::to_string(corunner.size()));
    expect(padded.size() == real_time.size(),
           std::to_string(padded.size()) + " operations, expected " +
               std::to_string(real_time.size()) + " as " + real_time.name() + " has");
    padded_.add(real_time.id(), corunner.id(), from, {&padded, to});
    const auto alone = static_cast<double>(real_time.expected().count());
    if (alone > 0)
      load_.beside().may_reach(load_.padding_choice(),
                               static_cast<double>(corunner.expected(from, to).count()) / alone);
  }

  /// The first waiting job that can be co-located with the cut, if the cut is a whole real-time
  /// program; the job is then no longer in the policy. Jobs that were examined before it are passed
  /// over.
  [[nodiscard]] std::optional<choice> find(const cut& real_time, time_point now) noexcept {
    if (real_time.program == no_program || real_time.first > 0) return std::nullopt;
    unsigned looks = most_looks;
    for (active_job& a : jobs_.passed_over()) {
      if (looks-- == 0) return std::nullopt;
      if (const padded_program* const by = carrier_of(real_time, a)) {
        jobs_.withdraw(a);
        return choice{&a, by};
      }
    }
    if constexpr (serves_real_time_first<Policy>) {
      std::array<active_job*, most_looks> copies; // their copies may be submitted without it
      std::size_t n = 0;
      choice found{};
      for (; found.by == nullptr && looks > 0 && policy_.size(service_class::best_effort) > 0;
           --looks) {
        active_job& a = policy_.pick(service_class::best_effort, now);
        if (const padded_program* const by = carrier_of(real_time, a))
          found = {&a, by};
        else if (a.has_copies())
          copies[n++] = &a;
        else
          jobs_.pass_over(a);
      }
      for (std::size_t i = 0; i < n; ++i) jobs_.offer(*copies[i], now);
      if (found.by != nullptr) return found;
    }
    return std::nullopt;
  }

  /// The chosen operations run with `host`; `f` is their flight, on the same lane.
  void attach(const choice& c, flight& host, flight& f, lane_id lane, time_point now) noexcept {
    active_job& a = *c.corunner;
    a.passed_over_hook.unlink();
    const cut x = a.context.list().take_head(
        c.by->to - a.context.list().head(flight::max_loose)->at, f.loose);
    f.place = host.place;
    f.stream = x.stream;
    f.program = f.runs = x.program;
    f.first = x.first;
    f.operations = x.operations;
    f.expected = x.expected;
    f.submitted = now;
    host.carries = &f;
    jobs_.flight_began(f, now);
    a.colocated = true;
    jobs_.count_dispatched(
        a, x, [&] { return f.expected; }, now);
    listener_.on_submit(
        a,
        {f.id, a.id, lane, options_.how, options_.instrumented, f.program, f.first, f.operations},
        f.expected, now);
  }

  /// The flight that carried `f` has ended. The caller drops `f` before the job continues.
  void detach(const flight& f, duration took, time_point now) noexcept {
    active_job& a = *f.owner;
    a.colocated = false;
    listener_.on_segment_end(a, f.id, now);
    statistics_.operations += f.operations.size();
    a.context.list().done(f.stream, f.operations.size());
    load_.beside().did(load_.padding_choice(), f.expected, took);
  }

  /// The flight that would have carried `f` was taken back before it started.
  void cancel(flight& f) noexcept {
    f.owner->colocated = false;
    jobs_.undo(f, 0);
  }

private:
  static constexpr unsigned most_looks = 16;

  [[nodiscard]] const padded_program* carrier_of(const cut& real_time, active_job& a) noexcept {
    if (a.flights > 0 || a.is_ending() || !a.remainders.empty()) return nullptr;
    const auto head = a.context.list().head(0);
    if (!head || head->graph == nullptr) return nullptr;
    const padded_program* const by = padded_.find(real_time.program, head->graph->id(), head->at);
    const bool whole = by != nullptr && by->runs->size() == real_time.operations.size();
    return whole && by->to <= head->end ? by : nullptr;
  }

  policy_queue<Policy>& policy_;
  Listener& listener_;
  const dispatch_options& options_;
  job_lifecycle<Policy, Device, Listener>& jobs_;
  class_load& load_;
  dispatch_statistics& statistics_;
  padded_programs padded_;
};

} // namespace gsched
