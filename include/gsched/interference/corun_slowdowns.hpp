// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/corunner.hpp>
#include <gsched/interference/detail/block_replay.hpp>
#include <gsched/interference/replay_law.hpp>

#include <span>
#include <string>
#include <vector>

namespace gsched {

/// Simulates graphs that are replayed without a pause, side by side: kernel beside kernel, and
/// block beside block where graphs share SMs. Returns the slow-down of each graph: its median
/// replay, or that of the window's rank, over a replay alone. The chains have to outlive the call.
///
/// Source   the workload-level estimate from a kernel-level one that Elvinger et al. ask for: SoCC
///          2025, section 5.1, doi:10.1145/3772052.3772270.
/// Differs  it simulates instead of averaging: which kernels meet depends on all speeds, and the
///          median of a short graph's replays is not their mean.
/// Errors   bad_option: no chain, one that takes no time, or graphs of one partition on different
///          numbers of SMs.
/// Order    all graphs start at the same time; an earlier graph's kernel counts as the older one.
/// Cost     60 to 210 ms for two graphs on the same SMs and the default window, 2 ms for two on SMs
///          of their own. O(graphs cubed). On shared SMs a graph with branches is also replayed
///          alone, five times.
/// Threads  a pure function.
[[nodiscard]] inline std::vector<double> corun_slowdowns(std::span<const corunner> graphs,
                                                         const contention_law& law,
                                                         const replay_law& replays,
                                                         const replay_window& window = {}) {
  for (const corunner& g : graphs) {
    if (g.chain == nullptr || !(g.chain->replay_us() > 0))
      throw error(errc::bad_option,
                  "corun_slowdowns: a graph without kernels, expected one that takes time");
    for (const corunner& other : graphs)
      if (other.chain != nullptr && other.partition == g.partition &&
          other.chain->sms != g.chain->sms)
        throw error(errc::bad_option,
                    "corun_slowdowns: graphs of partition " + std::to_string(g.partition) + " on " +
                        number_text(g.chain->sms) + " and " + number_text(other.chain->sms) +
                        " SMs, expected the same number");
  }
  return detail::block_replay(graphs, law, replays).run(window);
}

} // namespace gsched
