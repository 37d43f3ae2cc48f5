// SPDX-License-Identifier: Apache-2.0
#include "plan/report.hpp"

#include "plan/plan_facts.hpp"

#include "common/report/json.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace plan {

namespace {

using common::json;
using common::rounded;
using common::us;
using gsched::gpulet;
using gsched::model_demand;
using gsched::portion;

json or_null(const std::optional<double>& x) { return x ? json(rounded(*x)) : json(nullptr); }

template <class T>
json whole_or_null(const std::optional<T>& x) {
  return x ? json(*x) : json(nullptr);
}

/// A run, as far as it is the same for plans and scales.
json run_json(const options& o, std::size_t scenario, std::size_t planner) {
  const plan::scenario& of = o.scenarios[scenario];
  json demands = json::object();
  for (const model_demand& d : of.demands)
    demands[o.table->name(d.model)] = {{"rate", d.rate}, {"slo_us", us(d.slo)}};
  json apps = json::object();
  for (const auto& [app, rate] : of.rates)
    if (app >= o.table->size())
      apps[o.apps[app].name] = {{"rate", rate}, {"slo_us", us(o.apps[app].slo)}};
  return {{"name", of.name.empty() ? json(nullptr) : json(of.name)},
          {"scenario", std::move(demands)},
          {"apps", std::move(apps)},
          {"planner", o.planners[planner].name()}};
}

const char* verdict_of(const answer& a) {
  return a.plan ? "plan" : a.is_proven_impossible ? "impossible" : "none found";
}

json unknown_because(const answer& a) {
  if (!a.is_cut_short) return nullptr;
  return *a.is_cut_short ? "limit" : "no proof";
}

json plan_json(const options& o, const gsched::partition_plan& p) {
  json gpulets = json::array();
  for (const gpulet& g : p.gpulets) {
    json portions = json::array();
    for (const portion& q : g.portions)
      portions.push_back(
          {{"model", o.table->name(q.model)}, {"rate", rounded(q.rate)}, {"batch", q.batch}});
    gpulets.push_back({{"gpu", g.gpu},
                       {"sms", g.sms.count()},
                       {"cycle_us", us(g.cycle)},
                       {"portions", std::move(portions)}});
    if (g.region != 0) gpulets.back()["region"] = g.region;
  }
  return gpulets;
}

json answer_json(const options& o, const answers& all, std::size_t s, std::size_t p) {
  const answer& a = answer_of(o, all, s, p);
  json r = run_json(o, s, p);
  r["schedulable"] = a.plan.has_value();
  r["holds_with_interference"] = whole_or_null(a.holds);
  r["holds_in_longer_cycles"] = whole_or_null(a.holds_longer);
  r["verdict"] = verdict_of(a);
  r["unknown_because"] = unknown_because(a);
  r["bound"] = or_null(a.bound);
  r["plan"] = a.plan ? plan_json(o, *a.plan) : json::array();
  r["sms_used"] = a.plan ? sms_of(*a.plan) : 0;
  std::optional<double> worst, worst_beside;
  std::optional<std::string> beyond;
  if (a.plan) {
    const question q = question_of(o, s);
    worst = worst_of(*a.plan, q, o.planners[p].with_interference ? q.beside : std::nullopt);
    if (q.beside) {
      worst_beside = worst_of(*a.plan, q, q.beside);
      beyond = q.beside->beyond_fit(*a.plan);
    }
  }
  r["beyond_the_fit"] = beyond ? json(*beyond) : json(nullptr);
  r["worst_latency_over_slo"] = or_null(worst);
  r["worst_latency_over_slo_with_interference"] = or_null(worst_beside);
  r["planning_us"] = us(a.took);
  if (a.suggested) {
    r["suggested_scale"] = rounded(*a.suggested);
    r["suggesting_us"] = us(a.suggesting);
  }
  return r;
}

json head_json(const options& o) {
  return {{"table", o.table_name},
          {"interference", o.interference},
          {"gpus", o.gpus.size()},
          {"sms", o.gpus.empty() ? 0 : o.gpus[0].sms.count()},
          {"group", o.gpus.empty() ? 0 : o.gpus[0].group.count()}};
}

json total_json(const options& o, const answers& all, std::size_t planner) {
  const total t = total_of(o, all, planner);
  return {{"planner", o.planners[planner].name()},
          {"scenarios", o.scenarios.size()},
          {"schedulable", t.schedulable},
          {"on_shared_sms", t.sharing},
          {"holds_with_interference", whole_or_null(t.holds)},
          {"holds_in_longer_cycles", whole_or_null(t.holds_longer)},
          {"impossible", t.impossible},
          {"sms_used_mean", or_null(t.sms)},
          {"sms_used_mean_where_all_have_a_plan", or_null(t.sms_of_common)},
          {"worst_latency_over_slo", rounded(t.worst)},
          {"worst_latency_over_slo_with_interference", or_null(t.worst_beside)},
          {"planning_us", {{"p50", us(t.took[t.took.size() / 2])}, {"max", us(t.took.back())}}}};
}

} // namespace

void write_json(std::ostream& out, const options& o, const answers& all) {
  json j = head_json(o);
  json& runs = j["runs"] = json::array();
  for (std::size_t s = 0; s < o.scenarios.size(); ++s)
    for (std::size_t p = 0; p < o.planners.size(); ++p) runs.push_back(answer_json(o, all, s, p));
  json& totals = j["totals"] = json::array();
  for (std::size_t p = 0; p < o.planners.size(); ++p) totals.push_back(total_json(o, all, p));
  j["scenarios_where_all_have_a_plan"] = common_of(o, all);
  out << j.dump(1) << '\n';
}

void write_scales_json(std::ostream& out, const options& o, const std::vector<double>& scales) {
  json j = head_json(o);
  json& runs = j["runs"] = json::array();
  for (std::size_t s = 0; s < o.scenarios.size(); ++s)
    for (std::size_t p = 0; p < o.planners.size(); ++p) {
      runs.push_back(run_json(o, s, p));
      runs.back()["max_scale"] = rounded(scales[s * o.planners.size() + p]);
    }
  out << j.dump(1) << '\n';
}

} // namespace plan
