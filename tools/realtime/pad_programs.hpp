// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/platform.hpp"

#include "common/run/backend.hpp"

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

/// The least best-effort work in a padded program, as a part of the time of the real-time program:
/// less is not worth the memory of a graph.
inline constexpr double least_carried = 0.02;
/// The most by which it may be longer, as a part of the same; also at most half of that work.
inline constexpr double most_longer = 0.05;

/// Makes padded programs for each real-time client with each best-effort one, and adds them to the
/// dispatcher. `kept` owns them and outlives it.
template <common::backend S, class Device, class Dispatcher, class Bodies>
void pad_programs(S& on, Device& device, Dispatcher& dispatch, const run_request& run,
                  Bodies& bodies, std::span<const std::uint32_t> instances,
                  std::deque<typename S::padded>& kept) {
  using namespace gsched;
  typename S::padder pads = on.make_padder(*run.pad);
  std::vector<std::size_t> hosts, corunners; // clients
  std::vector<std::size_t> number;           // of each client's program
  std::vector<padded_corunner> places;
  for (std::size_t i = 0; i < run.clients.size(); ++i) {
    const program& p = bodies[i].program(0);
    number.push_back(S::add(pads, run.models[i], p));
    if (run.clients[i].real_time()) {
      hosts.push_back(i);
      continue;
    }
    corunners.push_back(i);
    padded_corunner& g = places.emplace_back();
    g.operations = static_cast<std::uint32_t>(p.size());
    if (p.grain_ends().size() > 2)
      g.stations.assign(p.grain_ends().begin(), p.grain_ends().end() - 1);
  }
  const auto stretches = plan_stretches(
      hosts.size(), places, run.pad_places, [&](std::size_t r, std::size_t g, std::uint32_t from) {
        return pads.plan(number[hosts[r]], number[corunners[g]], from);
      });
  for (const padded_stretch& s : stretches) {
    auto& host = bodies[hosts[s.real_time]];
    auto& corunner = bodies[corunners[s.corunner]];
    const duration carried = corunner.program(0).expected(s.from, s.to);
    const duration alone = host.program(0).expected();
    if (to_us(carried) < least_carried * to_us(alone)) continue;
    const std::size_t h = number[hosts[s.real_time]];
    auto& made = kept.emplace_back(pads.make(h, number[corunners[s.corunner]], s.parts));
    const duration longer = pads.longer(h, made);
    if (to_us(longer) > most_longer * to_us(alone) || 2 * longer > carried) {
      kept.pop_back();
      continue;
    }
    program& runs = S::host_of(made);
    dispatch.load(runs);
    for (std::uint32_t r = 0; r < instances[hosts[s.real_time]]; ++r)
      for (std::uint32_t g = 0; g < instances[corunners[s.corunner]]; ++g)
        dispatch.add_padded(host.program(r), corunner.program(g), s.from, s.to, runs);
    for (std::uint32_t g = 0; g < instances[corunners[s.corunner]]; ++g) {
      const program& p = corunner.program(g);
      if (s.to < p.size()) on.prepare(device, p, s.to, p.cut(s.to, run.how.dispatch.quantum));
    }
  }
}

} // namespace realtime
