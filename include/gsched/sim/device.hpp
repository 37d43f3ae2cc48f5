// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>
#include <gsched/sim/hardware.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/sim/partitions.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/program_costs.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace gsched::sim {

/// How much a simulated device can hold. Memory is touched as far as it is used.
struct device_options {
  std::size_t max_segments = std::size_t{1} << 16; ///< accepted and not yet polled
  /// Block events of instrumented segments, accepted and not yet polled; at the most two a block.
  std::size_t max_block_events = std::size_t{1} << 20;
};

/// A GPU and the host thread that drives it, in virtual time: a model of gsched::device that needs
/// no GPU. The host pays for each call as it would on the hardware, and the GPU runs beside it.
///
/// Differs  nothing fails here: segment_failed is never polled. On the hardware a kernel that the
///          queues have let go can still leave at its preamble; here it has started and stays.
/// Order    what happens at one time happens in one order, so equal calls give equal answers.
/// Errors   submit: bad_option for an unknown lane, an empty segment, a range outside its program
///          or an operation that is no device work; does_not_fit for a kernel that no SM holds;
///          too_small where device_options are exceeded. None changes anything.
///          open_lane: too_small for too many lanes or SMs that are taken.
///          load: does_not_fit.
/// Cost     submit, poll and evict O(1) a segment or event, beside what the GPU did meanwhile.
/// Threads  one owner; no locking.
class device {
public:
  explicit device(preset p, const device_options& o = {}, const observer& watch = {})
      : state_(std::make_unique<state>(std::move(p), o, watch)) {}

  lane_id open_lane(const lane_options& how) {
    state& s = *state_;
    if (s.hw.lanes() >= s.limits.lanes)
      throw error(errc::too_small, s.p.name + ": lane " + std::to_string(s.hw.lanes()) +
                                       ", expected at most " + std::to_string(s.limits.lanes));
    sm_range where{0, s.p.sms.count()};
    if (how.sms.count() != 0) {
      where = s.split.take(how.sms);
      s.hw.blocks().map().cut(where);
    }
    const std::uint32_t width = s.costs.width(sm_count{where.size()});
    return lane_id{s.hw.open_lane(how.priority, where, width)};
  }

  void load(program& p) { p.set_id(state_->costs.load(p)); }

  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    state& d = *state_;
    if (index(s.lane) >= d.hw.lanes() || s.operations.empty()) return errc::bad_option;
    const std::uint32_t width = d.hw.width(index(s.lane));
    accepted a;
    if (s.program == no_program) {
      for (const operation* op : s.operations) {
        if (!op->is_device_work()) return errc::bad_option;
        if (!d.costs.brief(*op, width).fits()) return errc::does_not_fit;
      }
    } else {
      if (!d.costs.has(s.program, s.first, s.operations.size())) return errc::bad_option;
      a.costs = d.costs.at(s.program, width) + s.first;
    }
    if (s.instrumented) {
      for (const operation* op : s.operations)
        if (op->kind == operation_kind::kernel)
          a.reports += 2 * std::max<std::size_t>(op->launch.blocks(), 1);
    }
    if (!d.hw.has_room(a.reports)) return errc::too_small;

    settle(d.now);
    const auto n = static_cast<duration::rep>(s.operations.size());
    const host_costs& h = d.p.host;
    const bool graph = s.how == submission::graph;
    a.id = s.id;
    a.owner = s.owner;
    a.operations = s.operations;
    a.lane = index(s.lane);
    a.how = s.how;
    a.instrumented = s.instrumented;
    a.step = graph ? duration::zero() : h.launch;
    const duration latency = graph ? h.start + h.start_operation * n : h.start;
    a.arrival = std::max(d.now + latency, d.last_arrival); // one host thread, one order
    d.last_arrival = a.arrival + a.step * (n - 1);
    d.hw.enqueue(a);
    d.now += graph ? h.graph + h.graph_operation * n : h.launch * n;
    return {};
  }

  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    state& d = *state_;
    settle(d.now);
    notices& blocks = d.hw.reports();
    notices& ends = d.hw.ends();
    std::size_t n = 0;
    while (n < out.size()) {
      notices& first = blocks.next() <= ends.next() ? blocks : ends;
      if (first.next() > d.now) break;
      out[n++] = first.front().event;
      first.pop();
    }
    d.now += d.p.host.poll + d.p.host.take * static_cast<duration::rep>(n);
    return n;
  }

  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes());
    settle(d.now);
    const std::size_t n = d.hw.evict(index(lane), d.now);
    if (n > 0) d.now += d.p.host.evict;
    return n;
  }

  /// Where nothing is under way, waiting for no_deadline returns at once: nothing could end it.
  void wait(time_point t) noexcept {
    state& d = *state_;
    for (;;) {
      const time_point seen = std::min(d.hw.reports().next(), d.hw.ends().next());
      const time_point until = std::min(seen, t);
      if (d.hw.next() <= until && d.hw.next() != time_point::max()) {
        d.hw.step();
        continue;
      }
      if (until != time_point::max()) d.now = std::max(d.now, until);
      return;
    }
  }

  [[nodiscard]] time_point now() const noexcept { return state_->now; }
  [[nodiscard]] const device_limits& limits() const noexcept { return state_->limits; }

  /// The host thread does something else for that long: decides, say, or reads a request.
  void spend(duration t) noexcept { state_->now += std::max(t, duration::zero()); }

  /// The SMs that a lane has, which can be more than were asked for.
  [[nodiscard]] sm_count sms_of(lane_id lane) const noexcept {
    return sm_count{state_->hw.sms(index(lane)).size()};
  }

  /// Time until now in which some kernel ran.
  [[nodiscard]] duration busy_time() noexcept {
    settle(state_->now);
    state_->hw.account(state_->now);
    return state_->hw.busy();
  }
  /// Part of the SMs, averaged over all time until now, that held at least one block.
  [[nodiscard]] double mean_occupied() noexcept {
    settle(state_->now);
    state_->hw.account(state_->now);
    const auto passed = static_cast<double>(state_->now.time_since_epoch().count());
    return passed > 0 ? state_->hw.sm_ns() / passed / state_->p.sms.count() : 0;
  }

private:
  struct state {
    state(preset from, const device_options& o, const observer& watch)
        : p(checked(std::move(from))), costs(p), split(p.sms, p.partition_unit),
          hw(p, costs, watch, o.max_segments, o.max_block_events) {
      limits.sm = p.sm;
      limits.sms = p.sms;
      limits.lanes = p.max_lanes;
    }
    static preset checked(preset p) {
      p.check();
      return p;
    }

    preset p;
    program_costs costs;
    partitions split;
    hardware hw;
    device_limits limits{};
    time_point now{};
    time_point last_arrival{};
  };

  /// Lets the GPU do all that it does until t.
  void settle(time_point t) noexcept {
    while (state_->hw.next() <= t) state_->hw.step();
  }

  std::unique_ptr<state> state_; ///< its parts refer to one another; the device itself can move
};

static_assert(gsched::device<device>);

} // namespace gsched::sim
