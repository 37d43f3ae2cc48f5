// SPDX-License-Identifier: Apache-2.0
#include "padding/report.hpp"

#include "common/report/json.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace padding {

namespace {

using common::json;
using common::rounded;

const char* name_of(gsched::level_rule rule) {
  return rule == gsched::level_rule::own ? "own" : "needed";
}

struct summary {
  double share = 0, padded = 0, slowdown = 0, throughput = 0;
  const potential* best = nullptr;
};

summary of(std::span<const potential> all, const std::string& real_time, gsched::level_rule rule) {
  summary s;
  double n = 0;
  for (const potential& p : all) {
    if (p.real_time != real_time || p.rule != rule) continue;
    ++n;
    s.share += p.share;
    s.padded += p.padded;
    s.slowdown += p.slowdown;
    s.throughput += p.throughput;
    if (s.best == nullptr || p.share > s.best->share) s.best = &p;
  }
  return {s.share / n, s.padded / n, s.slowdown / n, s.throughput / n, s.best};
}

/// What is seen of one kind of error over pairs.
struct errors {
  std::vector<double> of;
  void add(double predicted, double measured) { of.push_back(std::abs(predicted / measured - 1)); }
  void print(std::ostream& out, const char* what) {
    if (of.empty()) return;
    std::sort(of.begin(), of.end());
    fmt::print(out, "error of {}: median {:.1f}%, 90th percentile {:.1f}%, worst {:.1f}%\n", what,
               100 * of[of.size() / 2], 100 * of[of.size() * 9 / 10], 100 * of.back());
  }
};

} // namespace

void print(std::ostream& out, std::span<const potential> all, bool predicted) {
  fmt::print(out, "Best-effort time done, in percent of the real-time program's time:\n");
  fmt::print(out, "{:<22}{:<8}{:>7}{:>8}  {:<22}{:>10}", "real-time model", "rule 2", "mean",
             "best", "best-effort", "padded %");
  if (predicted) fmt::print(out, "{:>10}{:>12}", "slowdown", "throughput");
  fmt::print(out, "\n");
  std::vector<std::string> names;
  for (const potential& p : all)
    if (std::find(names.begin(), names.end(), p.real_time) == names.end())
      names.push_back(p.real_time);
  for (const std::string& name : names)
    for (const gsched::level_rule rule : {gsched::level_rule::own, gsched::level_rule::needed}) {
      const summary s = of(all, name, rule);
      if (s.best == nullptr) continue;
      fmt::print(out, "{:<22}{:<8}{:>7.1f}{:>8.1f}  {:<22}{:>10.1f}", name, name_of(rule),
                 100 * s.share, 100 * s.best->share, s.best->corunner, 100 * s.padded);
      if (predicted) fmt::print(out, "{:>10.3f}{:>12.3f}", s.slowdown, s.throughput);
      fmt::print(out, "\n");
    }
}

void write_json(std::ostream& out, std::span<const potential> all, const question& q) {
  json rows = json::array();
  for (const potential& p : all) {
    json row = {{"real_time", p.real_time},           {"best_effort", p.corunner},
                {"rule_2", name_of(p.rule)},          {"share", rounded(p.share)},
                {"least_share", rounded(p.least)},    {"most_share", rounded(p.most)},
                {"padded_kernels", rounded(p.padded)}};
    if (q.predicted > 0) {
      row["slowdown"] = rounded(p.slowdown);
      row["throughput"] = rounded(p.throughput);
    }
    rows.push_back(std::move(row));
  }
  out << json{{"corunners", q.corunners}, {"parts", q.options.parts}, {"pairs", rows}}.dump(1)
      << '\n';
}

void print(std::ostream& out, std::span<const pair_result> all, gsched::duration gap) {
  fmt::print(out, "{:<24}{:<24}{:>8}{:>7}{:>10}{:>10}{:>10}{:>10}\n", "real-time", "best-effort",
             "blocks", "level", "slowdown", "measured", "of part", "measured");
  errors part, whole, slower;
  for (const pair_result& r : all) {
    fmt::print(out, "{:<24}{:<24}{:>8}", r.real_time, r.corunner, r.blocks);
    if (r.blocks == 0) {
      fmt::print(out, "  not by the rules\n");
      continue;
    }
    const gsched::sim::padded_times& p = r.predicted;
    const double part_slower = gsched::to_us(p.real_time) / gsched::to_us(p.alone);
    fmt::print(out, "{:>7}{:>10.3f}", r.level, p.slowdown());
    if (!r.measured) {
      fmt::print(out, "{:>10}{:>10.3f}\n", "", part_slower);
      continue;
    }
    const pair_times& m = *r.measured;
    fmt::print(out, "{:>10.3f}{:>10.3f}{:>10.3f}\n", m.whole_padded / m.whole_plain, part_slower,
               m.part_padded / m.part_plain);
    part.add(part_slower, m.part_padded / m.part_plain);
    whole.add(gsched::to_us(p.together + gap), m.whole_padded);
    slower.add((gsched::to_us(p.together + gap)) / gsched::to_us(p.alone + gap),
               m.whole_padded / m.whole_plain);
  }
  whole.print(out, "padded kernels' times");
  slower.print(out, "their ratio to plain ones");
  part.print(out, "the real-time parts' ratio");
}

void write_json(std::ostream& out, std::span<const pair_result> all) {
  json rows = json::array();
  for (const pair_result& r : all) {
    json row = {{"real_time", r.real_time}, {"best_effort", r.corunner}, {"blocks", r.blocks}};
    if (r.blocks > 0) {
      const gsched::sim::padded_times& p = r.predicted;
      row["level"] = r.level;
      row["predicted"] = {
          {"alone_us", common::us(p.alone)},    {"part_us", common::us(p.real_time)},
          {"whole_us", common::us(p.together)}, {"one_by_one_us", common::us(p.one_by_one)},
          {"slowdown", rounded(p.slowdown())},  {"speed_up", rounded(p.speed_up())}};
    }
    if (r.measured)
      row["measured"] = {{"part_plain_us", r.measured->part_plain},
                         {"part_padded_us", r.measured->part_padded},
                         {"whole_plain_us", r.measured->whole_plain},
                         {"whole_padded_us", r.measured->whole_padded}};
    rows.push_back(std::move(row));
  }
  out << json{{"pairs", rows}}.dump(1) << '\n';
}

} // namespace padding
