// SPDX-License-Identifier: Apache-2.0
#include "stand_in/stand_in_timing.hpp"

#include "graph/measure/replay.hpp"

#include <gsched/core/launch.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gsched::cuda {

namespace {

exec_owner chain_of(const stand_in_launch& l, double cycles, std::size_t nodes) {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "stand-in measurement");
  const graph_owner graph(made);
  std::vector<cudaGraphNode_t> before;
  for (std::size_t i = 0; i < nodes; ++i)
    before = {
        add_stand_in(graph.get(), before, l, {static_cast<std::uint64_t>(cycles), {}, nullptr})};
  return instantiate(graph.get());
}

} // namespace

stand_in_timing::stand_in_timing(const gpu& on)
    : sms_(on.sms.count()), stream_(make_stream("stream for measurements")) {
  int khz = 0;
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, on.ordinal), "GPU clock");
  ns_per_cycle_ = 1e6 / std::max(khz, 1);
  launch_shape smallest;
  smallest.block.x = 32;
  const stand_in_launch l = fit_stand_in(smallest, 0, on, "stand-in measurement");
  // Warms the GPU's clocks up.
  constexpr std::size_t some = 32;
  for (int i = 0; i < 5; ++i) static_cast<void>(replay(l, 100e3 / ns_per_cycle_, some));
  // Long enough for the host to submit graphs faster than the GPU runs them.
  const double cycles = 10e3 / ns_per_cycle_;
  const double few = replay(l, cycles, 4);
  const double many = replay(l, cycles, 4 + some);
  graph_ns_ = std::max(0.0, few - 4 * (many - few) / some);
}

double stand_in_timing::replay(const stand_in_launch& l, double cycles, std::size_t nodes) const {
  return median_replay_ns(chain_of(l, cycles, nodes).get(), stream_.get(), 3);
}

double stand_in_timing::pitch(const stand_in_launch& l, double cycles, std::size_t nodes) const {
  return std::max(1.0, (replay(l, cycles, nodes) - graph_ns_) / static_cast<double>(nodes));
}

stand_in_timing::point stand_in_timing::measure(const stand_in_launch& l, double target_ns) const {
  const auto nodes = static_cast<std::size_t>(std::clamp(200e3 / target_ns, 4.0, 32.0));
  const double at_once = static_cast<double>(sms_) * l.blocks_per_sm;
  const double waves = std::ceil(static_cast<double>(l.blocks()) / at_once);
  point p;
  p.ns = p.floor_ns = pitch(l, 0, nodes);
  p.ns_per_cycle = waves * ns_per_cycle_;
  if (target_ns <= p.floor_ns) return p;
  p.cycles = (target_ns - p.floor_ns) / p.ns_per_cycle;
  // Waves have gaps, and a part of the blocks' time is hidden while blocks are started one by one.
  // Therefore the first estimate is corrected by measurements.
  for (int round = 0;; ++round) {
    p.ns = pitch(l, p.cycles, nodes);
    const double off = target_ns - p.ns;
    if (round == 6 || std::abs(off) <= std::max(50.0, 0.01 * target_ns)) break;
    const bool hidden = p.ns - p.floor_ns < 0.5 * (target_ns - p.floor_ns);
    p.cycles = hidden ? 2 * p.cycles
                      : std::clamp(p.cycles + off / p.ns_per_cycle, 0.3 * p.cycles, 3 * p.cycles);
  }
  return p;
}

stand_in_timing::answer stand_in_timing::cycles_for(const stand_in_launch& launch, duration time) {
  const double target = std::max(1.0, static_cast<double>(time.count()));
  const key k{launch.key(), std::ilogb(target)};
  auto at = known_.find(k);
  if (at == known_.end()) at = known_.emplace(k, measure(launch, target)).first;
  const point& p = at->second;
  if (target <= p.floor_ns) return {0, duration{static_cast<duration::rep>(p.floor_ns)}};
  const double cycles = p.cycles + (target - p.ns) / p.ns_per_cycle;
  return {static_cast<std::uint64_t>(std::max(0.0, cycles)), time};
}

} // namespace gsched::cuda
