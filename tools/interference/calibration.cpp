// SPDX-License-Identifier: Apache-2.0
#include "interference/calibration.hpp"

#include "common/report/solo_factors.hpp"
#include "interference/fitting.hpp"

#include <gsched/core/error.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/mean_pressure.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>
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

/// The groups on SMs of their own, by each of their graphs, but those that only starts slow.
std::map<model_batch, some_groups> groups_by_graph(const group_set& pairs) {
  std::map<model_batch, some_groups> by;
  for (const known_group& g : pairs.groups) {
    if (g.shared || beside_starts(g) != nullptr) continue;
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

double to_thousandths(double x) { return std::round(x * 1e3) / 1e3; }

/// Whether a graph stands beside a stream that is slow, and pushes out all that it has in L2.
bool beside_stream(const known_group& g) {
  constexpr double least = 0.8 * l2_loss::stream, most = 2 * l2_loss::stream;
  const known_side& probe = g.sides.front();
  if (g.shared || !probe.endless || g.sides.back().row.model.starts_with("probe_")) return false;
  const double dram = mean_demand(*probe.chain).of(resource::dram);
  return dram >= least && dram <= most;
}

void find_losses(calibration& into, workloads& known, const group_set& streams,
                 const interference_coefficients& c) {
  some_groups groups;
  for (const known_group& g : streams.groups)
    if (beside_stream(g)) groups.push_back(&g);
  if (groups.empty())
    throw error(errc::too_small,
                "calibrate: no graph beside a slow copy on other SMs, expected rows of a probe "
                "that uses 4 to 10% of DRAM, as of measure probes");
  for (const known_group* g : groups) known.set_loss(graph_of(g->sides.back()), {0.0});
  const std::vector<std::vector<double>> slow = predict_all(c, groups, true);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const known_side& side = groups[g]->sides.back();
    graph_factors& of = into.graphs[graph_of(side)];
    const l2_loss lost = l2_loss::of(side.row.slowdown(), slow[g].back());
    of.lost.part = of.lost.part.value_or(0) + *lost.part;
    ++of.streams;
  }
  for (auto& [graph, of] : into.graphs) {
    if (of.streams == 0) continue;
    of.lost.part = to_thousandths(*of.lost.part / static_cast<double>(of.streams));
    known.set_loss(graph, of.lost);
  }
}

void find_start_losses(calibration& into, workloads& known, const group_set& starts,
                       const interference_coefficients& c) {
  struct sums {
    double measured = 0, per_us = 0; ///< slow-downs by starts, and predicted of 1 us a start
  };
  some_groups groups;
  for (const known_group& g : starts.groups)
    if (beside_starts(g) != nullptr) groups.push_back(&g);
  if (groups.empty())
    throw error(errc::too_small,
                "calibrate: no graph beside one that only starts kernels, on other SMs, expected "
                "some, as of measure starts");
  std::map<model_batch, sums> by;
  for (const double us : {0., 1.}) {
    for (const known_group* g : groups) known.set_start_loss(graph_of(*beside_starts(*g)), {us});
    const std::vector<std::vector<double>> slow = predict_all(c, groups, true);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const known_side& side = *beside_starts(*groups[g]);
      const double predicted = slow[g][static_cast<std::size_t>(&side - groups[g]->sides.data())];
      sums& of = by[graph_of(side)];
      if (us == 0) of.measured += side.row.slowdown() - predicted;
      of.per_us += us == 0 ? -predicted : predicted;
    }
  }
  for (const auto& [graph, of] : by) {
    const double us = of.per_us > 0 ? of.measured / of.per_us : 0;
    const start_loss found{to_thousandths(std::clamp(us, 0.0, start_loss::most))};
    into.graphs[graph].at_start = found;
    known.set_start_loss(graph, found);
  }
}

