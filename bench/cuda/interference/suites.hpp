// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Probes beside probes: what sharing each resource of a GPU costs.
namespace interference {

/// A probe that is measured, beside one that disturbs it.
struct experiment {
  std::string suite;
  gsched::cuda::probe_options victim, probe;
  gsched::cuda::probe_split split{};
};

/// The options of a probe; 0: what the kind of probe has by itself.
[[nodiscard]] gsched::cuda::probe_options probe_of(gsched::cuda::probe_kind kind,
                                                   std::uint32_t level = 0,
                                                   std::uint32_t threads = 0,
                                                   std::uint32_t blocks = 0);

/// The experiments of a suite: table3, pitfalls, figure3, copies, places,
/// transfers, matrix. The suite power has none: run() measures its loads by measure_power.
/// Source   the tables and figures of Elvinger et al., SoCC 2025.
/// @param sms, l2_bytes  of the GPU: the paper's sizes are scaled to its L2
[[nodiscard]] std::vector<experiment> suite(const std::string& name, std::uint32_t sms,
                                            std::uint64_t l2_bytes);
[[nodiscard]] const std::vector<std::string>& suite_names();

struct run_options {
  std::vector<experiment> experiments;
  std::vector<std::string> suites;
  double victim_us = 200; ///< length of the measured probe
  int turns = 5;
  double turn_ms = 10;
  double seconds = 300; ///< experiments that would begin later are left out
  bool counters = false;
  std::string profiles; ///< folder for the probes' profiles, with --counters
  int gpu = 0;
  bool busy = false; ///< measure although the GPU seems to be in use
  std::string json;
};

/// Seconds after which an experiment counts as one that hangs: turns alone, beside and of the probe
/// alone, each by turn_ms, and a victim that is held up for eight of them, all with some room.
[[nodiscard]] constexpr double hangs_after(const run_options& o) noexcept {
  return 40 + 1e-3 * o.turn_ms * (4.0 * o.turns + 16);
}

/// Whether all experiments ran.
bool run(const run_options& o);

} // namespace interference
