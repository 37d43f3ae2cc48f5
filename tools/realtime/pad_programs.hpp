// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/platform.hpp"

#include "common/run/backend.hpp"

#include <gsched/core/time.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/stretches.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace realtime {

/// The least best-effort work in a padded program, as a part of the time of the real-time program:
/// less is not worth the memory of a graph.
inline constexpr double least_carried = 0.02;
/// The most by which it may be longer, as a part of the same; also at most half of that work.
inline constexpr double most_longer = 0.05;

/// The limits of each real-time client (`hosts`) with each best-effort one; none without a law, or
/// without counters of the kernels of either.
inline std::vector<std::vector<std::optional<gsched::pad_limits>>>
predicted_limits(const run_request& run, const gsched::architecture_limits& sm,
                 std::span<const std::size_t> hosts, std::span<const std::size_t> corunners) {
  using namespace gsched;
  std::vector<std::vector<std::optional<pad_limits>>> limits(hosts.size());
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    limits[r].resize(corunners.size());
    const profile& host = run.models[hosts[r]];
    if (!run.pad->law || !has_counters(host)) continue;
    const kernel_chain its = chain_of(host, sm, {});
    for (std::size_t g = 0; g < corunners.size(); ++g)
      if (const profile& other = run.models[corunners[g]]; has_counters(other))
        limits[r][g].emplace(its, chain_of(other, sm, {}), *run.pad->law,
                             1 + run.pad->most_slow_down);
  }
  return limits;
}

/// Makes padded programs for each real-time client with each best-effort one, and adds them to the
/// dispatcher. `kept` owns them and outlives it.
template <common::backend S, class Device, class Dispatcher, class Bodies>
void pad_programs(S& on, Device& device, Dispatcher& dispatch, const run_request& run,
                  Bodies& bodies, std::span<const std::uint32_t> instances,
                  std::deque<typename S::padded>& kept) {
  using namespace gsched;
  typename S::padder pads = on.make_padder(run.pad->rule);
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
  const auto limits = predicted_limits(run, device.limits().sm, hosts, corunners);
  const auto stretches = plan_stretches(
      hosts.size(), places, run.pad->places, [&](std::size_t r, std::size_t g, std::uint32_t from) {
        const auto& by = limits[r][g];
        return pads.plan(number[hosts[r]], number[corunners[g]], from, by ? &*by : nullptr);
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
