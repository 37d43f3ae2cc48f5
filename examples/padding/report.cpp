// SPDX-License-Identifier: Apache-2.0
#include "padding/report.hpp"

#include "parts/json.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace padding {

namespace {

using parts::json;
using parts::rounded;

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

json times_json(double alone, double together, double one_by_one) {
  return {{"alone_us", rounded(alone)},
          {"together_us", rounded(together)},
          {"one_by_one_us", rounded(one_by_one)},
          {"slowdown", rounded(together / alone)},
          {"speed_up", rounded(one_by_one / together)}};
}

json times_json(const gsched::sim::padded_times& t) {
  return times_json(gsched::to_us(t.alone), gsched::to_us(t.together), gsched::to_us(t.one_by_one));
}

} // namespace

void print(std::ostream& out, std::span<const potential> all, bool predicted) {
  fmt::print(out, "Best-effort time done, in percent of the real-time program's time:\n");
  fmt::print(out, "{:<22}{:<8}{:>7}{:>8}  {:<22}{:>10}", "real-time model", "rule 2", "mean",
             "best", "guest", "padded %");
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
                 100 * s.share, 100 * s.best->share, s.best->guest, 100 * s.padded);
      if (predicted) fmt::print(out, "{:>10.3f}{:>12.3f}", s.slowdown, s.throughput);
      fmt::print(out, "\n");
    }
}

void write_json(std::ostream& out, std::span<const potential> all, const question& q) {
  json rows = json::array();
  for (const potential& p : all) {
    json row = {{"real_time", p.real_time},           {"guest", p.guest},
                {"rule_2", name_of(p.rule)},          {"share", rounded(p.share)},
                {"least_share", rounded(p.least)},    {"most_share", rounded(p.most)},
                {"padded_kernels", rounded(p.padded)}};
    if (q.predicted > 0) {
      row["slowdown"] = rounded(p.slowdown);
      row["throughput"] = rounded(p.throughput);
    }
    rows.push_back(std::move(row));
  }
  out << json{{"guests", q.guests}, {"parts", q.options.parts}, {"pairs", rows}}.dump(1) << '\n';
}

void print(std::ostream& out, std::span<const pair_result> all) {
  fmt::print(out, "{:<22}{:<22}{:>8}{:>7}{:>10}{:>10}{:>10}{:>10}\n", "host", "guest", "blocks",
             "level", "slowdown", "speed-up", "measured", "measured");
  std::vector<double> errors;
  for (const pair_result& r : all) {
    fmt::print(out, "{:<22}{:<22}{:>8}", r.host, r.guest, r.guest_blocks);
    if (r.guest_blocks == 0) {
      fmt::print(out, "  not by the rules\n");
      continue;
    }
    fmt::print(out, "{:>7}{:>10.3f}{:>10.3f}", r.level, r.predicted.slowdown(),
               r.predicted.speed_up());
    if (r.measured) {
      const pair_times& m = *r.measured;
      fmt::print(out, "{:>10.3f}{:>10.3f}", m.together_us / m.alone_us,
                 m.one_by_one_us / m.together_us);
      errors.push_back(std::abs(gsched::to_us(r.predicted.together) / m.together_us - 1));
    }
    fmt::print(out, "\n");
  }
  if (errors.empty()) return;
  std::sort(errors.begin(), errors.end());
  fmt::print(out, "error of the padded kernel's time: median {:.1f}%, worst {:.1f}%\n",
             100 * errors[errors.size() / 2], 100 * errors.back());
}

void write_json(std::ostream& out, std::span<const pair_result> all, const std::string& device) {
  json rows = json::array();
  for (const pair_result& r : all) {
    json row = {{"host", r.host}, {"guest", r.guest}, {"guest_blocks", r.guest_blocks}};
    if (r.guest_blocks > 0) {
      row["level"] = r.level;
      row["predicted"] = times_json(r.predicted);
    }
    if (r.measured)
      row["measured"] =
          times_json(r.measured->alone_us, r.measured->together_us, r.measured->one_by_one_us);
    rows.push_back(std::move(row));
  }
  out << json{{"device", device}, {"pairs", rows}}.dump(1) << '\n';
}

} // namespace padding
