// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/preemptive_device.hpp>
#include <gsched/sim/detail/hardware.hpp>
#include <gsched/sim/detail/laws/program_costs.hpp>
#include <gsched/sim/detail/sm_partitions.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/sim/preset.hpp>

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

/// The capacities of a simulated device. Memory is touched only when it is used.
struct device_options {
  std::size_t max_segments = std::size_t{1} << 16; ///< accepted and not yet polled
  /// Block events of instrumented segments that are accepted and not yet polled; at most two a
  /// block.
  std::size_t max_block_events = std::size_t{1} << 20;
};

/// A simulated GPU and the host thread that drives it, in virtual time: a model of gsched::device
/// and of preemptive_device. Calls take the host time that they would take on the hardware, and the
/// GPU runs concurrently.
///
/// A lane that yields behaves like one of gsched::cuda::device. A graph of more than two operations
/// that are not preemptible has gates, and nothing behind it is submitted to the hardware before
/// poll has seen its end; only preemptible segments follow a preemptible segment there. Segments
/// outside programs, segments of direct launches, and segments of two operations run to their end.
/// Kernels whose blocks find the flag set as they start run through with all their blocks.
/// lane_yielded is reported after the time that the operation beside the gate takes alone, although
/// other work may have slowed it.
///
/// Differs  nothing fails: segment_failed is never polled. When a lane yields, waiting segments are
///          also withdrawn behind one that stays, and that one blocks no other lane of its hardware
///          queue. evict withdraws all segments that have not started. Blocks that exit at a
///          checkpoint save nothing and start again.
/// Order    simultaneous events have a fixed order, so equal calls give equal results.
/// Errors   submit: bad_option for an unknown lane or one that yields now, an empty segment, a
///          range outside its program or an operation that is no device work; does_not_fit for a
///          kernel that fits on no SM; too_small if device_options are exceeded. None of them
///          changes anything. open_lane: too_small for too many lanes or for SMs that are taken;
///          bad_option for `sms` and `reserved` together. load: does_not_fit.
/// Cost     submit, poll and evict O(1) a segment or event, plus the simulation of the GPU's work
///          in between.
/// Threads  one owner; no locking.
class device {
public:
  explicit device(preset p, const device_options& o = {}, const observer& watch = {})
      : state_(std::make_unique<state>(std::move(p), o, watch)) {}

  lane_id open_lane(const lane_options& how) {
    state& s = *state_;
    static_cast<void>(how.checked());
    if (s.hw.lanes().lanes() >= s.limits.lanes)
      throw error(errc::too_small, s.p.name + ": lane " + std::to_string(s.hw.lanes().lanes()) +
                                       ", expected at most " + std::to_string(s.limits.lanes));
    sm_range where{0, s.p.sms.count()};
    if (how.sms.count() != 0 || how.reserved.count() != 0) {
      where = how.sms.count() != 0 ? s.split.take(how.sms) : s.split.all_but(how.reserved);
      s.hw.blocks().map().cut(where);
    }
    const std::uint32_t width = s.costs.width(sm_count{where.size()});
    return lane_id{s.hw.open_lane(how, where, width)};
  }

  void load(program& p) { p.set_id(state_->costs.load(p)); }

  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    state& d = *state_;
    const queues& all = d.hw.lanes();
    if (index(s.lane) >= all.lanes() || s.operations.empty()) return errc::bad_option;
    const lane_state& on = all.lane(index(s.lane));
    if (on.yielding) return errc::bad_option;
    const std::uint32_t width = on.width;
    accepted a;
    a.gap = d.p.laws.graph.gap;
    if (s.program == no_program) {
      for (const operation* op : s.operations) {
        if (!op->is_device_work()) return errc::bad_option;
        if (!d.costs.brief(*op, width).fits()) return errc::does_not_fit;
      }
    } else {
      if (!d.costs.has(s.program, s.first, s.operations.size())) return errc::bad_option;
      a.costs = d.costs.at(s.program, width) + s.first;
      a.gap = d.costs.gap(s.program);
      a.preemptible = on.yields && d.costs.preemptible(s.program, s.first, s.operations.size());
      a.gated = on.yields && !a.preemptible && s.how == submission::graph &&
                s.operations.size() > yielding::first_gate;
    }
    if (s.instrumented) {
      for (const operation* op : s.operations)
        if (op->kind == operation_kind::kernel)
          a.reports += 2 * std::max<std::size_t>(op->launch.blocks(), 1);
    }
    if (!d.hw.has_free_slots(a.reports)) return errc::too_small;

