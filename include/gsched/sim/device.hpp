// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/preemptive_device.hpp>
#include <gsched/sim/detail/hardware.hpp>
#include <gsched/sim/detail/partitions.hpp>
#include <gsched/sim/detail/program_costs.hpp>
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

/// How much a simulated device can hold. Memory is touched as far as it is used.
struct device_options {
  std::size_t max_segments = std::size_t{1} << 16; ///< accepted and not yet polled
  /// Block events of instrumented segments, accepted and not yet polled; at the most two a block.
  std::size_t max_block_events = std::size_t{1} << 20;
};

/// A GPU and the host thread that drives it, in virtual time: a model of gsched::device, and of
/// preemptive_device, that needs no GPU. The host pays for each call as it would on the hardware,
/// and the GPU runs beside it.
///
/// A lane that yields is driven as gsched::cuda::device drives one. A graph of more than two
/// operations that cannot leave has gates, and behind it nothing is handed over before poll has
/// seen its end; what leaves has only such work behind it. Segments of no program, of direct
/// launches and of two operations run to their ends. Kernels that find the flag set as they start
/// pass through the GPU, each with all its blocks. lane_yielded is said when the time is over that
/// the operation beside the gate takes alone, though others may have slowed it.
///
/// Differs  nothing fails here: segment_failed is never polled. When a lane yields, segments that
///          wait are taken back also behind one that stays, and that one holds up no other lane of
///          its hardware queue. evict takes back all that has not started. Blocks that leave at a
///          checkpoint save nothing: they start again.
/// Order    what happens at one time happens in one order, so equal calls give equal answers.
/// Errors   submit: bad_option for an unknown lane or one that yields now, an empty segment, a
/// range
///          outside its program or an operation that is no device work; does_not_fit for a kernel
///          that no SM holds; too_small where device_options are exceeded. None changes anything.
///          open_lane: too_small for too many lanes or SMs that are taken; bad_option for `sms` and
///          `leaves` together.
///          load: does_not_fit.
/// Cost     submit, poll and evict O(1) a segment or event, beside what the GPU did meanwhile.
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
    if (how.sms.count() != 0 || how.leaves.count() != 0) {
      where = how.sms.count() != 0 ? s.split.take(how.sms) : s.split.all_but(how.leaves);
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
    if (s.program == no_program) {
      for (const operation* op : s.operations) {
        if (!op->is_device_work()) return errc::bad_option;
        if (!d.costs.brief(*op, width).fits()) return errc::does_not_fit;
      }
    } else {
      if (!d.costs.has(s.program, s.first, s.operations.size())) return errc::bad_option;
      a.costs = d.costs.at(s.program, width) + s.first;
      a.leaves = on.yields && d.costs.leave(s.program, s.first, s.operations.size());
      a.gated = on.yields && !a.leaves && s.how == submission::graph &&
                s.operations.size() > yielding::first_gate;
    }
    if (s.instrumented) {
      for (const operation* op : s.operations)
        if (op->kind == operation_kind::kernel)
          a.reports += 2 * std::max<std::size_t>(op->launch.blocks(), 1);
    }
    if (!d.hw.has_room(a.reports)) return errc::too_small;

    settle(d.now);
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
    settle(d.now);
    news& told = d.hw.out();
    std::size_t n = 0;
    while (n < out.size() && told.next() <= d.now) out[n++] = told.take();
    d.hw.hand_over(d.now, [&](accepted& a) { d.launch(a); });
    d.now += d.p.host.poll + d.p.host.take * static_cast<duration::rep>(n);
    return n;
  }

  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes().lanes());
    settle(d.now);
    const std::size_t n = d.hw.evict(index(lane), d.now);
    if (n > 0) d.now += d.p.host.evict;
    return n;
  }

  void yield(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes().lanes());
    settle(d.now);
    d.now += d.hw.ways().yield(index(lane), d.now);
  }
  void resume(lane_id lane) noexcept {
    state& d = *state_;
    assert(index(lane) < d.hw.lanes().lanes());
    settle(d.now);
    d.now += d.hw.ways().resume(index(lane), d.now);
  }

  /// Where nothing is under way, waiting for no_deadline returns at once: nothing could end it.
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

  /// The host thread does something else for that long: decides, say, or reads a request.
  void spend(duration t) noexcept { state_->now += std::max(t, duration::zero()); }

  /// The SMs that a lane has, which can be more than were asked for.
  [[nodiscard]] sm_count sms_of(lane_id lane) const noexcept {
    return sm_count{state_->hw.lanes().lane(index(lane)).where.size()};
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

  /// Blocks that had started when their lane yielded and left at a checkpoint: what they had done
  /// is lost.
  [[nodiscard]] std::uint64_t restarted_blocks() const noexcept {
    return state_->hw.ways().restarted_blocks();
  }
  /// Blocks run again though they had ended. None, unless a program is run again before what was
  /// left of it.
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

    /// The host hands it over now.
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

static_assert(preemptive_device<device>);

} // namespace gsched::sim
