// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

namespace gsched::cuda {

namespace {

/// How long at least a gate is waited for that may have passed already.
constexpr duration missed_gate = std::chrono::microseconds{50};

/// Whether it has started, and gates may hold it.
bool stands_or_will(const flight& f) noexcept {
  return f.at == flight::stage::started && f.has_gates();
}

} // namespace

void device::state::yield(lane_id lane) noexcept {
  if (index(lane) >= lanes.size()) return;
  device_lane& l = lanes[index(lane)];
  if (l.yields) return;
  if (++l.turn == 0) ++l.turn;
  bool stays = false; // what is behind it cannot leave the lane before it
  for (flight& f : l.flights) {
    if (stands_or_will(f)) {
      f.graph->set_hold(l.turn);
      stays = true;
    } else if (f.at == flight::stage::started && f.leaves != nullptr) {
      raise(*f.leaves);
    } else if (f.at == flight::stage::held && !stays) {
      withdraw(f, l);
    }
  }
  l.yields = l.owes_yielded = true;
  l.stands_since = {};
  ++turns_owed;
  ++statistics.yields;
}

void device::state::withdraw(flight& f, device_lane& l) noexcept {
  held.erase(held.iterator_to(f));
  --l.held;
  f.at = flight::stage::withdrawn;
}

void device::state::resume(lane_id lane) noexcept {
  if (index(lane) >= lanes.size()) return;
  device_lane& l = lanes[index(lane)];
  if (!l.yields) return;
  for (flight& f : l.flights)
    if (stands_or_will(f)) f.graph->set_hold(0);
  l.yields = false;
  l.owes_resumed = true;
  ++turns_owed;
  l.last_progress = now(); // the watchdog counts anew
  if (!held.empty() && !broken()) start_held();
}

bool device::state::stopped(device_lane& l) noexcept {
  if (l.flights.empty()) return true;
  const flight& f = l.flights.front();
  if (f.at == flight::stage::held) return true;
  if (!stands_or_will(f)) return false; // its end comes first
  std::uint32_t standing = 0;
  std::uint32_t which = 0;
  for (const unsigned i : {0u, 1u}) {
    const gate_told told = f.graph->stands(i);
    if (told.hold != l.turn) continue;
    ++standing;
    which = told.gate;
  }
  if (standing == 2) return true; // the later one stands since the kernel between them has ended
  if (standing == 0) return false;
  // The kernel beside the gate began with it, and has the time that it takes alone. If a gate comes
  // right behind, that one says so, unless it had passed before the first one looked.
  const time_point at = now();
  if (l.stands_since == time_point{}) l.stands_since = at;
  const gate& g = f.graph->gates[which];
  const duration takes = f.what.operations[g.operation - f.what.first]->expected;
  return at - l.stands_since >= (g.followed ? 2 * takes + missed_gate : takes);
}

bool device::state::goes_on(const device_lane& l) noexcept {
  if (l.flights.empty() || !stands_or_will(l.flights.front())) return true;
  const segment_graph& g = *l.flights.front().graph;
  return g.stands(0).hold == 0 && g.stands(1).hold == 0;
}

bool device::state::turn_pollable(device_lane& l) noexcept {
  return (l.owes_resumed && (l.yields || goes_on(l))) ||
         (l.owes_yielded && (!l.yields || stopped(l)));
}

std::size_t device::state::take_turns(device_lane& l, std::span<device_event> out) noexcept {
  std::size_t n = 0;
  const auto say = [&](device_event::kind what, bool& owed) {
    out[n] = device_event{};
    out[n].what = what;
    out[n].lane = lane_id{static_cast<std::uint32_t>(&l - lanes.data())};
    ++n;
    owed = false;
    --turns_owed;
  };
  const auto yielded = [&] {
    if (!l.owes_yielded || n == out.size() || (l.yields && !stopped(l))) return;
    if (l.yields && !l.flights.empty() && stands_or_will(l.flights.front())) ++statistics.stopped;
    say(device_event::kind::lane_yielded, l.owes_yielded);
  };
  const auto resumed = [&] {
    if (!l.owes_resumed || n == out.size() || (!l.yields && !goes_on(l))) return;
    say(device_event::kind::lane_resumed, l.owes_resumed);
  };
  // Each call has its event, in the order of the calls, also if the caller does not wait for one.
  if (!l.yields) yielded();
  resumed();
  if (l.yields) yielded();
  return n;
}

void device::state::open_gates() noexcept {
  for (device_lane& l : lanes)
    for (flight& f : l.flights)
      if (stands_or_will(f)) f.graph->set_hold(0);
}

} // namespace gsched::cuda
