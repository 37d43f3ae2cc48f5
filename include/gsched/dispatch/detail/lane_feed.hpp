// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/flight.hpp>
#include <gsched/dispatch/detail/lane_set.hpp>
#include <gsched/dispatch/detail/registry.hpp>
#include <gsched/dispatch/detail/use_clock.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/job/waitlist.hpp>
#include <gsched/occupancy/accountant.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

namespace gsched {

/// The groups of lanes of a dispatcher. If the classes share all lanes, the first group is the only
/// one. Otherwise each side lane is a group, followed by the lane for copies, if there is one. Each
/// best-effort lane has an alternate for each size of preemption_options::reserve.
struct lane_groups {
  static constexpr std::size_t best_effort = 0, real_time = 1, first_side = 2;
};

/// Everything between a cut and the device: the choice of the lane, the amount of queued work, and
/// the segments in flight. It knows jobs only as owners of flights.
///
/// Cost     O(lanes) to submit, O(1) to complete; no allocation after construction.
/// Threads  one owner; no locking.
template <device Device, accountant Accountant>
class lane_feed : public lane_groups {
public:
  lane_feed(Device& on, Accountant& account, const dispatch_options& how)
      : device_(on), accountant_(account), options_(how), flights_(how.max_segments),
        lanes_(how.low_mark, how.high_mark) {
    const preemption_options& p = how.preemption;
    lane_options best = how.lane;
    if (apart()) best.yields = p.yields && preemptive_device<Device>;
    for (std::uint32_t i = 0; i < how.lanes; ++i) lanes_.open(device_.open_lane(best));
    const std::uint32_t spares = how.spares(device_.limits().lanes);
    for (std::uint32_t i = 0; i < spares; ++i) lanes_.open_spare(device_.open_lane(best));
    if (!apart()) return;
    if (accountant_.slots() < 2)
      throw error(errc::bad_option, "max_outstanding 1, expected at least 2 with real_time_lanes");
    lanes_.add_group(how.low_mark, how.high_mark);
    for (std::uint32_t i = 0; i < p.real_time_lanes; ++i)
      lanes_.open(device_.open_lane(p.real_time_lane));
    for (const sm_count sms : p.side) {
      lanes_.add_group(duration::zero(), duration::zero()); // one segment at a time
      lanes_.open(device_.open_lane({.priority = how.lane.priority, .sms = sms}));
    }
    if (p.pads) {
      lanes_.add_group(duration::zero(), duration::zero());
      lanes_.open(device_.open_lane({.priority = how.lane.priority}));
    }
    first_reserve_ = static_cast<std::uint32_t>(lanes_.size());
    best.least_operation = p.long_operation;
    for (const sm_count sms : p.reserve) { // behind the side lanes, which have SMs of their own
      best.reserved = sms;
      for (std::uint32_t i = 0; i < how.lanes; ++i)
        lanes_.open_alternate(device_.open_lane(best), i);
    }
  }

  /// Whether the lanes of the group take more work. Work for which the accountant has no room
  /// waits, except real-time work, which preempts whatever blocks it. Other work leaves a quarter
  /// of all flights free for real-time work.
  [[nodiscard]] bool wants_more(std::size_t group) const noexcept {
    if (!lanes_.any_refilling(group, has_spares()) &&
        (options_.use == lane_use::shared || group >= first_side))
      return false;
    if (!apart()) return !flights_.full() && accountant_.has_room();
    if (group == real_time)
      return !flights_.full() && accountant_.outstanding() < accountant_.slots();
    const auto most = [](std::size_t places) { return places - (places + 3) / 4; };
    return flights_.in_use() < most(flights_.slots()) &&
           accountant_.outstanding() < most(accountant_.slots()) &&
           (group != best_effort || accountant_.has_room());
  }

  /// Reserves a flight, which is then passed to submit or dropped; wants_more() must hold.
  [[nodiscard]] flight& take(active_job& owner) noexcept { return *flights_.try_take(owner); }
  void drop(flight& f) noexcept { flights_.give_back(f); }

  /// Makes a segment of the cut and chooses its lane: the lane of the stream's in-flight work, or
  /// else the refilling lane of the group with the least queued time. Best-effort work uses the
  /// alternate `reserve` of its lane: 1 is the first size of preemption_options::reserve, 0 the
  /// lane itself. Long work uses the lane or alternate with other long work in flight, so that two
  /// long kernels never run concurrently on a lane and its alternates.
  [[nodiscard]] segment plan(flight& f, const cut& c, std::size_t group, std::size_t reserve,
                             time_point now) noexcept {
    f.place = place_for(f, c.stream, group, reserve);
    f.stream = c.stream;
    f.program = f.runs = c.program;
    f.first = c.first;
    f.operations = c.operations;
    f.expected = c.expected;
    f.submitted = now;
    return {f.id,      f.owner->id, lanes_.id(f.place), options_.how, options_.instrumented,
            f.program, f.first,     f.operations};
  }

