// SPDX-License-Identifier: Apache-2.0
#include "interference/calibration.hpp"

#include "common/report/solo_factors.hpp"
#include "interference/fitting.hpp"

#include <gsched/core/error.hpp>
#include <gsched/interference/corun_slowdowns.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace interference {

using namespace gsched;

namespace {

constexpr int sweeps = 3; ///< over all graphs, one graph at a time
constexpr replay_window short_run{8000, 2, 300'000};

using some_groups = std::vector<const known_group*>;

model_batch graph_of(const known_side& s) { return {s.row.model, s.row.batch}; }

/// The groups on SMs of their own, by each of their graphs.
std::map<model_batch, some_groups> groups_by_graph(const group_set& pairs) {
  std::map<model_batch, some_groups> by;
  for (const known_group& g : pairs.groups) {
    if (g.shared) continue;
    std::set<model_batch> graphs;
    for (const known_side& s : g.sides) graphs.insert(graph_of(s));
    for (const model_batch& graph : graphs) by[graph].push_back(&g);
  }
  return by;
}

/// Of both laws.
std::vector<double> residuals_of(const some_groups& groups, const interference_coefficients& c) {
  std::vector<double> r;
  for (const bool kernels : {true, false}) {
    const std::vector<std::vector<double>> slow =
        predict_all(c, groups, kernels, nullptr, short_run);
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (std::size_t i = 0; i < slow[g].size(); ++i)
        r.push_back(std::log(slow[g][i] / groups[g]->sides[i].row.slowdown()));
  }
  return r;
}

} // namespace

std::size_t steps_of_calibration(const group_set& pairs) {
  return sweeps * groups_by_graph(pairs).size();
}

calibration calibrate(workloads& known, const group_set& pairs, const interference_coefficients& c,
                      const on_progress& progress) {
  const std::map<model_batch, some_groups> by_graph = groups_by_graph(pairs);
  if (by_graph.empty())
    throw error(errc::too_small, "calibrate: no pair on SMs of its own, expected some");
  const auto errors = [&](subject law) { return judge(pairs, law, c).seen; };
  calibration found;
  for (const auto& [graph, groups] : by_graph) {
    found.graphs[graph].pairs = groups.size();
    known.set_factors(graph, {});
  }
  found.kernels_before = errors(subject::disjoint);
  found.means_before = errors(subject::disjoint_means);
  // Logarithms of both factors; as unsure at first as a factor of 1.6.
  const double most = std::log(corun_factors::most), step = 0.5;
  const std::vector<unknown> unknowns(2, {0, step, -most, most});
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (const auto& of : by_graph) {
      const model_batch& graph = of.first;
      const some_groups& groups = of.second;
      corun_factors& f = found.graphs[graph].factors;
      const auto set = [&](std::span<const double> v) {
        f = {std::exp(v[0]), std::exp(v[1])};
        known.set_factors(graph, f);
      };
      const auto residuals = [&](std::span<const double> v) {
        set(v);
        return residuals_of(groups, c);
      };
      const std::vector<double> now{std::log(f.sensitivity), std::log(f.pressure)};
      set(fit_values(residuals, unknowns, "calibrate", 0.1, now));
      progress();
    }
  for (auto& [graph, of] : found.graphs) {
    const auto rounded = [](double x) {
      return std::clamp(std::round(x * 1e3) / 1e3, corun_factors::least, corun_factors::most);
    };
    of.factors = {rounded(of.factors.sensitivity), rounded(of.factors.pressure)};
    known.set_factors(graph, of.factors);
  }
  found.kernels_after = errors(subject::disjoint);
  found.means_after = errors(subject::disjoint_means);
  return found;
}

void write_calibrated(std::ostream& out, const std::filesystem::path& solo,
                      const calibration& found) {
  common::write_factors(out, solo,
                        [&](const std::string& model, std::uint32_t batch, const corun_factors&) {
                          const auto of = found.graphs.find({model, batch});
                          return of == found.graphs.end() ? corun_factors{} : of->second.factors;
                        });
}

} // namespace interference
