// SPDX-License-Identifier: Apache-2.0
#include "device_state.hpp"

#include <algorithm>
#include <iterator>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gsched::cuda {

namespace {

void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace

std::size_t device::state::poll(std::span<device_event> out) noexcept {
  if (flights.in_use() == 0 && turns_owed == 0) return 0;
  if (standing > 0) renew_leases(now());
  // Ends first: the words in the ring of what has ended can be read then.
  if (!broken()) read_ends();
  std::size_t n = take_words(out);
  n += take_ends(out.subspan(n));
  see_lowered();
  if (!held.empty() && !broken()) start_held();
  if (n > 0)
    idle_polls = 0;
  else if (++idle_polls % 32 == 0)
    check_health(now());
  return n;
}

void device::state::read_ends() noexcept {
  for (device_lane& l : lanes) {
    // Those of a lane end in order, so one look tells that nothing has changed.
    while (l.oldest != nullptr && l.oldest->over(cu)) {
      l.oldest->at = flight::stage::ended;
      flight& ended = *l.oldest;
      if (l.oldest->words > 0) ring_rests_until = {}; // its words are all there: look at once
      auto next = std::next(l.flights.iterator_to(*l.oldest));
      while (next != l.flights.end() && next->at == flight::stage::refused) ++next;
      const bool runs = next != l.flights.end() && next->at == flight::stage::started;
      l.oldest = runs ? &*next : nullptr;
      see_end(ended, l);
    }
  }
}

std::optional<device_event> device::state::event_of(const notification& n) noexcept {
  const segment_graphs::node at = graphs->node_of(notification_ring::slot_of(n.instance));
  const std::uint32_t replay = segment_graphs::replay_of(at, n.instance);
  if (at.graph != nullptr) {
    // Launches of one graph run in turn, so it is nearly always the first.
    for (flight& f : at.graph->flights) {
      if (f.replay != replay) continue;
      ++f.words_read;
      return device_event{n.type == notification_type::blocks_started
                              ? device_event::kind::blocks_started
                              : device_event::kind::blocks_done,
                          n.blocks, n.sm, at.operation, f.what.id};
    }
  }
  ++statistics.unknown_words;
  return std::nullopt;
}

std::optional<device_event> device::state::try_word() noexcept {
  // Where the last look found nothing, the slots are left to the GPU for a while (reader_rest).
  if (ring_rests_until != time_point{} && now() < ring_rests_until) return std::nullopt;
  std::optional<device_event> e;
  const auto take = [&](const notification& n) { e = event_of(n); };
  while (!e && ring->reader().try_next(take)) {
  }
  ring_rests_until = e ? time_point{} : now() + reader_rest;
  return e;
}

std::size_t device::state::take_words(std::span<device_event> out) noexcept {
  std::size_t n = 0;
  if (pending && !out.empty()) {
    out[n++] = *pending;
    pending.reset();
  }
  if (reporting == 0 || broken()) return n;
  while (n < out.size()) {
    const std::optional<device_event> e = try_word();
    if (!e) break;
    out[n++] = *e;
  }
  return n;
}

std::size_t device::state::take_ends(std::span<device_event> out) noexcept {
  std::size_t n = 0;
  if (pending) return n; // D3: a word comes first, and there was no room for it
  for (device_lane& l : lanes) {
    bool moved = false;
    while (n < out.size() && !l.flights.empty()) {
      flight& f = l.flights.front();
      const bool ended = f.at == flight::stage::ended;
      const bool withdrawn = f.at == flight::stage::withdrawn && !broken();
      const bool given_up = f.at == flight::stage::refused || f.at == flight::stage::lost;
      if (!ended && !withdrawn && !given_up && !broken()) break;
      if (ended && f.words_read < f.words && !f.words_lost && !broken()) {
        if (f.seen_ended == time_point{}) f.seen_ended = now();
        break;
      }
      out[n] = device_event{};
      const bool left = ended && f.how == flight::outcome::left;
      const bool good = ended && f.how == flight::outcome::whole;
      out[n].what = left || withdrawn ? device_event::kind::segment_preempted
                    : good            ? device_event::kind::segment_done
                                      : device_event::kind::segment_failed;
      if (left) out[n].operation = f.operations_ended;
      out[n].lost = f.at == flight::stage::started || f.at == flight::stage::lost;
      out[n].segment = f.what.id;
      ++n;
      drop(f, l);
      moved = true;
    }
    if (moved) {
      l.last_progress = now();
      l.stalled = {};
    }
    if (l.owes_yielded || l.owes_resumed) n += take_turns(l, out.subspan(n));
  }
  return n;
}

void device::state::drop(flight& f, device_lane& l) noexcept {
  if (f.at == flight::stage::held) {
    held.erase(held.iterator_to(f));
    --l.held;
  } else if (f.at != flight::stage::refused && f.graph != nullptr) {
    --f.graph->in_flight;
    if (f.words > 0) {
      f.graph->flights.erase(f.graph->flights.iterator_to(f));
      ring->flow().release(f.words);
      --reporting;
    }
  }
  if (f.end_event != nullptr) end_events.push_back(f.end_event); // within reserved capacity
  if (l.oldest == &f) l.oldest = nullptr;
  l.flights.erase(l.flights.iterator_to(f));
  flights.give_back(f);
}

bool device::state::pollable() noexcept {
  if (pending || broken()) return true;
  read_ends();
  for (device_lane& l : lanes) {
    if (turns_owed > 0 && turn_pollable(l)) return true;
    if (l.flights.empty()) continue;
    const flight& f = l.flights.front();
    if (f.at == flight::stage::refused || f.at == flight::stage::withdrawn ||
        f.at == flight::stage::lost)
      return true;
    if (f.at == flight::stage::ended && (f.words_read >= f.words || f.words_lost)) return true;
  }
  if (reporting > 0) pending = try_word();
  return pending.has_value();
}

bool device::state::idle() const noexcept {
  if (turns_owed > 0) return false;
  if (broken()) return flights.in_use() == 0;
  if (lowering > 0) return false;
  return std::all_of(lanes.begin(), lanes.end(), [](const device_lane& l) {
    return l.flights.empty() || l.holds || l.flights.front().at == flight::stage::held;
  });
}

void device::state::wait(time_point t) noexcept {
  for (;;) {
    if (idle()) {
      rest(t);
      if (idle()) return;
    }
    if (pollable()) return;
    const time_point at = now();
    if (standing > 0) renew_leases(at);
    if (at >= t) return;
    check_health(at);
    if (lowering > 0) see_lowered();
    pause();
  }
}

void device::state::rest(time_point t) noexcept {
  if (t == no_deadline) return; // nothing is under way that could end it
  constexpr duration wake_up = std::chrono::microseconds{80}; // what the kernel may oversleep
  // In one go: clocks overflow, and leases run out.
  const duration at_most =
      standing > 0 && lease > duration::zero() ? lease / 4 : duration{std::chrono::hours{1}};
  for (;;) {
    const time_point at = now();
    if (standing > 0) {
      renew_leases(at);
      if (!idle()) return; // a lease has run out, and its lane moves
    }
    const duration left = std::min(t - at, at_most);
    if (t <= at) return;
    if (left > wake_up)
      std::this_thread::sleep_for(left - wake_up);
    else
      pause();
  }
}

} // namespace gsched::cuda