  /// Replaces the program of a planned segment, which is a whole program, by a padded one.
  void pad(flight& f, segment& s, const program& by) noexcept {
    f.runs = s.program = by.id();
    s.operations = by.range(0, by.size());
  }

  [[nodiscard]] std::error_code submit(flight& f, const segment& s,
                                       const registry& models) noexcept {
    if (const std::error_code e = device_.submit(s)) return e;
    if (!f.remainder) f.owner->context.list().bind(f.stream, lane_id{f.place});
    const flight* const ahead = lanes_.newest(f.place);
    accountant_.charge(f.id, models.asks(s),
                       ahead != nullptr ? std::optional(ahead->id) : std::nullopt);
    if (ahead == nullptr) use_.began(f.submitted);
    lanes_.add(f.place, f);
    return {};
  }

  /// The flight of a segment; null if it is not in flight.
  [[nodiscard]] flight* find(segment_id id) noexcept { return flights_.find(id); }

  /// Reports started or ended blocks of one of its kernels to the accountant.
  void report(const flight& f, const device_event& e, const registry& models) noexcept {
    if constexpr (Accountant::wants_blocks) {
      if (e.what == device_event::kind::blocks_started)
        accountant_.started(f.id, e.operation,
                            models.demand(f.runs, f.first, f.operations, e.operation), e.sm,
                            e.blocks);
      else
        accountant_.ended(f.id, e.operation, e.sm, e.blocks);
    }
  }

  /// The segment has ended. Returns its time on the lane, as the host observes it, unless that is
  /// no measure of the segment: it was held meanwhile, or ran on a side lane.
  std::optional<duration> complete(flight& f, time_point now) noexcept {
    const time_point began = std::max(f.submitted, lanes_.last_end(f.place));
    const bool plain = began >= lanes_.last_resumed(f.place) && !is_side(f);
    lanes_.ended(f.place, now);
    release(f, now);
    return plain ? std::optional(now - began) : std::nullopt;
  }

  /// Evicts segments that have not started, newest first, from each lane for which better(owner of
  /// its newest segment) holds. Each goes to back(flight), which drops it. Started work is never
  /// evicted, so nothing runs twice.
  template <class Better, class Back>
  void evict(Better better, Back back) noexcept {
    for (std::uint32_t place = 0; place < lanes_.size(); ++place) {
      const flight* newest = lanes_.newest(place);
      if (newest != nullptr && better(*newest)) evict(place, back);
    }
  }
  /// Evicts from one lane.
  template <class Back>
  void evict(std::uint32_t place, Back back) noexcept {
    const std::size_t n = device_.evict(lanes_.id(place));
    if (n == 0) return;
    const time_point now = device_.now();
    for (std::size_t left = n; left > 0; --left) {
      flight& f = *lanes_.newest(place);
      release(f, now);
      back(f);
    }
  }

  /// The time at which the segment counts as lost without further events; never for a segment of a
  /// lane that does not run. More urgent work on other lanes may delay the segment until that work
  /// ends.
  [[nodiscard]] time_point limit_of(const flight& f) const noexcept {
    constexpr duration longest = std::chrono::hours{24};
    if (options_.segment_limit == run_to_completion) return no_deadline;
    time_point since =
        std::max({f.submitted, lanes_.last_end(f.place), lanes_.last_resumed(f.place)});
    if (apart() && lanes_.group_of(f.place) != real_time)
      for (std::uint32_t i = 0; i < lanes_.lanes(real_time); ++i)
        since = std::max(since, lanes_.last_end(lanes_.first(real_time) + i));
    const duration expected = std::min(f.expected, longest) * options_.limit_factor;
    return saturating_add(since, std::max(options_.segment_limit, expected));
  }

  /// Takes back the preempted segments of a lane that has yielded, newest first, like evict; `back`
  /// also receives whether the segment may have started.
  template <class Back>
  void take_preempted(std::uint32_t place, Back back) noexcept {
    const time_point now = device_.now();
    flight* older = nullptr;
    for (flight* f = lanes_.newest(place); f != nullptr; f = older) {
      older = lanes_.before(*f);
      if (!f->preempted) continue;
      release(*f, now);
      back(*f, older == nullptr);
    }
  }