    simulate_until(d.now);
    a.id = s.id;
    a.owner = s.owner;
    a.operations = s.operations;
    a.program = s.program;
    a.first = s.first;
    a.lane = index(s.lane);
    a.how = s.how;
    a.instrumented = s.instrumented;
    a.waits = on.yields && (!on.waiting.empty() || !queues::may_start(a, on, d.now));
    if (!a.waits) d.launch(a);
    d.hw.enqueue(a);
    return {};
  }

  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    state& d = *state_;
    simulate_until(d.now);
    event_queue& told = d.hw.out();
    std::size_t n = 0;
    while (n < out.size() && told.next() <= d.now) out[n++] = told.take();
    d.hw.hand_over(d.now, [&](accepted& a) { d.launch(a); });
    d.now += d.p.host.poll + d.p.host.take * static_cast<duration::rep>(n);
    return n;
  }

  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes().lanes());
    simulate_until(d.now);
    const std::size_t n = d.hw.evict(index(lane), d.now);
    if (n > 0) d.now += d.p.host.evict;
    return n;
  }

  void yield(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes().lanes());
    simulate_until(d.now);
    d.now += d.hw.ways().yield(index(lane), d.now);
  }
  void resume(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes().lanes());
    simulate_until(d.now);
    d.now += d.hw.ways().resume(index(lane), d.now);
  }

  /// With nothing under way, waiting for no_deadline returns at once, because no event would end
  /// it.
  void wait(time_point t) noexcept {
    state& d = *state_;
    for (;;) {
      const time_point until = std::min(d.hw.out().next(), t);
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

  /// Whether poll has an event to give now.
  [[nodiscard]] bool has_event() noexcept {
    simulate_until(state_->now);
    return state_->hw.out().next() <= state_->now;
  }
  /// When its state changes next if nothing more is submitted; time_point::max() if never.
  [[nodiscard]] time_point next_change() noexcept {
    simulate_until(state_->now);
    return std::min(state_->hw.out().next(), state_->hw.next());
  }

  /// The host thread is busy with other work for that long, such as decisions or reading a request.
  void spend(duration t) noexcept { state_->now += std::max(t, duration::zero()); }

  /// The number of SMs of a lane, which can exceed the requested number.
  [[nodiscard]] sm_count sms_of(lane_id lane) const noexcept {
    return sm_count{state_->hw.lanes().lane(index(lane)).where.size()};
  }

  /// Total time until now in which some kernel ran.
  [[nodiscard]] duration busy_time() noexcept {
    simulate_until(state_->now);
    state_->hw.account(state_->now);
    return state_->hw.busy();
  }
  /// The number of SMs that held at least one block, in SM seconds until now.
  [[nodiscard]] double sm_time() noexcept {
    simulate_until(state_->now);
    state_->hw.account(state_->now);
    return state_->hw.sm_ns() * 1e-9;
  }
  /// The fraction of the SMs that held at least one block, averaged over the time until now.
  [[nodiscard]] double mean_occupied() noexcept {
    const double passed = to_s(state_->now.time_since_epoch());
    return passed > 0 ? sm_time() / passed / state_->p.sms.count() : 0;
  }

  /// The number of blocks that had started when their lane yielded and exited at a checkpoint:
  /// their work is lost.
  [[nodiscard]] std::uint64_t restarted_blocks() const noexcept {
    return state_->hw.ways().restarted_blocks();
  }
  /// The number of blocks that ran again although they had ended. Zero unless a program is run
  /// again before the rest of a preempted run.
  [[nodiscard]] std::uint64_t rerun_blocks() const noexcept { return state_->costs.rerun_blocks(); }

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

    /// The host submits it to the hardware now.
    void launch(accepted& a) noexcept {
      const auto n = static_cast<duration::rep>(a.operations.size());
      const host_costs& h = p.host;
      const bool graph = a.how == submission::graph;
      a.step = graph ? duration::zero() : h.launch;
      const duration latency = graph ? h.start + h.start_operation * n : h.start;
      a.arrival = std::max(now + latency, last_arrival); // one host thread, one order
      last_arrival = a.arrival + a.step * (n - 1);
      now += graph ? h.graph + h.graph_operation * n : h.launch * n;
    }

    preset p;
    program_costs costs;
    sm_partitions split;
    hardware hw;
    device_limits limits{};
    time_point now{};
    time_point last_arrival{};
  };

  /// Runs the GPU until t.
  void simulate_until(time_point t) noexcept {
    while (state_->hw.next() <= t) state_->hw.step();
  }

  std::unique_ptr<state> state_; ///< its members refer to one another; the device itself is movable
};

static_assert(preemptive_device<device>);

} // namespace gsched::sim
