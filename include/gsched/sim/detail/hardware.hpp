// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/detail/blocks/block_scheduler.hpp>
#include <gsched/sim/detail/laws/program_costs.hpp>
#include <gsched/sim/detail/queues/copy_engine.hpp>
#include <gsched/sim/detail/queues/event_queue.hpp>
#include <gsched/sim/detail/queues/queues.hpp>
#include <gsched/sim/detail/queues/yielding.hpp>
#include <gsched/sim/observer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched::sim {

/// The GPU of a simulated device: hardware queues, copy engines and SMs, event by event.
///
/// Order    at equal times: ends, then starts by hardware queue, then placements of blocks.
/// Cost     O(queues + running grids) an event, plus that of the block scheduler.
/// Threads  one owner; no locking.
class hardware {
public:
  static constexpr std::uint32_t none = queues::none;

  hardware(const preset& p, program_costs& costs, const observer& watch, std::size_t max_segments,
           std::size_t max_block_events)
      : preset_(p), costs_(costs), watch_(watch), scheduler_(p),
        events_(max_segments, max_block_events), queues_(max_segments, p.effective_queues()),
        yielding_(p.yields, p.host.block_notification, queues_, scheduler_, events_) {}

  [[nodiscard]] block_scheduler& blocks() noexcept { return scheduler_; }
  [[nodiscard]] event_queue& out() noexcept { return events_; }
  [[nodiscard]] const queues& lanes() const noexcept { return queues_; }
  [[nodiscard]] yielding& ways() noexcept { return yielding_; }

  std::uint32_t open_lane(const lane_options& how, sm_range where, std::uint32_t width) {
    lane_state l;
    l.priority = how.priority;
    l.where = where;
    l.width = width;
    l.yields = how.yields;
    const std::uint32_t id = queues_.open_lane(l);
    for (copy_engine& e : engines_) e.open_lane();
    if (how.yields) yielding_.open_lane();
    return id;
  }

  /// Whether one more segment, with at most `reports` block events, can be accepted.
  [[nodiscard]] bool has_free_slots(std::size_t reports) const noexcept {
    return queues_.free_slots() > events_.ends() &&
           reports <= events_.free_block_slots() - queues_.kept_reports();
  }

  /// Requires has_free_slots().
  void enqueue(const accepted& a) noexcept { queues_.enqueue(a); }
  /// Called whenever the host polls: see queues.
  template <class Launch>
  void hand_over(time_point now, Launch&& launch) noexcept {
    queues_.hand_over(now, launch);
  }

  /// Withdraws segments that have not started, except those that a yield withdraws.
  [[nodiscard]] std::size_t evict(std::uint32_t id, time_point now) noexcept {
    return queues_.lane(id).stopped ? 0 : queues_.evict(id, now);
  }

  /// The time of the next event, if nothing is submitted before.
  [[nodiscard]] time_point next() const noexcept {
    return std::min(std::min(next_, queues_.next()), yielding_.next());
  }

  /// Processes the events at next().
  void step() noexcept {
    const time_point now = next();
    account(now);
    scheduler_.finish(now, sink{*this, now});
    for (copy_engine& e : engines_)
      while (e.ends() <= now) {
        const std::uint32_t slot = queues_.lane(e.head()).current;
        e.finish();
        mark(watch_.ended, now, slot);
        complete(slot, now);
        start_copy(e, now);
      }
    if (yielding_.next() <= now) yielding_.step(now);
    queues_.visit_due(now, [&](hardware_queue& q) { issue(q, now); });
    scheduler_.set_beside(queues_.active_lanes() > 1);
    scheduler_.place(now, sink{*this, now});
    scheduler_.refresh(now);
    watch_occupied(now);
    next_ = scheduler_.next_end();
    for (const copy_engine& e : engines_) next_ = std::min(next_, e.ends());
  }

