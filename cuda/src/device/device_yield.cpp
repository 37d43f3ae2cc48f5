// SPDX-License-Identifier: Apache-2.0
#include "device/device_state.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace gsched::cuda {

namespace {

/// Minimum wait for a gate that may already have been passed.
constexpr duration missed_gate = std::chrono::microseconds{50};

/// Whether the segment has started and its gates may hold it.
bool started_with_gates(const device_segment& f) noexcept {
  return f.at == device_segment::stage::started && f.has_gates();
}

} // namespace

void device::state::yield(lane_id lane) noexcept {
  if (index(lane) >= lanes.size()) return;
  device_lane& l = lanes[index(lane)];
  if (l.yields) return;
  if (++l.yield_generation > gate_order::max_generation) l.yield_generation = 1;
  bool stays = false; // a held segment behind it cannot be withdrawn before it
  for (device_segment& f : l.flights) {
    if (started_with_gates(f)) {
      stays = true;
    } else if (f.at == device_segment::stage::started && f.preemptible != nullptr) {
      raise(*f.preemptible);
    } else if (f.at == device_segment::stage::held && !stays) {
      withdraw(f, l);
    }
  }
  l.yields = l.owes_yielded = true;
  l.closed_since = {};
  const bool others_wait = words_wanted && !held.empty() && keeps_words(l);
  if (stays && !others_wait && !would_crowd_out(l)) { // else stops at the end of its segment
    l.holds = true;
    ++holding_lanes;
    order_gates(l);
  }
  ++yield_changes_owed;
  ++statistics.yields;
}

void device::state::order_gates(device_lane& l) noexcept {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(current_lease).count();
  gate_order order;
  order.hold = l.holds ? l.yield_generation : 0;
  order.beat = beat;
  order.lease_us = static_cast<std::uint32_t>(us);
  for (device_segment& f : l.flights)
    if (started_with_gates(f)) f.graph->set_order(order);
}

void device::state::release_held() noexcept {
  for (device_lane& l : lanes) {
    if (!l.holds) continue;
    l.holds = false;
    --holding_lanes;
    order_gates(l);
    ++statistics.opened;
  }
}

void device::state::set_leases(duration d) noexcept {
  current_lease = d;
  if (others_move(now())) ++beat; // restarts the lease
  for (device_lane& l : lanes)
    if (l.holds) order_gates(l);
}

bool device::state::see_expired(time_point at) noexcept {
  bool some = false;
  for (device_lane& l : lanes) {
    if (!l.holds) continue;
    const bool out = std::any_of(l.flights.begin(), l.flights.end(), [&](const device_segment& f) {
      return started_with_gates(f) && f.graph->has_expired(l.yield_generation);
    });
    if (!out) continue;
    l.holds = false; // the lane runs until its segment ends
    --holding_lanes;
    lease_ran_out(at);
    some = true;
  }
  return some;
}

void device::state::renew_leases(time_point at) noexcept {
  const bool without_limit = lease == duration::zero();
  if (at - renewed < (without_limit ? renew_every : std::min(renew_every, lease / 4))) return;
  renewed = at;
  see_expired(at);
  if (holding_lanes == 0 || !see_stuck(at)) return;
  ++beat;
  for (device_lane& l : lanes)
    if (l.holds) order_gates(l);
}

/// Work may take several times its expected duration plus one lease before held lanes are suspected
/// to block it.
bool device::state::moves(const device_lane& l, time_point at) const noexcept {
  constexpr duration most = std::chrono::hours{1};
  const device_segment& f = *l.oldest;
  return at - std::max({f.started, l.last_progress, f.last_word}) <
         8 * std::min(f.expected, most) + lease;
}

/// A yielding lane that has not stopped yet counts too, because its work may wait for another
/// lane's gate. Work may also wait for more urgent work, as long as that makes progress.
bool device::state::is_stuck(const device_lane& l, time_point at) const noexcept {
  const auto runs = [](const device_lane& k) {
    return k.oldest != nullptr && (!k.yields || k.owes_yielded);
  };
  if (!runs(l) || moves(l, at)) return false;
  return std::none_of(lanes.begin(), lanes.end(), [&](const device_lane& other) {
    return other.priority < l.priority && runs(other) && moves(other, at);
  });
}

bool device::state::others_move(time_point at) const noexcept {
  return std::none_of(lanes.begin(), lanes.end(),
                      [&](const device_lane& l) { return is_stuck(l, at); });
}

bool device::state::see_stuck(time_point at) noexcept {
  bool none = true;
  for (const device_lane& l : lanes) {
    if (!is_stuck(l, at)) continue;
    none = false;
    device_segment& f = *l.oldest;
    // A segment that has ended unseen did make progress, while the host was stopped.
    f.stuck = f.stuck || !f.over(cu);
  }
  return none;
}

