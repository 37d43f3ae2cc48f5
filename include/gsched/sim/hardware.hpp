// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/block_scheduler.hpp>
#include <gsched/sim/copy_engine.hpp>
#include <gsched/sim/notices.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/sim/program_costs.hpp>
#include <gsched/sim/submissions.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// The GPU's side of a simulated device: hardware queues, copy engines and SMs, event by event.
///
/// Order    at one time: what ends, then what starts by hardware queue, then blocks find room.
/// Cost     O(queues + grids that run) an event, beside the block scheduler's.
/// Threads  one owner; no locking.
class hardware {
public:
  static constexpr std::uint32_t none = submissions::none;

  hardware(const preset& p, const program_costs& costs, const observer& watch,
           std::size_t max_segments, std::size_t max_block_events)
      : preset_(p), costs_(costs), watch_(watch), scheduler_(p),
        submissions_(max_segments, p.effective_queues()), ends_(max_segments),
        reports_(max_block_events) {}

  [[nodiscard]] block_scheduler& blocks() noexcept { return scheduler_; }
  [[nodiscard]] notices& ends() noexcept { return ends_; }
  [[nodiscard]] notices& reports() noexcept { return reports_; }
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_.size(); }
  [[nodiscard]] std::uint32_t width(std::uint32_t lane) const noexcept {
    return lanes_[lane].width;
  }
  [[nodiscard]] sm_range sms(std::uint32_t lane) const noexcept { return lanes_[lane].where; }

  std::uint32_t open_lane(int priority, sm_range where, std::uint32_t width) {
    const auto id = static_cast<std::uint32_t>(lanes_.size());
    const auto queues = static_cast<std::uint32_t>(submissions_.queues().size());
    lanes_.push_back({id % queues, priority, where, width});
    for (copy_engine& e : engines_) e.open_lane();
    used_queues_ = std::min(id + 1, queues);
    return id;
  }

  /// Whether one more segment, with so many block events at most, can be taken.
  [[nodiscard]] bool has_room(std::size_t reports) const noexcept {
    return live_ + ends_.size() < submissions_.capacity() &&
           reports <= reports_.capacity() - reports_.size() - kept_reports_;
  }

  /// Only if has_room.
  void enqueue(const accepted& a) noexcept {
    const std::uint32_t slot = submissions_.take();
    lane_state& l = lanes_[a.lane];
    submissions_[slot] = a;
    submissions_[slot].lane_previous = l.newest;
    l.newest = slot;
    if (l.outstanding++ == 0) ++active_lanes_;
    ++live_;
    kept_reports_ += a.reports;
    hardware_queue& q = submissions_.queues()[l.queue];
    const bool idle = q.head == none;
    submissions_.append(q, slot);
    if (idle) look(q, a.arrival);
  }

  /// Takes back what has not started.
  [[nodiscard]] std::size_t evict(std::uint32_t id, time_point now) noexcept {
    lane_state& l = lanes_[id];
    hardware_queue& q = submissions_.queues()[l.queue];
    std::size_t n = 0;
    while (l.outstanding > 0 && submissions_[l.newest].issued == 0) {
      const std::uint32_t slot = l.newest;
      l.newest = submissions_[slot].lane_previous;
      submissions_.remove(q, slot);
      retire(slot);
      ++n;
    }
    if (n > 0 && q.head != none) look(q, now);
    return n;
  }

  /// When something happens next, if nothing is submitted before.
  [[nodiscard]] time_point next() const noexcept { return next_; }

  /// Lets happen what happens at next().
  void step() noexcept {
    const time_point now = next_;
    account(now);
    scheduler_.finish(now, sink{*this, now});
    for (copy_engine& e : engines_)
      while (e.ends() <= now) {
        const std::uint32_t slot = lanes_[e.head()].current;
        e.finish();
        mark(watch_.ended, now, slot);
        complete(slot, now);
        start_copy(e, now);
      }
    for (std::uint32_t i = 0; i < used_queues_; ++i)
      if (submissions_.queues()[i].look <= now) issue(submissions_.queues()[i], now);
    scheduler_.place(now, sink{*this, now});
    scheduler_.set_beside(active_lanes_ > 1);
    scheduler_.refresh(now);
    watch_occupied(now);
    next_ = scheduler_.next_end();
    for (const copy_engine& e : engines_) next_ = std::min(next_, e.ends());
    for (std::uint32_t i = 0; i < used_queues_; ++i)
      next_ = std::min(next_, submissions_.queues()[i].look);
  }

  /// Adds up what has been busy until `now`, which is no later than next().
  void account(time_point now) noexcept {
    const duration passed = now - accounted_;
    accounted_ = now;
    if (!scheduler_.idle()) busy_ += passed;
    sm_ns_ += static_cast<double>(passed.count()) * scheduler_.map().occupied();
  }
  [[nodiscard]] duration busy() const noexcept { return busy_; }
  [[nodiscard]] double sm_ns() const noexcept { return sm_ns_; }