  /// Adds up busy times until `now`, which is not after next().
  void account(time_point now) noexcept {
    const duration passed = now - accounted_;
    accounted_ = now;
    if (!scheduler_.idle()) busy_ += passed;
    sm_ns_ += static_cast<double>(passed.count()) * scheduler_.map().occupied();
  }
  [[nodiscard]] duration busy() const noexcept { return busy_; }
  [[nodiscard]] double sm_ns() const noexcept { return sm_ns_; }

private:
  /// Callbacks of the block scheduler.
  struct sink {
    hardware& hw;
    time_point now;
    void placed(const grid& g, std::uint32_t slices) noexcept {
      if (!g.started) {
        hw.mark(hw.watch_.started, now, g.owner);
        if (hw.queues_.lane(hw.queues_[g.owner].lane).stopped) hw.yielding_.looks(g.owner, now);
      }
      if (g.reports) hw.report(device_event::kind::blocks_started, g.owner, slices, now);
    }
    void left(const grid& g, const cohort& c) noexcept {
      if (g.reports) hw.report(device_event::kind::blocks_done, g.owner, c.slices, now);
      if (hw.watch_.blocks != nullptr && !c.preempted)
        hw.watch_.blocks(hw.watch_.self, now, hw.mark_of(g.owner), g.base + g.finished, c.blocks);
    }
    void done(std::uint32_t slot) noexcept {
      const grid& g = hw.scheduler_[slot];
      if (g.started) hw.mark(hw.watch_.ended, now, g.owner);
      if (g.left) hw.keep_rest(g);
      hw.complete(g.owner, now);
      if (hw.stalled_ == 0) return;
      hw.stalled_ = 0;
      for (std::uint32_t i = 0; i < hw.queues_.used(); ++i) {
        hardware_queue& q = hw.queues_.queue(i);
        if (q.stalled) hw.queues_.look(q, now);
        q.stalled = false;
      }
    }
  };

  /// When the next operation of a segment can start, if its lane is free.
  time_point ready_at(const accepted& a, const lane_state& l) const noexcept {
    const time_point here =
        std::max(l.goes_on, a.arrival + a.step * static_cast<duration::rep>(a.issued));
    if (l.last_end == time_point::min()) return here;
    duration gap = a.issued == 0 ? preset_.gaps.segments : a.gap + l.extra;
    if (a.how == submission::launches) gap = preset_.gaps.launches + l.extra;
    if (a.gated && yielding_.gated(a.issued)) gap += preset_.yields.gate;
    if (a.preemptible && !l.stopped) gap += preset_.laws.preemption.preamble;
    return std::max(here, l.last_end + gap);
  }

  /// Starts the operations that can start at the head of a queue.
  void issue(hardware_queue& q, time_point now) noexcept {
    q.look = time_point::max();
    while (q.head != none) {
      const std::uint32_t slot = q.head;
      accepted& a = queues_[slot];
      lane_state& l = queues_.lane(a.lane);
      if (l.busy) return; // until it completes
      const time_point ready = ready_at(a, l);
      if (ready > now) {
        q.look = ready;
        return;
      }
      const operation& op = *a.operations[a.issued];
      if (!uses_copy_engine(op) && scheduler_.full()) {
        q.stalled = true;
        ++stalled_;
        return;
      }
      l.busy = true;
      l.current = slot;
      ++a.issued;
      start(slot, a, l, op, now);
      if (l.resuming) yielding_.resumed(l, a.lane, now);
      if (l.stopped && yielding_.stands(slot)) continue; // it is out of the queue
      if (a.issued < a.operations.size()) return;        // its next operation follows this one
      queues_.remove(slot);
    }
  }

