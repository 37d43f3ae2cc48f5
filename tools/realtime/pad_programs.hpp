// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/platform.hpp"

#include "common/stage.hpp"

#include <gsched/core/time.hpp>
#include <gsched/job/program.hpp>
#include <gsched/preempt/colocate/stretches.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace realtime {

/// What a real-time program has to carry at least, as a part of its own time, so that a graph for
/// it is worth its memory.
inline constexpr double least_carried = 0.02;
/// How much longer it may take so, the same; and half of what it carries at most.
inline constexpr double most_longer = 0.05;

/// Makes padded programs for each real-time client with each best-effort one, and tells the
/// dispatcher. They go into `kept`, and outlive it.
template <common::stage S, class Device, class Dispatcher, class Bodies>
void pad_programs(S& on, Device& device, Dispatcher& dispatch, const run_order& run, Bodies& bodies,
                  std::span<const std::uint32_t> instances, std::deque<typename S::padded>& kept) {
  using namespace gsched;
  typename S::padder pads = on.make_padder(*run.pad);
  std::vector<std::size_t> hosts, guests; // clients
  std::vector<std::size_t> number;        // of each client's program
  std::vector<padded_guest> places;
  for (std::size_t i = 0; i < run.clients.size(); ++i) {
    const program& p = bodies[i].program(0);
    number.push_back(S::add(pads, run.models[i], p));
    if (run.clients[i].real_time()) {
      hosts.push_back(i);
      continue;
    }
    guests.push_back(i);
    padded_guest& g = places.emplace_back();
    g.operations = static_cast<std::uint32_t>(p.size());
    if (p.pieces().size() > 2) g.stations.assign(p.pieces().begin(), p.pieces().end() - 1);
  }
  const auto stretches = plan_stretches(
      hosts.size(), places, run.pad_places, [&](std::size_t r, std::size_t g, std::uint32_t from) {
        return pads.plan(number[hosts[r]], number[guests[g]], from);
      });
  for (const padded_stretch& s : stretches) {
    auto& host = bodies[hosts[s.real_time]];
    auto& guest = bodies[guests[s.guest]];
    const duration carried = guest.program(0).expected(s.from, s.to);
    const duration alone = host.program(0).expected();
    if (to_us(carried) < least_carried * to_us(alone)) continue;
    const std::size_t h = number[hosts[s.real_time]];
    auto& made = kept.emplace_back(pads.make(h, number[guests[s.guest]], s.parts));
    const duration longer = pads.longer(h, made);
    if (to_us(longer) > most_longer * to_us(alone) || 2 * longer > carried) {
      kept.pop_back();
      continue;
    }
    program& runs = S::host_of(made);
    dispatch.load(runs);
    for (std::uint32_t r = 0; r < instances[hosts[s.real_time]]; ++r)
      for (std::uint32_t g = 0; g < instances[guests[s.guest]]; ++g)
        dispatch.add_padded(host.program(r), guest.program(g), s.from, s.to, runs);
    for (std::uint32_t g = 0; g < instances[guests[s.guest]]; ++g) {
      const program& p = guest.program(g);
      if (s.to < p.size()) on.prepare(device, p, s.to, p.cut(s.to, run.how.dispatch.quantum));
    }
  }
}

} // namespace realtime
