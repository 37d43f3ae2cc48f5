// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work_graph/random.hpp"
#include "work_graph/smaller.hpp"
#include "work_graph/spec.hpp"
#include "work_graph/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace preemption_torture {

/// One pair of graphs and how they are run: `lanes` copies of the best-effort graph, each with its
/// own memory on a lane that yields, beside `urgent_lanes` copies of the urgent graph.
struct torture_case {
  std::uint64_t seed = 0; ///< of all instants, and the seed of the case
  unsigned lanes = 1;
  unsigned urgent_lanes = 1;
  unsigned gate_every = 2;
  double grain_us = 100; ///< device_options::grain
  unsigned levels = 2;   ///< device_options::levels
  double quantum_us = 0; ///< of best-effort segments; 0: the whole graph is one segment
  unsigned ahead = 2;    ///< best-effort segments in flight on a lane
  unsigned rounds = 30;  ///< of yields and resumes
  /// the library measures the times of the operations; otherwise they are given
  bool measured = false;
  work_graph::graph best_effort{};
  work_graph::graph urgent{};

  [[nodiscard]] std::size_t nodes() const noexcept {
    return best_effort.nodes.size() * lanes + urgent.nodes.size() * urgent_lanes;
  }
};

struct case_shape {
  std::uint32_t most_nodes = 2000; ///< of a graph
  unsigned most_lanes = 8;         ///< that yield
  std::uint32_t features = work_graph::all_features;
};

/// The same case for the same seed and shape.
[[nodiscard]] inline torture_case random_case(std::uint64_t seed, const case_shape& how) {
  constexpr std::uint32_t most_nodes_together = 3000; ///< of all best-effort copies
  work_graph::random_source random(seed * 0x9e3779b97f4a7c15u + 1);
  torture_case c;
  c.seed = seed;
  c.lanes = random.log_count(1, std::max(how.most_lanes, 1u));
  c.urgent_lanes = 1 + random.below(2);
  c.gate_every = random.of(std::array<unsigned, 3>{1, 2, 4});
  c.grain_us = random.of(std::array<double, 3>{60, 100, 500});
  c.levels = 1 + random.below(3);
  c.quantum_us = random.one_in(3) ? 0 : c.grain_us * (1u << random.below(c.levels));
  c.ahead = 1 + random.below(3);
  c.rounds = random.log_count(20, 120);
  c.measured = random.one_in(8);

  work_graph::random_shape best_effort;
  best_effort.features = how.features;
  best_effort.most_nodes = std::min(how.most_nodes, most_nodes_together / c.lanes);
  c.best_effort = work_graph::random_graph("best_effort", random.number(), best_effort);
  work_graph::random_shape urgent;
  urgent.features = how.features;
  urgent.most_nodes = std::min(how.most_nodes, 200u);
  urgent.most_us = 3e3;
  urgent.most_bytes = 2u << 20;
  c.urgent = work_graph::random_graph("urgent", random.number(), urgent);
  return c;
}

[[nodiscard]] inline std::string to_text(const torture_case& c) {
  return "case seed=" + std::to_string(c.seed) + " lanes=" + std::to_string(c.lanes) +
         " urgent_lanes=" + std::to_string(c.urgent_lanes) +
         " gate_every=" + std::to_string(c.gate_every) +
         " grain_us=" + work_graph::written(c.grain_us) + " levels=" + std::to_string(c.levels) +
         " quantum_us=" + work_graph::written(c.quantum_us) + " ahead=" + std::to_string(c.ahead) +
         " rounds=" + std::to_string(c.rounds) + (c.measured ? " measured" : "") + "\n" +
         work_graph::to_text(c.best_effort) + work_graph::to_text(c.urgent);
}

/// Parses the next case; none at the end of the text.
///
/// Errors   gsched::error bad_profile, a line with the position.
[[nodiscard]] inline std::optional<torture_case> read_case(work_graph::line_reader& from) {
  auto line = from.next();
  if (!line) return std::nullopt;
  const std::vector<std::string>& words = line->words();
  if (words.empty() || words[0] != "case") line->fail("expected \"case seed=...\"");
  torture_case c;
  for (std::size_t k = 1; k < words.size(); ++k) {
    if (words[k] != "measured") line->fail("\"" + words[k] + "\", expected a known word");
    c.measured = true;
  }
  line->number("seed", c.seed);
  line->number("lanes", c.lanes);
  line->number("urgent_lanes", c.urgent_lanes);
  line->number("gate_every", c.gate_every);
  line->number("grain_us", c.grain_us);
  line->number("levels", c.levels);
  line->number("quantum_us", c.quantum_us);
  line->number("ahead", c.ahead);
  line->number("rounds", c.rounds);
  line->finish();
  const auto within = [&](const char* what, auto value, auto least, auto most) {
    if (!(value >= least && value <= most))
      line->fail(std::string(what) + ", expected " + std::to_string(least) + " to " +
                 std::to_string(most));
  };
  within("lanes", c.lanes, 1u, 32u);
  within("urgent_lanes", c.urgent_lanes, 1u, 8u);
  within("gate_every", c.gate_every, 1u, 64u);
  within("grain_us", c.grain_us, 1., 1e6);
  within("levels", c.levels, 1u, 8u);
  within("quantum_us", c.quantum_us, 0., 1e9);
  within("ahead", c.ahead, 1u, 64u);
  within("rounds", c.rounds, 1u, 1000000u);
  c.best_effort = work_graph::read_graph(from);
  c.urgent = work_graph::read_graph(from);
  return c;
}

/// Simpler cases, the simplest first, each of which differs from the case in one respect; cases
/// with fewer nodes precede those with fewer features.
[[nodiscard]] inline std::vector<torture_case> smaller(const torture_case& c) {
  constexpr std::size_t most_parts = 48;
  std::vector<torture_case> all;
  const auto with = [&](const auto& change) {
    torture_case made = c;
    change(made);
    all.push_back(std::move(made));
  };
  with([](torture_case& m) { m.lanes = 1, m.urgent_lanes = 1; });
  with([](torture_case& m) { m.lanes = std::max(m.lanes / 2, 1u); });
  with([](torture_case& m) { m.lanes = std::max(m.lanes - 1, 1u); });
  with([](torture_case& m) {
    work_graph::node tiny; // nothing below changes it
    tiny.bytes = 64;
    tiny.threads = 32;
    m.urgent.captured = false;
    m.urgent.nodes = {tiny};
  });
  for (work_graph::graph& part : work_graph::parts_of(c.best_effort, most_parts))
    with([&](torture_case& m) { m.best_effort = std::move(part); });
  for (work_graph::graph& part : work_graph::parts_of(c.urgent, most_parts / 2))
    with([&](torture_case& m) { m.urgent = std::move(part); });
  for (work_graph::graph& plain : work_graph::without_features(c.best_effort))
    with([&](torture_case& m) { m.best_effort = std::move(plain); });
  for (work_graph::graph& plain : work_graph::without_features(c.urgent))
    with([&](torture_case& m) { m.urgent = std::move(plain); });
  with([](torture_case& m) { m.urgent_lanes = 1; });
  with([](torture_case& m) { m.quantum_us = 0; });
  with([](torture_case& m) { m.ahead = 1; });
  with([](torture_case& m) { m.levels = 1; });
  with([](torture_case& m) { m.gate_every = 2; });
  with([](torture_case& m) { m.measured = false; });
  const std::string before = to_text(c);
  std::erase_if(all, [&](const torture_case& m) {
    return to_text(m) == before || work_graph::flaw(m.best_effort) || work_graph::flaw(m.urgent);
  });
  return all;
}

} // namespace preemption_torture
