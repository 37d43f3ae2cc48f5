// SPDX-License-Identifier: Apache-2.0
#include "sim_accuracy/report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace sim_accuracy {

namespace {

struct summary {
  std::string kind;
  std::size_t rows = 0;
  double median = 0;
  double p90 = 0;
  double worst = 0; ///< with its sign
  std::string where;
};

/// Between the two nearest ranks, as most tools do it.
double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = at - static_cast<double>(below);
  return sorted[below] * (1 - weight) + sorted[above] * weight;
}

summary summarise(std::string kind, const std::vector<const comparison*>& rows) {
  summary s;
  s.kind = std::move(kind);
  s.rows = rows.size();
  std::vector<double> errors;
  for (const comparison* r : rows) {
    errors.push_back(std::abs(r->error()));
    if (errors.back() < std::abs(s.worst)) continue;
    s.worst = r->error();
    s.where = r->where;
  }
  std::sort(errors.begin(), errors.end());
  s.median = quantile(errors, 0.5);
  s.p90 = quantile(errors, 0.9);
  return s;
}

/// All rows first, then each kind in the order in which it appears.
std::vector<summary> summaries(const outcome& o) {
  std::vector<std::string> kinds;
  std::vector<const comparison*> all;
  for (const comparison& r : o.rows) {
    all.push_back(&r);
    if (std::find(kinds.begin(), kinds.end(), r.kind) == kinds.end()) kinds.push_back(r.kind);
  }
  std::vector<summary> result;
  if (all.empty()) return result;
  result.push_back(summarise("all", all));
  if (kinds.size() == 1) return result;
  for (const std::string& kind : kinds) {
    std::vector<const comparison*> rows;
    for (const comparison* r : all)
      if (r->kind == kind) rows.push_back(r);
    result.push_back(summarise(kind, rows));
  }
  return result;
}

} // namespace

void print(const outcome& o) {
  std::size_t width = 12;
  if (o.list) {
    for (const comparison& r : o.rows) width = std::max(width, r.where.size());
    fmt::print("{:<{}}  {:>12}  {:>12}  {:>7}\n", "", width, "measured us", "simulated us",
               "error");
    for (const comparison& r : o.rows)
      fmt::print("{:<{}}  {:>12.2f}  {:>12.2f}  {:>6.1f}%\n", r.where, width, r.measured_us,
                 r.simulated_us, 100 * r.error());
    fmt::print("\n");
  }
  fmt::print("{:<12}  {:>5}  {:>7}  {:>7}  {:>7}  {}\n", o.what, "rows", "median", "p90", "worst",
             "where");
  for (const summary& s : summaries(o))
    fmt::print("{:<12}  {:>5}  {:>6.1f}%  {:>6.1f}%  {:>6.1f}%  {}\n", s.kind, s.rows,
               100 * s.median, 100 * s.p90, 100 * s.worst, s.where);
  if (o.without_profile > 0)
    fmt::print("{} rows left out: no profile of that model and batch\n", o.without_profile);
}

void write_json(std::ostream& to, const outcome& o, bool ignore_scaling, bool ignore_replays) {
  using nlohmann::json;
  json out = {{"what", o.what},
              {"ignore_scaling", ignore_scaling},
              {"ignore_replays", ignore_replays},
              {"without_profile", o.without_profile},
              {"kinds", json::array()},
              {"rows", json::array()}};
  for (const summary& s : summaries(o))
    out["kinds"].push_back({{"kind", s.kind},
                            {"rows", s.rows},
                            {"median_error", s.median},
                            {"p90_error", s.p90},
                            {"worst_error", s.worst},
                            {"worst_where", s.where}});
  for (const comparison& r : o.rows)
    out["rows"].push_back({{"where", r.where},
                           {"kind", r.kind},
                           {"measured_us", r.measured_us},
                           {"simulated_us", r.simulated_us},
                           {"error", r.error()}});
  to << out.dump(1) << '\n';
}

} // namespace sim_accuracy