void device::state::lease_ran_out(time_point at) noexcept {
  ++statistics.expired_leases;
  for (const device_lane& l : lanes)
    if (l.oldest != nullptr && l.oldest->stuck) l.oldest->freed = at;
}

void device::state::learn_from(const device_segment& f, time_point at) noexcept {
  if (f.freed == time_point{} || f.what.program == no_program) return;
  // A segment that ends much later has waited for something else.
  if (at - f.freed > 8 * f.expected + std::chrono::milliseconds{1}) return;
  bool& known = graphs->loaded(f.what.program).needs_every_sm;
  if (!known) ++statistics.found_to_need_sms;
  known = true;
}

sm_count device::state::needs_at_once(const device_segment& f, sm_count all) const noexcept {
  const segment& s = f.what;
  if (graphs->loaded(s.program).needs_every_sm) return all;
  if (f.graphs != nullptr) return f.graphs->needs_at_once;
  const program* const p = program::of(graphs->host(s.program));
  if (p == nullptr) return {};
  return p->needs_at_once(s.first, s.first + s.operations.size(), limits.sm, all,
                          program::need::to_be_quick);
}

bool device::state::needs_more_than_left(const device_segment& f, const device_lane& l,
                                         std::uint32_t holding) const noexcept {
  if (f.what.program == no_program) return false;
  const sm_count all = l.own ? l.own->sms() : limits.sms;
  const std::uint32_t has = all.count();
  const std::uint32_t needs = needs_at_once(f, all).count();
  // Two gates of a graph may be closed at once, each on an SM of its own. The gates of the
  // segment's own graph count, because one may be beside the kernel that needs the SMs.
  return needs > 0 && needs + 2 * holding > has;
}

bool device::state::would_crowd_out(const device_lane& l) const noexcept {
  if (needing == 0) return false;
  const std::uint32_t holding = holding_lanes + (l.holds ? 0 : 1);
  return std::any_of(lanes.begin(), lanes.end(), [&](const device_lane& k) {
    return std::any_of(k.flights.begin(), k.flights.end(), [&](const device_segment& f) {
      return f.at == device_segment::stage::started && f.needs_sms &&
             needs_more_than_left(f, k, holding);
    });
  });
}

void device::state::withdraw(device_segment& f, device_lane& l) noexcept {
  held.erase(held.iterator_to(f));
  --l.held;
  f.at = device_segment::stage::withdrawn;
}

void device::state::resume(lane_id lane) noexcept {
  if (index(lane) >= lanes.size()) return;
  device_lane& l = lanes[index(lane)];
  if (!l.yields) return;
  l.yields = false;
  const time_point at = now();
  if (l.holds) see_expired(at);
  if (l.holds) {
    l.holds = false;
    --holding_lanes;
    order_gates(l);
  }
  l.owes_resumed = true;
  ++yield_changes_owed;
  l.last_progress = at; // restarts the watchdog
  l.stalled = {};
  if (!held.empty() && !broken()) start_held();
}

bool device::state::stopped(device_lane& l) noexcept {
  if (l.flights.empty()) return true;
  const device_segment& f = l.flights.front();
  if (f.at == device_segment::stage::held) return true;
  if (!started_with_gates(f) || !l.holds) return false; // runs to its end
  const gate_state first = f.graph->closed_gate(0);
  const gate_state second = f.graph->closed_gate(1);
  const bool one = first.hold == l.yield_generation;
  const bool two = second.hold == l.yield_generation;
  if (!one && !two) return false;
  const std::uint32_t which = one && two ? std::min(first.gate, second.gate)
                              : one      ? first.gate
                                         : second.gate;
  const gate& g = f.graph->gates[which];
  // The later gate has closed because the operations beside the earlier one have ended.
  if (one && two && g.followed) return true;
  // The operations beside the gate started with it, and need the time that they take alone. If a
  // gate follows directly, it closes then, unless it had been passed before the first one closed.
  const time_point at = now();
  if (l.closed_since == time_point{}) l.closed_since = at;
  return at - l.closed_since >= (g.followed ? 2 * g.takes + missed_gate : g.takes);
}

bool device::state::goes_on(const device_lane& l) noexcept {
  if (l.flights.empty() || !started_with_gates(l.flights.front())) return true;
  const segment_graph& g = *l.flights.front().graph;
  return g.closed_gate(0).hold == 0 && g.closed_gate(1).hold == 0;
}

bool device::state::yield_change_pollable(device_lane& l) noexcept {
  return (l.owes_resumed && (l.yields || goes_on(l))) ||
         (l.owes_yielded && (!l.yields || stopped(l)));
}

