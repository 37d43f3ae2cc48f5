// SPDX-License-Identifier: Apache-2.0
#include "interference/study.hpp"

#include "interference/fitting.hpp"

#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/mean_slowdown.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>

namespace interference {

using namespace gsched;

namespace {

using some_groups = std::vector<const known_group*>;
using predictions = std::vector<std::vector<double>>; ///< by group, then side

/// Four digits are more than a fit knows.
double four_places(double x) { return std::round(x * 1e4) / 1e4; }

bool of(subject what, const known_group& g) {
  return g.shared == (what == subject::shared_kernels);
}

some_groups groups_of(const group_set& all, subject what) {
  some_groups those;
  for (const known_group& g : all.groups)
    if (of(what, g)) those.push_back(&g);
  return those;
}

template <class Keep>
some_groups only(const some_groups& all, Keep keep) {
  some_groups those;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (keep(i)) those.push_back(all[i]);
  return those;
}

std::vector<double> errors_of(const predictions& predicted, const some_groups& groups) {
  std::vector<double> errors;
  for (std::size_t g = 0; g < predicted.size(); ++g)
    for (std::size_t i = 0; i < predicted[g].size(); ++i)
      errors.push_back(relative_error(predicted[g][i], groups[g]->sides[i].row.slowdown()));
  return errors;
}

std::vector<double> errors_of(const interference_coefficients& c, const some_groups& groups,
                              subject what) {
  return errors_of(predict_all(c, groups, what != subject::disjoint_means), groups);
}

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// A coefficient that groups decide.
struct decided {
  double& (*in)(interference_coefficients&);
  double step;
  double most;
};

using coefficients = interference_coefficients;
constexpr std::array<decided, 3> fitted_values{{
    {[](coefficients& c) -> double& { return c.contention.l2_latency; }, 0.05, 3},
    {[](coefficients& c) -> double& { return c.contention.dram_latency; }, 0.1, 3},
    {[](coefficients& c) -> double& { return c.replay.gap_us; }, 0.15, 10},
}};

void fit_disjoint(coefficients& c, const coefficients* first, const some_groups& groups,
                  const std::string& what) {
  constexpr replay_window brief{8000, 2, 300'000};
  if (groups.empty()) return;
  std::vector<double> begin;
  if (first != nullptr) {
    coefficients from = *first;
    for (const decided& d : fitted_values) begin.push_back(d.in(from));
  }
  std::vector<unknown> unknowns;
  for (const decided& d : fitted_values) unknowns.push_back({d.in(c), d.step, 0, d.most});
  const auto with = [&](std::span<const double> v) {
    coefficients tried = c;
    for (std::size_t i = 0; i < fitted_values.size(); ++i) fitted_values[i].in(tried) = v[i];
    return tried;
  };
  const auto residuals = [&](std::span<const double> v) {
    const predictions predicted = predict_all(with(v), groups, true, nullptr, brief);
    std::vector<double> r;
    for (std::size_t g = 0; g < predicted.size(); ++g)
      for (std::size_t i = 0; i < predicted[g].size(); ++i)
        r.push_back(std::log(predicted[g][i] / groups[g]->sides[i].row.slowdown()));
    return r;
  };
  std::vector<double> found = fit_values(residuals, unknowns, what.c_str(), 0.1, begin);
  std::transform(found.begin(), found.end(), found.begin(), four_places);
  c = with(found);
}

/// The mean demands of a group, summed over its graphs.
std::array<double, resources> total_of(const known_group& g) {
  std::array<double, resources> sum{};
  for (const known_side& s : g.sides) {
    const demand d = mean_demand(*s.chain);
    for (std::size_t r = 0; r < resources; ++r)
      if (g.shared || r >= resources_on_sm) sum[r] += d.use[r];
  }
  return sum;
}

/// Widens the range by these groups.
void see(seen_range& range, const some_groups& groups) {
  for (const known_group* g : groups) {
    range.graphs = std::max(range.graphs, static_cast<std::uint32_t>(g->sides.size()));
    const std::array<double, resources> sum = total_of(*g);
    for (std::size_t r = 0; r < resources; ++r)
      range.sum[r] = std::max(range.sum[r], four_places(sum[r]));
  }
}

/// Fits all coefficients that the groups can decide. The search begins at `first`, unless it is
/// null, and is drawn to c.
coefficients fit(coefficients c, const coefficients* first, const some_groups& disjoint,
                 const some_groups& shared, const std::string& what) {
  fit_disjoint(c, first, disjoint, "disjoint" + what);
  c.seen = {};
  see(c.seen, disjoint);
  see(c.seen, shared);
  return c;
}

} // namespace

std::string_view name_of(subject s) noexcept {
  switch (s) {
  case subject::disjoint: return "disjoint";
  case subject::disjoint_means: return "disjoint_means";
  case subject::shared_kernels: return "shared_kernels";
  }
  return "";
}

std::vector<double> predict(const coefficients& c, const known_group& g, bool kernels,
                            const std::string* unseen, const replay_window& window) {
  if (!kernels) {
    std::vector<double> slow;
    for (const known_side& s : g.sides) {
      mean_use others;
      for (const known_side& other : g.sides) {
        if (&other == &s) continue;
        others.add(other.means().as_neighbour());
      }
      slow.push_back(mean_slowdown(c, s.means(), others));
    }
    return slow;
  }
  std::vector<kernel_chain> probes; // as chains without an end
  probes.reserve(g.sides.size());
  std::vector<corunner> graphs;
  for (std::size_t i = 0; i < g.sides.size(); ++i) {
    const known_side& s = g.sides[i];
    const bool hidden = unseen != nullptr && s.row.model == *unseen && s.stand_in != nullptr;
    const kernel_chain* chain = hidden ? s.stand_in : s.chain;
    if (s.endless) {
      probes.push_back(*chain);
      probes.back().endless = true;
      chain = &probes.back();
    }
    graphs.push_back({chain, g.shared ? 0 : static_cast<std::uint32_t>(i)});
  }
  return corun_slowdowns(graphs, c.contention, c.replay, window);
}

std::vector<std::vector<double>> predict_all(const coefficients& c,
                                             std::span<const known_group* const> groups,
                                             bool kernels, const std::string* unseen,
                                             const replay_window& window) {
  predictions all(groups.size());
  const std::size_t workers = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
  std::atomic<std::size_t> next = 0; // groups take from 1 to 500 ms
  std::vector<std::jthread> running;
  for (std::size_t w = 0; w < workers; ++w)
    running.emplace_back([&] {
      for (std::size_t g = next++; g < groups.size(); g = next++)
        all[g] = predict(c, *groups[g], kernels, unseen, window);
    });
  running.clear(); // waits for them
  return all;
}

coefficients neutral_coefficients() noexcept {
  coefficients c;
  c.contention = contention_law::of({0.1, 0.1, 0.5, 1.15, 0.82, 0.977, 0.09});
  c.replay = {0, 0};
  return c;
}

namespace {

std::vector<std::string> models_in(const group_set& all) {
  return {all.models.begin(), all.models.end()};
}

} // namespace

std::size_t fits_of(const group_set& all, bool once) {
  return once ? 1 : 1 + row_parts + all.models.size();
}

std::vector<findings> study(const group_set& all, const std::vector<subject>& asked, bool once,
                            coefficients& into, const on_progress& progress) {
  const some_groups disjoint = groups_of(all, subject::disjoint);
  const some_groups shared = groups_of(all, subject::shared_kernels);
  const auto its_groups = [&](subject what) {
    return what == subject::shared_kernels ? shared : disjoint;
  };
  const coefficients start = into;
  into = fit(start, nullptr, disjoint, shared, "");
  std::vector<findings> found;
  for (const subject what : asked) {
    found.emplace_back();
    found.back().what = what;
    found.back().seen = summary_of(errors_of(into, its_groups(what), what));
  }
  progress();
  if (once) return found;

  std::array<std::vector<double>, subjects> errors;
  for (std::size_t part = 0; part < row_parts; ++part) {
    const auto in = [&](std::size_t i) { return i % row_parts != part; };
    const auto out = [&](std::size_t i) { return i % row_parts == part; };
    const coefficients c =
        fit(start, &into, only(disjoint, in), only(shared, in), ", rows left out");
    for (std::size_t f = 0; f < found.size(); ++f)
      append(errors[f], errors_of(c, only(its_groups(found[f].what), out), found[f].what));
    progress();
  }
  for (std::size_t f = 0; f < found.size(); ++f)
    found[f].rows_left_out = summary_of(std::exchange(errors[f], {}));

  std::array<std::vector<double>, subjects> unprofiled;
  for (const std::string& model : models_in(all)) {
    const auto without = [&](const some_groups& from) {
      return only(from, [&](std::size_t i) { return !from[i]->has(model); });
    };
    const auto with = [&](const some_groups& from) {
      return only(from, [&](std::size_t i) { return from[i]->has(model); });
    };
    const coefficients c =
        fit(start, &into, without(disjoint), without(shared), ", without " + model);
    for (std::size_t f = 0; f < found.size(); ++f) {
      const subject what = found[f].what;
      const some_groups out = with(its_groups(what));
      if (out.empty()) continue;
      const std::vector<double> of = errors_of(c, out, what);
      found[f].by_model_left_out[model] = summary_of(of);
      append(errors[f], of);
      if (what != subject::disjoint_means)
        append(unprofiled[f], errors_of(predict_all(c, out, true, &model), out));
    }
    progress();
  }
  for (std::size_t f = 0; f < found.size(); ++f) {
    found[f].models_left_out = summary_of(std::move(errors[f]));
    if (!unprofiled[f].empty()) found[f].without_profiles = summary_of(std::move(unprofiled[f]));
  }
  return found;
}

findings judge(const group_set& all, subject what, const coefficients& from) {
  findings f;
  f.what = what;
  f.seen = summary_of(errors_of(from, groups_of(all, what), what));
  return f;
}

void test(findings& into, const group_set& others, const group_set* fitted,
          const coefficients& from) {
  const some_groups all = groups_of(others, into.what);
  if (all.empty()) return;
  const predictions predicted = predict_all(from, all, into.what != subject::disjoint_means);
  into.test = summary_of(errors_of(predicted, all));
  std::vector<double> known, unknown;
  for (std::size_t g = 0; g < all.size(); ++g) {
    const auto number = static_cast<std::size_t>(all[g] - others.groups.data());
    bool in_fit = fitted != nullptr;
    for (const known_side& s : all[g]->sides)
      in_fit = in_fit && fitted->models.contains(s.row.model);
    for (std::size_t i = 0; i < predicted[g].size(); ++i) {
      into.test_predictions.push_back({number, i, predicted[g][i]});
      (in_fit ? known : unknown)
          .push_back(relative_error(predicted[g][i], all[g]->sides[i].row.slowdown()));
    }
  }
  if (fitted == nullptr) return;
  if (!known.empty()) into.test_known = summary_of(std::move(known));
  if (!unknown.empty()) into.test_new = summary_of(std::move(unknown));
}

std::string beyond_seen(const seen_range& seen, const known_group& g) {
  std::vector<corunner> graphs;
  for (std::size_t i = 0; i < g.sides.size(); ++i)
    graphs.push_back({g.sides[i].chain, g.shared ? 0 : static_cast<std::uint32_t>(i)});
  return beyond_fit(seen, graphs);
}

} // namespace interference