  /// The expected time until a planned segment ends: what its lane still has before it, and its
  /// own.
  [[nodiscard]] duration ends_in(const flight& f, time_point now) noexcept {
    duration before = lanes_.queued(f.place);
    if (const flight* const runs = lanes_.oldest(f.place))
      before -= std::min(runs->expected, now - std::max(runs->submitted, lanes_.last_end(f.place)));
    return before + f.expected;
  }

  /// How long the oldest segments on the lanes of a group have run, at most their expected time.
  [[nodiscard]] duration under_way(std::size_t group, time_point now) noexcept {
    duration sum{};
    for (std::uint32_t i = 0; i < lanes_.lanes(group); ++i) {
      const std::uint32_t place = lanes_.first(group) + i;
      if (const flight* const f = lanes_.oldest(place))
        sum += std::min(f->expected, now - std::max(f->submitted, lanes_.last_end(place)));
    }
    return sum;
  }

  [[nodiscard]] lane_statistics use(time_point now) noexcept {
    lane_statistics u = use_.until(now);
    u.lanes = static_cast<std::uint32_t>(lanes_.size());
    return u;
  }
  [[nodiscard]] bool empty() const noexcept { return flights_.in_use() == 0; }
  [[nodiscard]] bool full() const noexcept { return flights_.full(); }
  [[nodiscard]] lane_set& lanes() noexcept { return lanes_; }
  /// Whether real-time jobs have lanes of their own.
  [[nodiscard]] bool apart() const noexcept { return options_.preemption.real_time_lanes > 0; }
  [[nodiscard]] bool is_side(const flight& f) const noexcept {
    return lanes_.group_of(f.place) >= first_side;
  }
  /// The number of best-effort lanes and alternates, which the guard controls.
  [[nodiscard]] std::uint32_t guarded() const noexcept {
    const auto sizes = static_cast<std::uint32_t>(options_.preemption.reserve.size());
    return options_.lanes * (1 + sizes);
  }
  /// The guard's index of a lane; none for other lanes.
  [[nodiscard]] std::optional<std::uint32_t> guarded_at(std::uint32_t place) const noexcept {
    if (place < options_.lanes) return place;
    if (place < first_reserve_ || first_reserve_ == 0) return std::nullopt;
    return place - first_reserve_ + options_.lanes;
  }
  [[nodiscard]] std::uint32_t guarded_place(std::uint32_t i) const noexcept {
    return i < options_.lanes ? i : i - options_.lanes + first_reserve_;
  }
  /// The index of the alternate, as for plan().
  [[nodiscard]] std::size_t reserve_of(std::uint32_t place) const noexcept {
    if (place < first_reserve_ || first_reserve_ == 0) return 0;
    return 1 + (place - first_reserve_) / options_.lanes;
  }
  /// The group whose lane runs copies of best-effort jobs beside real-time work.
  [[nodiscard]] std::size_t copies() const noexcept {
    return first_side + options_.preemption.side.size();
  }

private:
  [[nodiscard]] std::uint32_t place_for(const flight& f, stream_id stream, std::size_t group,
                                        std::size_t reserve) noexcept {
    if (const auto bound = f.owner->context.list().lane(stream); bound && !f.remainder)
      return index(*bound);
    if (f.has_long) {
      const std::uint32_t lane = *lanes_.least_queued(group);
      if (const auto used = lanes_.long_place(lane)) return *used;
      if (reserve == 0) return lane;
      return first_reserve_ + static_cast<std::uint32_t>(reserve - 1) * options_.lanes + lane;
    }
    if (group < first_side && options_.use == lane_use::own) return lanes_.next_round_robin(group);
    if (group < first_side && options_.use == lane_use::client)
      return lanes_.first(group) + index(f.owner->owner->id) % lanes_.lanes(group);
    return *lanes_.least_queued(group, has_spares());
  }

  /// Whether spare lanes take work: only if all lanes form one group.
  [[nodiscard]] bool has_spares() const noexcept {
    return lanes_.spares(best_effort) > 0 && accountant_.load() < 1.0;
  }

  void release(flight& f, time_point now) noexcept {
    lanes_.remove(f.place, f);
    if (lanes_.oldest(f.place) == nullptr) use_.ended(now);
    accountant_.release(f.id);
  }

  Device& device_;
  Accountant& accountant_;
  const dispatch_options& options_;
  flight_table flights_;
  lane_set lanes_;
  use_clock use_;
  std::uint32_t first_reserve_ = 0; ///< index of the first alternate; 0: lanes are one group
};

} // namespace gsched
