// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace gsched::testing {

inline constexpr double sms = 16;

/// A kernel whose blocks each take the n-th part of every resource of an SM.
inline chain_kernel kernel(double us, double blocks, double nth, double warps = 0) {
  chain_kernel k;
  k.us = us;
  k.blocks = blocks;
  k.per_sm = nth;
  k.warps = warps;
  k.shares.fill(1 / nth);
  return k;
}

/// It loses nothing of L2, nor as other graphs start kernels on other SMs.
inline kernel_chain chain(std::vector<chain_kernel> kernels) {
  kernel_chain c;
  c.sms = sms;
  c.lost = {0.0};
  c.at_start = {0.0};
  c.kernels = std::move(kernels);
  return c;
}

/// A probe that holds its blocks from the start on.
inline kernel_chain holding(double blocks, double nth) {
  kernel_chain c = chain({kernel(100, blocks, nth)});
  c.endless = true;
  return c;
}

/// Nothing but the placement of blocks matters.
inline contention_law no_contention() {
  contention_law law;
  law.l2_latency = law.dram_latency = law.warps = 0;
  return law;
}
inline constexpr replay_law only_placing{0, 0};

inline std::vector<double> beside(std::vector<const kernel_chain*> chains,
                                  const contention_law& law, const replay_law& replays,
                                  const replay_window& window = {4000, 4}, bool shared = true) {
  std::vector<corunner> graphs;
  for (const kernel_chain* c : chains)
    graphs.push_back({c, shared ? 0 : static_cast<std::uint32_t>(graphs.size())});
  return corun_slowdowns(graphs, law, replays, window);
}

} // namespace gsched::testing
