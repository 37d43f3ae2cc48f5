// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/job_life.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/waitlist.hpp>
#include <gsched/pad/padded_programs.hpp>
#include <gsched/policy/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gsched {

/// Best-effort jobs as guests: what a padded real-time program carries of them is a flight of
/// theirs that no device knows, and that ends with the one that carries it.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.
/// Differs  of a job that is held with work in flight nothing is carried: the guests are those
///          that wait with nothing in flight, the policy's first choice first.
/// Cost     find_guest looks at most_looks jobs; no allocation after set-up.
/// Threads  one owner; no locking.
template <policy Policy, device Device, listener Listener>
class guest_life : public job_life<Policy, Device, Listener> {
  using life = job_life<Policy, Device, Listener>;

protected:
  using life::beside_;
  using life::device_;
  using life::listener_;
  using life::options_;
  using life::policy_;
  using life::reserve_;
  using life::statistics_;

public:
  using life::life;

  /// `padded` runs in place of `real_time` when it carries operations [from, to) of `guest`: all of
  /// both, in each one's order. All three were loaded before. Another one for the same real-time
  /// program, guest and `from` takes its place. Programs of several instances may share a padded
  /// one, unless two of them can be in flight at once and it cannot.
  /// Errors   bad_option: without preemption_options::pads, for no or too many operations of the
  ///          guest, or a padded program of another size than the real-time one.
  void add_padded(const program& real_time, const program& guest, std::uint32_t from,
                  std::uint32_t to, const program& padded) {
    const auto expect = [&](bool holds, const std::string& what) {
      if (!holds) throw error(errc::bad_option, padded.name() + ": " + what);
    };
    expect(options_.preemption.pads, "expected preemption.pads with padded programs");
    expect(from < to && to <= guest.size(),
           "operations " + std::to_string(from) + " to " + std::to_string(to) + " of " +
               guest.name() + ", expected some of its " + std::to_string(guest.size()));
    expect(padded.size() == real_time.size(),
           std::to_string(padded.size()) + " operations, expected " +
               std::to_string(real_time.size()) + " as " + real_time.name() + " has");
    padded_.add(real_time.id(), guest.id(), from, {&padded, to});
    const auto alone = static_cast<double>(real_time.expected().count());
    if (alone > 0)
      beside_.may_reach(this->padding_choice(),
                        static_cast<double>(guest.expected(from, to).count()) / alone);
  }

protected:
  static constexpr unsigned most_looks = 16;

  /// A job, and the padded program that carries some of it.
  struct carried {
    active_job* guest = nullptr;
    const padded_program* by = nullptr;
  };

  /// The first job that could go with that cut, if it is the whole of a real-time program; the job
  /// is in the policy no longer. Those of the policy that were looked at before it are passed over.
  [[nodiscard]] std::optional<carried> find_guest(const cut& real_time, time_point now) noexcept {
    if (real_time.program == no_program || real_time.first > 0) return std::nullopt;
    unsigned looks = most_looks;
    for (active_job& a : this->passed_over_) {
      if (looks-- == 0) return std::nullopt;
      if (const padded_program* const by = carries(real_time, a)) {
        if (std::exchange(a.in_policy, false)) policy_.erase(a);
        return carried{&a, by};
      }
    }
    if constexpr (serves_real_time_first<Policy>) {
      std::array<active_job*, most_looks> copies; // they may go on by themselves
      std::size_t n = 0;
      carried found{};
      for (; found.by == nullptr && looks > 0 && policy_.size(service_class::best_effort) > 0;
           --looks) {
        active_job& a =
            static_cast<active_job&>(*policy_.try_pick(service_class::best_effort, now));
        a.in_policy = false;
        if (const padded_program* const by = carries(real_time, a))
          found = {&a, by};
        else if (this->has_copies(a))
          copies[n++] = &a;
        else
          this->pass_over(a);
      }
      for (std::size_t i = 0; i < n; ++i) this->offer(*copies[i], now);
      if (found.by != nullptr) return found;
    }
    return std::nullopt;
  }

  [[nodiscard]] static cut copies_of(active_job& a, flight& f) noexcept {
    waitlist& list = a.context.list();
    return list.take_head(list.head(flight::max_loose)->copies, f.loose);
  }

  /// Its operations are taken off its list, as those of a flight `f` on the lane of `host`.
  void board(const carried& c, flight& host, flight& f, lane_id lane, time_point now) noexcept {
    active_job& a = *c.guest;
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
    begin_flight(f, now);
    a.rides = true;
    this->count_dispatched(a, x, now);
    listener_.on_submit(
        a,
        {f.id, a.id, lane, options_.how, options_.instrumented, f.program, f.first, f.operations},
        f.expected, now);
  }

  /// What carried it has ended. The flight is the caller's to drop, before it lets the job go on.
  void alight(const flight& f, duration took, time_point now) noexcept {
    active_job& a = *f.owner;
    a.rides = false;
    listener_.on_segment_end(a, f.id, now);
    statistics_.operations += f.operations.size();
    a.context.list().done(f.stream, f.operations.size());
    beside_.did(this->padding_choice(), f.expected, took);
  }

  /// What would have carried it was taken back before it started.
  void turn_back(const flight& f) noexcept {
    active_job& a = *f.owner;
    a.rides = false;
    a.context.list().undo(f.stream, f.operations.size());
    a.kind->estimate.undone(*a.progress, f.program, f.first, f.operations);
  }

  void begin_flight(flight& f, time_point now) noexcept {
    active_job& a = *f.owner;
    if constexpr (follows_work<Policy>)
      if (!f.remainder) policy_.submitted(a, f.expected, now);
    f.copies = this->only_copies(f);
    a.copy_flights += f.copies;
    if (++a.flights == 1 && !this->is_real_time(a)) ++best_effort_flying_;
  }
  /// `done`: it was not taken back.
  void end_flight(flight& f, bool done, time_point now) noexcept {
    active_job& a = *f.owner;
    if constexpr (follows_work<Policy>)
      if (!f.remainder) policy_.landed(a, f.expected, done, now);
    a.copy_flights -= f.copies;
    if (--a.flights == 0 && !this->is_real_time(a)) --best_effort_flying_;
  }
  /// Best-effort jobs with segments in flight.
  [[nodiscard]] std::size_t best_effort_flying() const noexcept { return best_effort_flying_; }

private:
  [[nodiscard]] const padded_program* carries(const cut& real_time, active_job& a) noexcept {
    if (a.flights > 0 || a.is_ending() || !a.remainders.empty()) return nullptr;
    const auto head = a.context.list().head(0);
    if (!head || head->graph == nullptr) return nullptr;
    const padded_program* const by = padded_.find(real_time.program, head->graph->id(), head->at);
    const bool whole = by != nullptr && by->runs->size() == real_time.operations.size();
    return whole && by->to <= head->end ? by : nullptr;
  }

  padded_programs padded_;
  std::size_t best_effort_flying_ = 0;
};

} // namespace gsched
