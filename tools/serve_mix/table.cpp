// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/report.hpp"

#include "common/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <ostream>
#include <ratio>
#include <string>
#include <utility>

namespace serve_mix {

namespace {

using gsched::duration;

void print(std::ostream& out, std::span<const run_result> runs, const std::vector<column>& columns,
           const std::vector<bool>& eligible, bool terminal) {
  std::vector<std::string> names;
  for (const run_result& r : runs) names.push_back(r.label());
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

/// Mean and 99th percentile of each policy over those of `direct`, of all requests and by model,
/// for the eligible policies; nothing where direct was not run, or not all of its requests
/// finished.
void print_over_direct(std::ostream& out, const options& from, std::span<const run_result> runs,
                       const std::vector<bool>& eligible, bool terminal) {
  const auto direct = std::find_if(runs.begin(), runs.end(),
                                   [](const run_result& r) { return r.policy == "direct"; });
  if (direct == runs.end() || runs.size() < 2 || direct->finished < direct->submitted) return;
  std::vector<column> columns;
  const auto add = [&](const std::string& of, const auto& latencies_of) {
    const latency_summary base = summarize(latencies_of(*direct));
    column mean{of + " mean", {}, best::least, "{:.2f}"}, p99{"p99", {}, best::least, "{:.2f}"};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const latency_summary s = summarize(latencies_of(runs[i]));
      const auto over = [&](duration a, duration b) {
        return eligible[i] && b > duration::zero()
                   ? static_cast<double>(a.count()) / static_cast<double>(b.count())
                   : std::numeric_limits<double>::quiet_NaN();
      };
      mean.values.push_back(over(s.mean, base.mean));
      p99.values.push_back(over(s.p99, base.p99));
    }
    columns.push_back(std::move(mean));
    columns.push_back(std::move(p99));
  };
  add("all:", [](const run_result& r) { return r.latencies; });
  for (std::size_t m = 0; from.mix.size() > 1 && m < from.mix.size(); ++m)
    add(from.mix[m].name + ":", [m](const run_result& r) { return r.per_model[m].latencies; });
  out << "\nLatency over that of direct, the GPU without a scheduler (less is better; -: some "
         "requests rejected)\n";
  print(out, runs, columns, eligible, terminal);
}

std::string named(const found_slowdowns& f) {
  return std::filesystem::path(f.from).filename().string();
}
std::string described(const found_slowdowns& f) {
  if (f.from == "predicted") return "predicted from the kernels' counters";
  if (f.from == "measured") return "measured on this device before the runs";
  return f.from;
}

/// What the rule is made of.
void print_slowdowns(std::ostream& out, const options& from, const workload_facts& facts) {
  const found_slowdowns& first = facts.slowdowns.front();
  out << fmt::format("slow-downs side by side ({}), kept apart beyond {:g}\n", described(first),
                     *from.slow_down_limit);
  for (std::size_t i = 0; i < first.by.size(); ++i) {
    for (std::size_t j = 0; j < first.by.size(); ++j) {
      const auto by = first.by[i][j];
      out << fmt::format("  {} beside {}: {}", from.mix[i].name, from.mix[j].name,
                         by ? fmt::format("{:.2f}", *by) : "not known, allowed");
      if (by && *by > *from.slow_down_limit) out << ", apart";
      for (std::size_t k = 1; k < facts.slowdowns.size(); ++k)
        if (const auto other = facts.slowdowns[k].by[i][j])
          out << fmt::format("; {} {:.2f}", named(facts.slowdowns[k]), *other);
      if (!first.beyond.empty() && !first.beyond[i][j].empty())
        out << "; extrapolated: more " << first.beyond[i][j] << " than the fit has seen";
      out << '\n';
    }
  }
  for (std::size_t k = 1; k < facts.slowdowns.size(); ++k) {
    const agreement a = agreement_of(first, facts.slowdowns[k], *from.slow_down_limit);
    out << fmt::format("  {} and {} decide {} of {} pairs alike\n", named(first),
                       named(facts.slowdowns[k]), a.alike, a.pairs);
  }
}

/// Each policy with the rule over the same policy without it.
void print_apart(std::ostream& out, const options& from, std::span<const run_result> runs,
                 bool terminal) {
  std::vector<std::string> names;
  std::vector<column> columns{{"req/s", {}, best::none, "{:.3f}"}};
  for (const mix_entry& m : from.mix) {
    columns.push_back({m.name + ": p50", {}, best::none, "{:.2f}"});
    columns.push_back({"p99", {}, best::none, "{:.2f}"});
  }
  columns.push_back({"refused", {}, best::none, "{:.0f}"});
  columns.push_back({"claims", {}, best::none, "{:.0f}"});
  columns.push_back({"longest wait ms", {}, best::none, "{:.2f}"});
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const run_result& with = runs[i];
    const run_result& without = runs[i - 1];
    if (!with.apart) continue;
    names.push_back(with.policy);
    const auto over = [](double a, double b) {
      return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN();
    };
    std::vector<double> row{over(with.throughput_per_s(), without.throughput_per_s())};
    for (std::size_t m = 0; m < from.mix.size(); ++m) {
      const latency_summary a = summarize(with.per_model[m].latencies);
      const latency_summary b = summarize(without.per_model[m].latencies);
      row.push_back(over(gsched::to_us(a.p50), gsched::to_us(b.p50)));
      row.push_back(over(gsched::to_us(a.p99), gsched::to_us(b.p99)));
    }
    row.push_back(static_cast<double>(with.neighbours.refused));
    row.push_back(static_cast<double>(with.neighbours.claims));
    row.push_back(gsched::to_us(with.neighbours.longest_wait) / 1e3);
    for (std::size_t c = 0; c < columns.size(); ++c) columns[c].values.push_back(row[c]);
  }
  out << "\nKept apart over not: throughput and latency of the same policy (less is better, except "
         "req/s)\n";
  common::print(out, "policy", names, columns, std::vector<bool>(names.size(), true), terminal);
}

} // namespace

void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal) {
  // A policy that rejects requests is not compared with those that serve all, if there are any.
  std::vector<bool> eligible;
  for (const run_result& r : runs) eligible.push_back(r.finished == r.submitted);
  const bool any = std::find(eligible.begin(), eligible.end(), true) != eligible.end();
  if (!any) eligible.assign(runs.size(), true);

  print_workload(out, from, facts, runs);
  if (from.slow_down_limit) print_slowdowns(out, from, facts);
  print_overall(out, from, runs, eligible, terminal);
  for (std::size_t m = 0; from.mix.size() > 1 && m < from.mix.size(); ++m) {
    std::vector<latency_summary> summaries;
    for (const run_result& r : runs) summaries.push_back(summarize(r.per_model[m].latencies));
    out << fmt::format("\n{}, weight {:g}\n", from.mix[m].name, from.mix[m].weight);
    print(out, runs, latency_columns(summaries), eligible, terminal);
  }
  if (from.slow_down_limit) print_apart(out, from, runs, terminal);
  if (from.all_policies) print_over_direct(out, from, runs, eligible, terminal);
  if (runs.size() > 1)
    out << (any ? "\n* best of those that served every request\n" : "\n* best\n");
}

} // namespace serve_mix
