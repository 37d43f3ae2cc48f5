// SPDX-License-Identifier: Apache-2.0
#include "plan/report.hpp"

#include "parts/json.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>

namespace plan {

namespace {

using namespace gsched;
using parts::json;
using parts::rounded;
using parts::us;

struct total {
  std::size_t schedulable = 0;
  std::size_t impossible = 0; ///< proven to be
  double sms = 0;             ///< mean of those that have a plan
  double worst = 0;
  std::vector<duration> took; ///< rising
};

total total_of(const options& o, const answers& all, std::size_t planner) {
  total t;
  for (std::size_t s = 0; s < o.scenarios.size(); ++s) {
    const answer& a = all[s * o.planners.size() + planner];
    t.took.push_back(a.took);
    t.impossible += a.is_proven_impossible ? 1 : 0;
    if (!a.plan) continue;
    ++t.schedulable;
    t.sms += static_cast<double>(sms_of(*a.plan));
    t.worst = std::max(t.worst, worst_of(*a.plan, *o.table, o.scenarios[s]));
  }
  if (t.schedulable > 0) t.sms /= static_cast<double>(t.schedulable);
  std::sort(t.took.begin(), t.took.end());
  return t;
}

json demands_json(const options& o, std::size_t scenario) {
  json d = json::object();
  for (const demand& of : o.scenarios[scenario])
    d[o.table->name(of.model)] = {{"rate", of.rate}, {"slo_us", us(of.slo)}};
  return d;
}

const char* verdict_of(const answer& a) {
  return a.plan ? "plan" : a.is_proven_impossible ? "impossible" : "none found";
}

json head_json(const options& o) {
  return {{"table", o.table_name},
          {"gpus", o.gpus.size()},
          {"sms", o.gpus.empty() ? 0 : o.gpus[0].sms.count()},
          {"group", o.gpus.empty() ? 0 : o.gpus[0].group.count()}};
}

} // namespace

void print(std::ostream& out, const options& o, const answers& all) {
  if (o.scenarios.size() == 1)
    for (std::size_t p = 0; p < o.planners.size(); ++p) {
      fmt::print(out, "{}\n", o.planners[p]);
      if (!all[p].plan) {
        const double most = max_scale(o.planners[p], *o.table, o.scenarios[0], o.gpus);
        fmt::print(out, "  no plan: expected at most {:.3f} times these rates\n", most);
        if (all[p].is_proven_impossible) fmt::print(out, "  there is none\n");
        if (all[p].bound)
          fmt::print(out, "  nor is there one for more than {:.3f} times these\n", *all[p].bound);
        continue;
      }
      for (const gpulet& g : all[p].plan->gpulets) {
        fmt::print(out, "  GPU {:<3}{:>4} SMs  every {:>9.1f} us ", g.gpu, g.sms.count(),
                   to_us(g.cycle));
        for (const portion& s : g.portions)
          fmt::print(out, "  {} {:.1f}/s in {}", o.table->name(s.model), s.rate, s.batch);
        fmt::print(out, "\n");
      }
    }
  fmt::print(out, "{:<13}{:>12}{:>8}{:>12}{:>11}{:>20}{:>13}{:>10}\n", "planner", "schedulable", "",
             "impossible", "SMs, mean", "worst latency/SLO", "planned, p50", "most, us");
  for (std::size_t p = 0; p < o.planners.size(); ++p) {
    const total t = total_of(o, all, p);
    fmt::print(out, "{:<13}{:>12} of{:>5}{:>12}{:>11.1f}{:>20.3f}{:>13.1f}{:>10.1f}\n",
               o.planners[p], t.schedulable, o.scenarios.size(), t.impossible, t.sms, t.worst,
               to_us(t.took[t.took.size() / 2]), to_us(t.took.back()));
  }
}

void write_json(std::ostream& out, const options& o, const answers& all) {
  json j = head_json(o);
  json& runs = j["runs"] = json::array();
  for (std::size_t s = 0; s < o.scenarios.size(); ++s)
    for (std::size_t p = 0; p < o.planners.size(); ++p) {
      const answer& a = all[s * o.planners.size() + p];
      json r{{"scenario", demands_json(o, s)},
             {"planner", o.planners[p]},
             {"schedulable", a.plan.has_value()},
             {"verdict", verdict_of(a)},
             {"bound", a.bound ? json(rounded(*a.bound)) : json(nullptr)},
             {"plan", json::array()},
             {"sms_used", 0},
             {"worst_latency_over_slo", nullptr},
             {"planning_us", us(a.took)}};
      if (a.plan) {
        for (const gpulet& g : a.plan->gpulets) {
          json portions = json::array();
          for (const portion& q : g.portions)
            portions.push_back(
                {{"model", o.table->name(q.model)}, {"rate", rounded(q.rate)}, {"batch", q.batch}});
          r["plan"].push_back({{"gpu", g.gpu},
                               {"sms", g.sms.count()},
                               {"cycle_us", us(g.cycle)},
                               {"portions", std::move(portions)}});
        }
        r["sms_used"] = sms_of(*a.plan);
        r["worst_latency_over_slo"] = rounded(worst_of(*a.plan, *o.table, o.scenarios[s]));
      }
      runs.push_back(std::move(r));
    }
  json& totals = j["totals"] = json::array();
  for (std::size_t p = 0; p < o.planners.size(); ++p) {
    const total t = total_of(o, all, p);
    totals.push_back(
        {{"planner", o.planners[p]},
         {"scenarios", o.scenarios.size()},
         {"schedulable", t.schedulable},
         {"impossible", t.impossible},
         {"sms_used_mean", rounded(t.sms)},
         {"worst_latency_over_slo", rounded(t.worst)},
         {"planning_us", {{"p50", us(t.took[t.took.size() / 2])}, {"max", us(t.took.back())}}}});
  }
  out << j.dump(1) << '\n';
}

void print_scales(std::ostream& out, const options& o, const std::vector<double>& scales) {
  for (std::size_t s = 0; s < o.scenarios.size(); ++s)
    for (std::size_t p = 0; p < o.planners.size(); ++p) {
      fmt::print(out, "{:<13}{:>10.3f} times", o.planners[p], scales[s * o.planners.size() + p]);
      for (const demand& d : o.scenarios[s])
        if (d.rate > 0) fmt::print(out, "  {} {:.1f}/s", o.table->name(d.model), d.rate);
      fmt::print(out, "\n");
    }
}

void write_scales_json(std::ostream& out, const options& o, const std::vector<double>& scales) {
  json j = head_json(o);
  json& runs = j["runs"] = json::array();
  for (std::size_t s = 0; s < o.scenarios.size(); ++s)
    for (std::size_t p = 0; p < o.planners.size(); ++p)
      runs.push_back({{"scenario", demands_json(o, s)},
                      {"planner", o.planners[p]},
                      {"max_scale", rounded(scales[s * o.planners.size() + p])}});
  out << j.dump(1) << '\n';
}

} // namespace plan
