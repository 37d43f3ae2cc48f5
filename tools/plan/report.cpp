// SPDX-License-Identifier: Apache-2.0
#include "plan/report.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <chrono>
#include <ostream>
#include <string>

namespace plan {

namespace {

using gsched::gpulet;
using gsched::portion;
using gsched::to_us;

constexpr std::size_t most_faults = 3; ///< printed

void print_none(std::ostream& out, const answer& a) {
  if (a.suggested)
    fmt::print(out,
               "  no plan: expected at most {:.4g} times these rates (searched for in {:.3f} s)\n",
               *a.suggested, std::chrono::duration<double>(a.suggesting).count());
  else
    fmt::print(out, "  no plan\n");
  if (a.is_proven_impossible) fmt::print(out, "  there is none\n");
  if (a.bound) fmt::print(out, "  nor is there one for more than {:.4g} times these\n", *a.bound);
}

void print_plan(std::ostream& out, const options& o, const gsched::partition_plan& p) {
  for (const gpulet& g : p.gpulets) {
    fmt::print(out, "  GPU {:<3}{:>4} SMs{} every {:>9.1f} us ", g.gpu, g.sms.count(),
               g.region == 0 ? " " : fmt::format(" of region {}", g.region), to_us(g.cycle));
    for (const portion& s : g.portions)
      fmt::print(out, "  {} {:.1f}/s in {}", o.table->name(s.model), s.rate, s.batch);
    fmt::print(out, "\n");
  }
  const question q = question_of(o, 0);
  const auto faults = faults_beside(p, q);
  for (std::size_t i = 0; i < faults.size() && i < most_faults; ++i)
    fmt::print(out, "  does not hold beside others: {}\n", faults[i]);
  if (faults.size() > most_faults) fmt::print(out, "  and {} more\n", faults.size() - most_faults);
  if (!q.beside) return;
  if (const std::string beyond = q.beside->beyond_fit(p); !beyond.empty())
    fmt::print(out, "  extrapolated: beyond what the fit and --solo have seen in {}\n", beyond);
}

} // namespace

void print(std::ostream& out, const options& o, const answers& all) {
  if (o.scenarios.size() == 1)
    for (std::size_t p = 0; p < o.planners.size(); ++p) {
      fmt::print(out, "{}\n", o.planners[p].name());
      if (all[p].plan)
        print_plan(out, o, *all[p].plan);
      else
        print_none(out, all[p]);
    }
  fmt::print(out, "{:<16}{:>11}{:>8}", "planner", "schedulable", "");
  if (o.law) fmt::print(out, "{:>7}{:>11}", "holds", "or slower");
  fmt::print(out, "{:>12}{:>11}{:>19}{:>14}{:>11}\n", "impossible", "SMs, mean",
             "worst latency/SLO", "planned, p50", "most, us");
  for (std::size_t p = 0; p < o.planners.size(); ++p) {
    const total t = total_of(o, all, p);
    fmt::print(out, "{:<16}{:>11} of{:>5}", o.planners[p].name(), t.schedulable,
               o.scenarios.size());
    if (t.holds) fmt::print(out, "{:>7}{:>11}", *t.holds, *t.holds_longer);
    fmt::print(out, "{:>12}{:>11.1f}{:>19.3f}{:>14.1f}{:>11.1f}\n", t.impossible, t.sms.value_or(0),
               t.worst_beside.value_or(t.worst), to_us(t.took[t.took.size() / 2]),
               to_us(t.took.back()));
  }
}

void print_scales(std::ostream& out, const options& o, const std::vector<double>& scales) {
  const auto rates = [&](const scenario& of) {
    for (const auto& [app, rate] : of.rates)
      if (rate > 0) fmt::print(out, "  {} {:.1f}/s", o.apps[app].name, rate);
    fmt::print(out, "\n");
  };
  const std::size_t n = o.planners.size();
  if (o.scenarios.size() == 1) {
    for (std::size_t p = 0; p < n; ++p) {
      fmt::print(out, "{:<18}{:>10.3f} times", o.planners[p].name(), scales[p]);
      rates(o.scenarios[0]);
    }
    return;
  }
  fmt::print(out, "{:<16}", "times");
  for (const planner_choice& p : o.planners) fmt::print(out, "{:>20}", p.name());
  fmt::print(out, "\n");
  for (std::size_t s = 0; s < o.scenarios.size(); ++s) {
    fmt::print(out, "{:<16}", o.scenarios[s].name);
    for (std::size_t p = 0; p < n; ++p) fmt::print(out, "{:>20.3f}", scales[s * n + p]);
    rates(o.scenarios[s]);
  }
}

} // namespace plan