std::size_t device::state::take_yield_changes(device_lane& l,
                                              std::span<device_event> out) noexcept {
  std::size_t n = 0;
  const auto say = [&](device_event::kind what, bool& owed) {
    out[n] = device_event{};
    out[n].what = what;
    out[n].lane = lane_id{static_cast<std::uint32_t>(&l - lanes.data())};
    ++n;
    owed = false;
    --yield_changes_owed;
  };
  const auto yielded = [&] {
    if (!l.owes_yielded || n == out.size() || (l.yields && !stopped(l))) return;
    if (l.yields && !l.flights.empty() && started_with_gates(l.flights.front()))
      ++statistics.stopped;
    say(device_event::kind::lane_yielded, l.owes_yielded);
  };
  const auto resumed = [&] {
    if (!l.owes_resumed || n == out.size() || (!l.yields && !goes_on(l))) return;
    say(device_event::kind::lane_resumed, l.owes_resumed);
  };
  // Each call of yield and resume has its event, in call order, even if the owner does not wait.
  if (!l.yields) yielded();
  resumed();
  if (l.yields) yielded();
  return n;
}

void device::state::open_gates() noexcept {
  for (device_lane& l : lanes) {
    l.holds = false;
    order_gates(l);
  }
  holding_lanes = 0;
}

void device::state::raise(preemptible_program& p) noexcept {
  if (p.raised) return;
  p.raised = true;
  const on_gpu here(facts.ordinal);
  const CUresult r = call_driver([&] { return cu.cuStreamWriteValue32(urgent, p.flag(), 1, 0); });
  if (r != CUDA_SUCCESS) end_with(code_of(r));
}

void device::state::lower(preemptible_program& p) noexcept {
  const on_gpu here(facts.ordinal);
  // Writes of one stream are ordered: the second one, when seen, implies the first.
  CUresult r = call_driver([&] { return cu.cuStreamWriteValue32(urgent, p.flag(), 0, 0); });
  if (r == CUDA_SUCCESS)
    r = call_driver([&] { return cu.cuStreamWriteValue32(urgent, p.words.word, ++p.lowered, 0); });
  if (r != CUDA_SUCCESS) return end_with(code_of(r));
  p.lowering = true;
  ++lowering;
}

void device::state::see_lowered() noexcept {
  if (lowering == 0 || broken()) return;
  std::uint32_t left = 0;
  for (std::uint32_t i = 0; i < graphs->programs(); ++i) {
    preemptible_program* const p = graphs->preemptible_of(program_id{i});
    if (p != nullptr && p->lowering && !p->is_down()) ++left;
  }
  const bool some = left < lowering;
  lowering = left;
  if (some && !held.empty()) start_held();
}

void device::state::see_end(device_segment& f, device_lane& l) noexcept {
  l.stalled = {};
  if (f.stuck) {
    const time_point at = now();
    // It may have ended right after a gate's lease expired, before that was seen.
    if (f.freed == time_point{} && see_expired(at)) f.freed = at;
    learn_from(f, at);
  }
  if (f.needs_sms) --needing;
  if (f.has_gates()) --l.gated;
  if (l.gated == 0 && l.holds) { // passed its last gate, or its lease expired
    if (f.graph->has_expired(l.yield_generation)) lease_ran_out(now());
    l.holds = false;
    --holding_lanes;
  }
  if (f.preemptible == nullptr) return;
  --l.preemptible;
  preemptible_program& p = *f.preemptible;
  const preemption_end end =
      preemption_end::of(sync::atomic_ref<std::uint64_t>(*f.end_word).load(sync::acquire)); // [L1]
  if (end.what == preemption_end::kind::preempted) {
    f.how = device_segment::outcome::preempted;
    f.operations_ended = end.operations;
    if (!p.rest_from) p.rest_from = f.what.first + end.operations;
    ++statistics.preempted;
  }
  if (--p.in_flight == 0 && p.raised && !p.lowering) lower(p);
  if (end.what != preemption_end::kind::divergent) return;
  f.how = device_segment::outcome::wrong;
  end_divergent(f, end);
}

void device::state::end_divergent(const device_segment& f, const preemption_end& end) noexcept {
  if (broken()) return;
  end_with(errc::device_failed, &f, true);
  try {
    failure = "GPU " + std::to_string(facts.ordinal) + ": " + graphs->host(f.what.program).name() +
              " operation " + std::to_string(f.what.first + end.operations) +
              ": checkpoint at line " + std::to_string(end.line) +
              " in divergent code, expected one that all threads of a block reach";
  } catch (...) {
    failure.emplace(); // out of memory: the code is still reported
  }
}

std::error_code device::state::begin_anew(preemptible_program& p, std::uint32_t first) noexcept {
  if (!p.rest_from || p.in_flight > 0) return {};
  const bool rest = first == *p.rest_from;
  p.rest_from.reset();
  if (rest) return {};
  // The program restarts elsewhere: discard the remaining blocks.
  try {
    const short_leases leases(*this);
    statistics.rerun_blocks += p.slots.reset();
  } catch (const error& e) {
    return e.code();
  }
  return {};
}

} // namespace gsched::cuda