  void start(std::uint32_t slot, accepted& a, lane_state& l, const operation& op,
             time_point now) noexcept {
    if (uses_copy_engine(op)) {
      copy_engine& e = engines_[op.direction == copy_direction::device_to_host ? 1 : 0];
      e.append(a.lane, transfer_time(op, preset_));
      start_copy(e, now);
      return;
    }
    const std::uint32_t g = l.grid = scheduler_.take();
    grid& it = scheduler_[g];
    it.cost = a.costs != nullptr ? a.costs[a.issued - 1] : costs_.brief(op, l.width);
    it.where = l.where;
    it.priority = l.priority;
    it.owner = slot;
    it.reports = a.instrumented;
    it.shares = l.shares;
    it.passes = false;
    it.base = 0;
    if (l.stopped && a.preemptible) {
      pass(a, it);
    } else if (op.preemptible != preemptibility::never && a.costs != nullptr) {
      it.base = costs_.resume(a.program, a.first + a.issued - 1, a.issued == 1);
      it.cost.blocks -= it.base;
    }
    scheduler_.admit(g, now);
    if (it.cost.blocks == 0) mark(watch_.started, now, slot);
  }

  void start_copy(copy_engine& e, time_point now) noexcept {
    if (e.running() || e.head() == none) return;
    e.start(now);
    mark(watch_.started, now, queues_.lane(e.head()).current);
  }

  /// All blocks of a kernel will find the flag set: the rest of the kernel remains to be run.
  [[gnu::cold]] static void pass(accepted& a, grid& g) noexcept {
    g.passes = true;
    a.left_from = std::min(a.left_from, a.issued - 1);
  }
  /// Blocks of a kernel have exited early.
  [[gnu::cold]] void keep_rest(const grid& g) noexcept {
    accepted& a = queues_[g.owner];
    a.left_from = a.issued - 1;
    costs_.keep(a.program, a.first + a.issued - 1, g.base + g.finished);
  }

  /// One operation of a segment has ended, or was preempted.
  void complete(std::uint32_t slot, time_point now) noexcept {
    const accepted& a = queues_[slot];
    lane_state& l = queues_.lane(a.lane);
    l.busy = false;
    l.current = none;
    l.last_end = now;
    l.extra = scheduler_.extra_gap(l.where);
    queues_.look(queues_.queue(l.queue), now);
    if (l.stopped && yielding_.stays(slot, now)) return;
    if (a.issued < a.operations.size()) return;
    device_event e;
    e.what = device_event::kind::segment_done;
    e.segment = a.id;
    l.last_told = now + preset_.host.segment_notification;
    events_.end(l.last_told, e);
    queues_.retire(slot);
    if (l.stopped) yielding_.ended(l, now);
  }

  void report(device_event::kind what, std::uint32_t slot, std::uint32_t slices,
              time_point now) noexcept {
    accepted& a = queues_[slot];
    const device_event e{what, 0, 0, a.issued - 1, a.id, {}};
    const time_point seen = now + preset_.host.block_notification;
    queues_.reported(a, events_.blocks(seen, e, scheduler_.map(), slices));
  }

  [[nodiscard]] operation_mark mark_of(std::uint32_t slot) noexcept {
    const accepted& a = queues_[slot];
    const std::uint32_t i = a.issued - 1;
    return {a.id, a.owner, lane_id{a.lane}, i, a.operations[i]};
  }
  void mark(void (*hears)(void*, time_point, const operation_mark&) noexcept, time_point now,
            std::uint32_t slot) noexcept {
    if (hears != nullptr) hears(watch_.self, now, mark_of(slot));
  }
  void watch_occupied(time_point now) noexcept {
    if (watch_.occupied == nullptr || seen_occupied_ == scheduler_.map().occupied()) return;
    seen_occupied_ = scheduler_.map().occupied();
    watch_.occupied(watch_.self, now, sm_count{seen_occupied_});
  }

  preset preset_;
  program_costs& costs_;
  observer watch_;
  block_scheduler scheduler_;
  event_queue events_;
  queues queues_;
  yielding yielding_;
  std::array<copy_engine, 2> engines_; ///< to the device, to the host
  std::uint32_t stalled_ = 0;
  std::uint32_t seen_occupied_ = 0;
  time_point next_ = time_point::max();
  time_point accounted_{};
  duration busy_{};
  double sm_ns_ = 0;
};

} // namespace gsched::sim
