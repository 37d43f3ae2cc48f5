// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/report.hpp"

#include "common/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <ratio>
#include <utility>

namespace serve_mix {

namespace {

using gsched::duration;

void print(std::ostream& out, std::span<const run_result> runs, const std::vector<column>& columns,
           const std::vector<bool>& eligible, bool terminal) {
  std::vector<std::string> names;
  for (const run_result& r : runs) names.push_back(r.policy);
  common::print(out, "policy", names, columns, eligible, terminal);
}

column count_column(const char* head, std::span<const run_result> runs,
                    std::uint64_t run_result::*field) {
  column c{head, {}};
  for (const run_result& r : runs) c.values.push_back(static_cast<double>(r.*field));
  return c;
}

void print_workload(std::ostream& out, const options& from, const workload_facts& facts,
                    std::span<const run_result> runs) {
  out << fmt::format("{}: {} requests of {} clients, {} arrivals", from.device, requests_of(runs),
                     from.clients, from.arrivals.text);
  if (facts.rate_per_s) out << fmt::format(", {:.1f} a second", *facts.rate_per_s);
  if (facts.load) out << fmt::format(", load {:.2f}", *facts.load);
  if (from.slo && from.slo->of_solo)
    out << ", deadlines " << from.slo->text << " of the time alone";
  else if (from.slo)
    out << fmt::format(", deadline {:g} ms",
                       std::chrono::duration<double, std::milli>(from.slo->time).count());
  if (from.draws()) out << fmt::format(", seed {}", from.seed);
  out << '\n';
}

void print_overall(std::ostream& out, const options& from, std::span<const run_result> runs,
                   const std::vector<bool>& eligible, bool terminal) {
  std::vector<column> columns{count_column("finished", runs, &run_result::finished)};
  for (const auto& [head, field] : {std::pair("rejected", &run_result::rejected),
                                    {"over limit", &run_result::over_limit},
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

  print_workload(out, from, facts, runs);
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
