// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <ostream>
#include <utility>

namespace serve_mix {

namespace {

using gsched::duration;

enum class best { none, least, most };

struct column {
  std::string head;
  std::vector<double> values; ///< one a run
  best wanted = best::none;
  std::string format = "{:.0f}";
};

double ms(duration d) { return static_cast<double>(d.count()) / 1e6; }

/// The latencies of a set of requests, as digits that suit the smallest of them.
std::vector<column> latency_columns(std::span<const latency_summary> of) {
  double least = 1e9;
  for (const latency_summary& s : of)
    if (s.p50 > duration::zero()) least = std::min(least, ms(s.p50));
  const std::string format = least < 0.1 ? "{:.4f}" : least < 1 ? "{:.3f}" : "{:.2f}";
  std::vector<column> columns;
  const auto add = [&](const char* head, duration latency_summary::*field) {
    column c{head, {}, best::least, format};
    for (const latency_summary& s : of) c.values.push_back(ms(s.*field));
    columns.push_back(std::move(c));
  };
  add("mean ms", &latency_summary::mean);
  add("p50", &latency_summary::p50);
  add("p90", &latency_summary::p90);
  add("p99", &latency_summary::p99);
  add("max", &latency_summary::max);
  return columns;
}

/// The row that wins a column, among the eligible; none if all are equal.
std::size_t winner(const column& c, const std::vector<bool>& eligible) {
  constexpr std::size_t nobody = ~std::size_t{0};
  if (c.wanted == best::none) return nobody;
  std::size_t first = nobody;
  bool differ = false;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    if (!eligible[i]) continue;
    if (first == nobody) {
      first = i;
      continue;
    }
    differ = differ || c.values[i] != c.values[first];
    if (c.wanted == best::least ? c.values[i] < c.values[first] : c.values[i] > c.values[first])
      first = i;
  }
  return differ ? first : nobody;
}

void print(std::ostream& out, std::span<const run_result> runs, const std::vector<column>& columns,
           const std::vector<bool>& eligible, bool terminal) {
  std::size_t name_width = 6;
  for (const run_result& r : runs) name_width = std::max(name_width, r.policy.size());
  std::vector<std::vector<std::string>> cells;
  std::string head = fmt::format("{:<{}}", "policy", name_width);
  for (const column& c : columns) {
    std::size_t width = c.head.size();
    auto& texts = cells.emplace_back();
    for (const double v : c.values) {
      texts.push_back(fmt::format(fmt::runtime(c.format), v));
      width = std::max(width, texts.back().size());
    }
    for (std::string& t : texts) t.insert(0, width - t.size(), ' ');
    head += fmt::format("  {:>{}} ", c.head, width);
  }
  out << head << '\n';
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out << fmt::format("{:<{}}", runs[i].policy, name_width);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const bool won = winner(columns[k], eligible) == i;
      out << "  " << (won && terminal ? "\x1b[1m" : "") << cells[k][i] << (won ? "*" : " ")
          << (won && terminal ? "\x1b[0m" : "");
    }
    out << '\n';
  }
}

column count_column(const char* head, std::span<const run_result> runs,
                    std::uint64_t run_result::*field) {
  column c{head, {}};
  for (const run_result& r : runs) c.values.push_back(static_cast<double>(r.*field));
  return c;
}

void print_workload(std::ostream& out, const options& from, const workload_facts& facts) {
  out << fmt::format("{}: {} requests of {} clients, {} arrivals", from.device, from.requests,
                     from.clients, from.arrivals.text);
  if (facts.rate_per_s) out << fmt::format(", {:.1f} a second", *facts.rate_per_s);
  if (facts.load) out << fmt::format(", load {:.2f}", *facts.load);
  if (from.slo) out << fmt::format(", deadline {:g} ms", ms(*from.slo));
  out << fmt::format(", seed {}\n", from.seed);
}

void print_overall(std::ostream& out, const options& from, std::span<const run_result> runs,
                   const std::vector<bool>& eligible, bool terminal) {
  std::vector<column> columns{count_column("finished", runs, &run_result::finished)};
  for (const auto& [head, field] : {std::pair("rejected", &run_result::rejected),
                                    {"cancelled", &run_result::cancelled},
                                    {"failed", &run_result::failed}}) {
    column c = count_column(head, runs, field);
    if (std::any_of(c.values.begin(), c.values.end(), [](double v) { return v > 0; }))
      columns.push_back(std::move(c));
  }
  column rate{"req/s", {}, best::most, "{:.1f}"}, busy{"busy %", {}, best::none, "{:.1f}"},
      in_time{"in time %", {}, best::most, "{:.1f}"};
  std::vector<latency_summary> summaries;
  for (const run_result& r : runs) {
    rate.values.push_back(r.throughput_per_s());
    busy.values.push_back(100 * r.gpu_busy_fraction);
    const auto submitted = static_cast<double>(std::max<std::uint64_t>(r.submitted, 1));
    in_time.values.push_back(100 * static_cast<double>(r.deadlines_met.value_or(0)) / submitted);
    summaries.push_back(summarize(r.latencies));
  }
  columns.push_back(std::move(rate));
  columns.push_back(std::move(busy));
  for (column& c : latency_columns(summaries)) columns.push_back(std::move(c));
  if (from.slo) columns.push_back(std::move(in_time));
  print(out, runs, columns, eligible, terminal);
}

} // namespace

void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal) {
  // Who turns requests away is not compared with who serves them all, while there is any.
  std::vector<bool> eligible;
  for (const run_result& r : runs) eligible.push_back(r.finished == r.submitted);
  const bool any = std::find(eligible.begin(), eligible.end(), true) != eligible.end();
  if (!any) eligible.assign(runs.size(), true);

  print_workload(out, from, facts);
  print_overall(out, from, runs, eligible, terminal);
  for (std::size_t m = 0; from.mix.size() > 1 && m < from.mix.size(); ++m) {
    std::vector<latency_summary> summaries;
    for (const run_result& r : runs) summaries.push_back(summarize(r.per_model[m].latencies));
    out << fmt::format("\n{}, weight {:g}\n", from.mix[m].name, from.mix[m].weight);
    print(out, runs, latency_columns(summaries), eligible, terminal);
  }
  if (runs.size() > 1)
    out << (any ? "\n* best of those that served every request\n" : "\n* best\n");
}

} // namespace serve_mix
