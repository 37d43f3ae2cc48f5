// SPDX-License-Identifier: Apache-2.0
#include "realtime/report.hpp"

#include "common/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace realtime {

namespace {

using gsched::duration;

double us(duration d) { return static_cast<double>(d.count()) / 1e3; }

/// No value in this mode.
constexpr double none = std::numeric_limits<double>::quiet_NaN();

void print_workload(std::ostream& out, const options& from, const workload_facts& facts) {
  out << fmt::format("{} on {}, seed {}", from.work.name, from.device, from.seed);
  if (from.length) out << fmt::format(", {:g} s", gsched::to_s(*from.length));
  if (from.requests) out << fmt::format(", {} real-time requests", *from.requests);
  out << '\n';
  for (std::size_t i = 0; i < from.work.clients.size(); ++i) {
    const client_spec& c = from.work.clients[i];
    const arrival_spec& a = c.arrivals;
    out << fmt::format("  {}: {}, {}, {:.0f} us alone, ", c.name,
                       c.real_time() ? "real-time" : "best-effort", c.model,
                       us(facts.clients[i].solo));
    const double rate = a.load > 0 ? a.load * facts.clients[i].per_s : a.rate;
    switch (a.law) {
    case arrival_law::uniform: out << fmt::format("every {:.0f} us", 1e6 / rate); break;
    case arrival_law::poisson: out << fmt::format("at random, every {:.0f} us", 1e6 / rate); break;
    case arrival_law::closed:
      out << fmt::format("{} under way", a.under_way);
      if (a.think > duration::zero())
        out << fmt::format(", thinks {:.0f} us{}", us(a.think),
                           a.exponential ? " in the mean" : "");
      break;
    case arrival_law::trace: out << "as in " << a.file; break;
    }
    out << '\n';
  }
}

} // namespace

void write_table(std::ostream& out, const options& from, const workload_facts& facts,
                 std::span<const run_result> runs, bool terminal) {
  std::vector<std::string> names;
  std::vector<bool> eligible; // rt_only serves fewer clients: it is not compared
  std::vector<run_summary> all;
  for (const run_result& r : runs) {
    names.push_back(name_of(r.how));
    eligible.push_back(r.how != mode::rt_only);
    all.push_back(summarise(from, facts, r));
  }
  const run_result* const alone = find(runs, mode::rt_only);
  const double alone_us = alone ? us(summarize(summarise(from, facts, *alone).latencies).mean) : 0;

  std::vector<column> columns;
  const auto add = [&](const char* head, best wanted, const char* format, auto value) {
    column c{head, {}, wanted, format};
    for (std::size_t i = 0; i < runs.size(); ++i) c.values.push_back(value(i));
    const bool any = std::any_of(c.values.begin(), c.values.end(), [](double v) { return v == v; });
    if (any) columns.push_back(std::move(c));
  };
  std::vector<latency_summary> latencies;
  for (const run_summary& s : all) latencies.push_back(summarize(s.latencies));
  add("requests", best::none, "{:.0f}",
      [&](std::size_t i) { return static_cast<double>(all[i].latencies.size()); });
  add("mean us", best::least, "{:.1f}", [&](std::size_t i) { return us(latencies[i].mean); });
  add("p50", best::least, "{:.1f}", [&](std::size_t i) { return us(latencies[i].p50); });
  add("p99", best::least, "{:.1f}", [&](std::size_t i) { return us(latencies[i].p99); });
  add("max", best::least, "{:.1f}", [&](std::size_t i) { return us(latencies[i].max); });
  add("slowdown", best::least, "{:.3f}",
      [&](std::size_t i) { return alone_us > 0 ? us(latencies[i].mean) / alone_us : none; });
  add("be/s", best::most, "{:.1f}", [&](std::size_t i) { return all[i].best_effort_per_s; });
  add("work done %", best::most, "{:.1f}",
      [&](std::size_t i) { return all[i].work_done ? 100 * *all[i].work_done : none; });
  add("throughput", best::most, "{:.3f}", [&](std::size_t i) { return all[i].throughput; });
  add("preempted", best::none, "{:.0f}",
      [&](std::size_t i) { return static_cast<double>(runs[i].preemptions.count); });
  add("gone in us", best::none, "{:.1f}", [&](std::size_t i) {
    return runs[i].preemptions.count ? us(runs[i].preemptions.p50) : none;
  });
  column again{"run again", {}, best::none, "{:.0f}"}; // blocks; "-" where they are not counted
  for (const run_result& r : runs)
    again.values.push_back(r.rerun_blocks ? static_cast<double>(*r.rerun_blocks) : none);
  columns.push_back(std::move(again));
  add("over limit", best::none, "{:.0f}", [&](std::size_t i) {
    return all[i].over_limit > 0 ? static_cast<double>(all[i].over_limit) : none;
  });
  add("lost", best::none, "{:.0f}",
      [&](std::size_t i) { return static_cast<double>(all[i].lost); });

  print_workload(out, from, facts);
  out << '\n';
  print(out, "mode", names, columns, eligible, terminal);
  if (from.work.clients.size() > 2) {
    std::vector<column> each;
    for (std::size_t k = 0; k < from.work.clients.size(); ++k) {
      const bool real_time = from.work.clients[k].real_time();
      column c{from.work.clients[k].name, {}, real_time ? best::least : best::most, "{:.2f}"};
      for (const run_result& r : runs) {
        const client_result& one = r.clients[k];
        c.values.push_back(one.latencies.empty() ? none
                           : real_time
                               ? us(summarize(one.latencies).mean) / us(facts.clients[k].solo)
                               : throughput_of(one, facts.clients[k], r.window));
      }
      each.push_back(std::move(c));
    }
    out << "\nEach client over its model alone: latency of real-time ones, throughput of the "
           "others\n";
    print(out, "mode", names, each, eligible, terminal);
  }
  if (runs.size() > 1) out << "\n* best\n";
}

} // namespace realtime