void find_mean_pressures(calibration& into, workloads& known, const latency_table& table,
                         const interference_coefficients& c, const on_progress& progress) {
  const std::vector<model_batch> graphs = known.counted(table);
  if (graphs.empty())
    throw error(errc::too_small, "calibrate: no graph of --table has solo metrics and a profile "
                                 "with counters, expected some");
  std::vector<chain_and_mean> on_half;
  for (const model_batch& graph : graphs) {
    const graph_factors& of = into.graphs[graph];
    solo_metrics losses = known.metrics(graph);
    if (of.streams > 0) losses.lost = of.lost;
    if (of.at_start.known()) losses.at_start = of.at_start;
    on_half.push_back(known.on_half(graph, table, losses));
  }
  std::mutex one_at_a_time;
  const std::vector<double> pressures = mean_pressures(on_half, c, [&] {
    const std::lock_guard lock(one_at_a_time);
    progress();
  });
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const double pressure = to_thousandths(pressures[i]);
    into.graphs[graphs[i]].mean_pressure = pressure;
    known.set_mean_pressure(graphs[i], pressure);
  }
}

} // namespace

const known_side* beside_starts(const known_group& g) {
  constexpr double least = 0.01;
  if (g.shared || g.sides.size() != 2) return nullptr;
  const auto only_starts = [](const known_side& s) {
    const demand d = mean_demand(*s.chain);
    return !s.endless && std::max(d.of(resource::l2), d.of(resource::dram)) < least;
  };
  const bool first = only_starts(g.sides[0]), second = only_starts(g.sides[1]);
  return first == second ? nullptr : &g.sides[first ? 1 : 0];
}

std::size_t steps_of_calibration(const workloads& known, const calibrated_by& by) {
  const std::size_t counted = by.table != nullptr ? known.counted(*by.table).size() : 0;
  return sweeps * groups_by_graph(by.pairs).size() + counted * (counted + 1) / 2;
}

calibration calibrate(workloads& known, const calibrated_by& by, const interference_coefficients& c,
                      const on_progress& progress) {
  const group_set& pairs = by.pairs;
  const std::map<model_batch, some_groups> by_graph = groups_by_graph(pairs);
  if (by_graph.empty() && !pairs.groups.empty())
    throw error(errc::too_small, "calibrate: no pair on SMs of its own, expected some");
  const auto errors = [&](subject law) { return judge(pairs, law, c).seen; };
  calibration found;
  for (const auto& [graph, groups] : by_graph) {
    found.graphs[graph].pairs = groups.size();
    known.set_factors(graph, {});
  }
  if (by.table != nullptr)
    for (const model_batch& graph : known.counted(*by.table)) known.set_mean_pressure(graph, 1);
  if (!by.starts.groups.empty()) find_start_losses(found, known, by.starts, c);
  if (!by.streams.groups.empty()) find_losses(found, known, by.streams, c);
  if (!by_graph.empty()) {
    found.kernels_before = errors(subject::disjoint);
    found.means_before = errors(subject::disjoint_means);
  }
  if (by.table != nullptr) find_mean_pressures(found, known, *by.table, c, progress);
  if (by_graph.empty()) return found;
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
    const auto bounded = [](double x) {
      return std::clamp(to_thousandths(x), corun_factors::least, corun_factors::most);
    };
    of.factors = {bounded(of.factors.sensitivity), bounded(of.factors.pressure)};
    known.set_factors(graph, of.factors);
  }
  found.kernels_after = errors(subject::disjoint);
  found.means_after = errors(subject::disjoint_means);
  return found;
}

void write_calibrated(std::ostream& out, const std::filesystem::path& solo,
                      const calibration& found) {
  const bool pairs = std::any_of(found.graphs.begin(), found.graphs.end(),
                                 [](const auto& g) { return g.second.pairs > 0; });
  common::write_factors(out, solo, [&](solo_metrics& row) {
    const auto at = found.graphs.find({row.model, row.batch});
    const graph_factors of = at == found.graphs.end() ? graph_factors{} : at->second;
    if (pairs) row.factors = of.factors;
    if (of.streams > 0) row.lost = of.lost;
    if (of.at_start.known()) row.at_start = of.at_start;
    row.mean_pressure = of.mean_pressure.value_or(row.mean_pressure);
  });
}

} // namespace interference