private:
  /// What the block scheduler tells.
  struct sink {
    hardware& hw;
    time_point now;
    void placed(const grid& g, std::uint32_t pieces) noexcept {
      if (!g.started) hw.mark(hw.watch_.started, now, g.owner);
      if (g.reports) hw.report(device_event::kind::blocks_started, g.owner, pieces, now);
    }
    void left(const grid& g, std::uint32_t pieces) noexcept {
      if (g.reports) hw.report(device_event::kind::blocks_done, g.owner, pieces, now);
    }
    void done(std::uint32_t slot) noexcept {
      const std::uint32_t owner = hw.scheduler_[slot].owner;
      hw.mark(hw.watch_.ended, now, owner);
      hw.complete(owner, now);
      if (hw.stalled_ == 0) return;
      hw.stalled_ = 0;
      for (hardware_queue& q : hw.submissions_.queues()) {
        if (q.stalled) hw.look(q, now);
        q.stalled = false;
      }
    }
  };

  void look(hardware_queue& q, time_point at) noexcept {
    q.look = std::min(q.look, at);
    next_ = std::min(next_, at);
  }

  /// When the next operation of a segment can start, its lane being free.
  time_point ready_at(const accepted& a, const lane_state& l) const noexcept {
    const time_point here = a.arrival + a.step * static_cast<duration::rep>(a.issued);
    if (l.last_end == time_point::min()) return here;
    duration gap = a.issued == 0 ? preset_.gaps.segments : preset_.laws.graph.gap + l.extra;
    if (a.how == submission::launches) gap = preset_.gaps.launches + l.extra;
    return std::max(here, l.last_end + gap);
  }

  /// Starts what can start at the head of a queue.
  void issue(hardware_queue& q, time_point now) noexcept {
    q.look = time_point::max();
    while (q.head != none) {
      const std::uint32_t slot = q.head;
      accepted& a = submissions_[slot];
      lane_state& l = lanes_[a.lane];
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
      if (a.issued < a.operations.size()) return; // the next one waits for this one
      submissions_.remove(q, slot);
    }
  }

  void start(std::uint32_t slot, const accepted& a, const lane_state& l, const operation& op,
             time_point now) noexcept {
    if (uses_copy_engine(op)) {
      copy_engine& e = engines_[op.direction == copy_direction::device_to_host ? 1 : 0];
      e.append(a.lane, transfer_time(op, preset_));
      start_copy(e, now);
      return;
    }
    const std::uint32_t g = scheduler_.take();
    grid& it = scheduler_[g];
    it.cost = a.costs != nullptr ? a.costs[a.issued - 1] : costs_.brief(op, l.width);
    it.where = l.where;
    it.priority = l.priority;
    it.owner = slot;
    it.reports = a.instrumented;
    scheduler_.admit(g, now);
    if (it.cost.blocks == 0) mark(watch_.started, now, slot);
  }

  void start_copy(copy_engine& e, time_point now) noexcept {
    if (e.running() || e.head() == none) return;
    e.start(now);
    mark(watch_.started, now, lanes_[e.head()].current);
  }

  /// One operation of a segment has ended.
  void complete(std::uint32_t slot, time_point now) noexcept {
    const accepted& a = submissions_[slot];
    lane_state& l = lanes_[a.lane];
    l.busy = false;
    l.current = none;
    l.last_end = now;
    l.extra = scheduler_.extra_gap();
    look(submissions_.queues()[l.queue], now);
    if (a.issued < a.operations.size()) return;
    device_event e;
    e.what = device_event::kind::segment_done;
    e.segment = a.id;
    ends_.push(now + preset_.host.segment_notice, e);
    retire(slot);
  }

  void retire(std::uint32_t slot) noexcept {
    const accepted& a = submissions_[slot];
    lane_state& l = lanes_[a.lane];
    if (l.newest == slot) l.newest = none;
    if (--l.outstanding == 0) --active_lanes_;
    --live_;
    kept_reports_ -= a.reports;
    submissions_.give(slot);
  }

  void report(device_event::kind what, std::uint32_t slot, std::uint32_t pieces,
              time_point now) noexcept {
    accepted& a = submissions_[slot];
    const device_event e{what, 0, 0, a.issued - 1, a.id};
    const time_point seen = now + preset_.host.block_notice;
    const std::size_t n = push_groups(reports_, seen, e, scheduler_.map(), pieces);
    a.reports -= n;
    kept_reports_ -= n;
  }

  void mark(void (*hears)(void*, time_point, const operation_mark&) noexcept, time_point now,
            std::uint32_t slot) noexcept {
    if (hears == nullptr) return;
    const accepted& a = submissions_[slot];
    const std::uint32_t i = a.issued - 1;
    hears(watch_.self, now, {a.id, a.owner, lane_id{a.lane}, i, a.operations[i]});
  }
  void watch_occupied(time_point now) noexcept {
    if (watch_.occupied == nullptr || seen_occupied_ == scheduler_.map().occupied()) return;
    seen_occupied_ = scheduler_.map().occupied();
    watch_.occupied(watch_.self, now, sm_count{seen_occupied_});
  }

  preset preset_;
  const program_costs& costs_;
  observer watch_;
  block_scheduler scheduler_;
  submissions submissions_;
  notices ends_;
  notices reports_;
  std::vector<lane_state> lanes_;
  std::array<copy_engine, 2> engines_; ///< to the device, to the host
  std::uint32_t used_queues_ = 0;
  std::uint32_t stalled_ = 0;
  std::uint32_t active_lanes_ = 0;
  std::uint32_t seen_occupied_ = 0;
  std::size_t live_ = 0;
  std::size_t kept_reports_ = 0;
  time_point next_ = time_point::max();
  time_point accounted_{};
  duration busy_{};
  double sm_ns_ = 0;
};

} // namespace gsched::sim
