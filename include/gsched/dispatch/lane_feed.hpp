// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/flight.hpp>
#include <gsched/dispatch/lane_set.hpp>
#include <gsched/dispatch/model.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/job/waitlist.hpp>
#include <gsched/occupancy/accountant.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

namespace gsched {

/// Everything between a cut and the device: which lane it goes to, how much is ahead of the
/// device, and what is in flight. It knows jobs only as the owners of flights.
///
/// Cost     O(lanes) to submit, O(1) to land; no allocation after construction.
/// Threads  one owner; no locking.
template <device Device, accountant Accountant>
class lane_feed {
public:
  lane_feed(Device& on, Accountant& account, const dispatch_options& how)
      : device_(on), accountant_(account), options_(how), flights_(how.max_segments),
        lanes_(how.low_mark, how.high_mark) {
    for (std::uint32_t i = 0; i < how.lanes; ++i) lanes_.open(device_.open_lane(how.lane));
  }

  /// The device is to get more, whoever it comes from.
  [[nodiscard]] bool wants_more() const noexcept {
    return !flights_.full() && accountant_.has_room() &&
           (options_.use != lane_use::shared || lanes_.any_hungry());
  }

  /// Room for a flight, to be given to submit or dropped; wants_more() must hold.
  [[nodiscard]] flight& take(active_job& owner) noexcept { return *flights_.try_take(owner); }
  void drop(flight& f) noexcept { flights_.give_back(f); }

  /// The segment that the cut becomes, on the lane where the stream's earlier work is in flight, or
  /// else on the one that wants work most.
  [[nodiscard]] segment plan(flight& f, const cut& c, time_point now) noexcept {
    f.place = place_for(f, c.stream);
    f.stream = c.stream;
    f.program = c.program;
    f.first = c.first;
    f.operations = c.operations;
    f.expected = c.expected;
    f.submitted = now;
    return {f.id,      f.owner->id, lanes_.id(f.place), options_.how, options_.instrumented,
            f.program, f.first,     f.operations};
  }

  [[nodiscard]] std::error_code submit(flight& f, const segment& s,
                                       const model_table& models) noexcept {
    if (const std::error_code e = device_.submit(s)) return e;
    f.owner->context.list().bind(f.stream, lane_id{f.place});
    accountant_.charge(f.id, models.asks(s));
    lanes_.add(f.place, f);
    return {};
  }

  /// Null when no such segment is in flight.
  [[nodiscard]] flight* find(segment_id id) noexcept { return flights_.find(id); }

  /// Blocks of one of its kernels have started or ended.
  void report(const flight& f, const device_event& e, const model_table& models) noexcept {
    if constexpr (Accountant::wants_blocks) {
      if (e.what == device_event::kind::blocks_started)
        accountant_.started(f.id, e.operation,
                            models.demand(f.program, f.first, f.operations, e.operation), e.sm,
                            e.blocks);
      else
        accountant_.ended(f.id, e.operation, e.sm, e.blocks);
    }
  }

  /// It was seen to end. Returns for how long it had its lane, as the host sees it.
  duration land(flight& f, time_point now) noexcept {
    const duration took = now - std::max(f.submitted, lanes_.last_end(f.place));
    lanes_.ended(f.place, now);
    release(f);
    return took;
  }

  /// Takes back the segments that have not started, newest first, from each lane where
  /// better(owner of its newest) holds; each goes to back(flight), which drops it. Work that has
  /// started is never touched, so nothing runs twice.
  template <class Better, class Back>
  void evict(Better better, Back back) noexcept {
    for (std::uint32_t place = 0; place < lanes_.size(); ++place) {
      const flight* newest = lanes_.newest(place);
      if (newest == nullptr || !better(*newest->owner)) continue;
      for (std::size_t n = device_.evict(lanes_.id(place)); n > 0; --n) {
        flight& f = *lanes_.newest(place);
        release(f);
        back(f);
      }
    }
  }

  [[nodiscard]] bool empty() const noexcept { return flights_.in_use() == 0; }

private:
  [[nodiscard]] std::uint32_t place_for(const flight& f, stream_id stream) noexcept {
    if (const auto bound = f.owner->context.list().lane(stream)) return index(*bound);
    if (options_.use == lane_use::own) return lanes_.next_in_turn();
    if (options_.use == lane_use::client)
      return index(f.owner->owner->id) % static_cast<std::uint32_t>(lanes_.size());
    return *lanes_.hungriest();
  }

  void release(flight& f) noexcept {
    lanes_.remove(f.place, f);
    accountant_.release(f.id);
  }

  Device& device_;
  Accountant& accountant_;
  const dispatch_options& options_;
  flight_table flights_;
  lane_set lanes_;
};

} // namespace gsched
