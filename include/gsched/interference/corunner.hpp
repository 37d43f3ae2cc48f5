// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/kernel_chain.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched {

/// A graph that is replayed beside others. Graphs with the same number of a partition share its
/// SMs; other graphs share only L2 and DRAM with them.
struct corunner {
  const kernel_chain* chain = nullptr;
  std::uint32_t partition = 0;
};

/// How long corun_slowdowns simulates, and which of a graph's replays it reports.
struct replay_window {
  double us = 30000;              ///< at least this long
  std::size_t replays = 8;        ///< and until each graph has ended this often
  std::size_t events = 4'000'000; ///< but at most this many events
  double rank = 0.5;              ///< 0: the fastest replay; 0.5: the median; 1: the slowest
};

} // namespace gsched
