// SPDX-License-Identifier: Apache-2.0
#include "plan/totals.hpp"

#include "plan/plan_facts.hpp"

#include <algorithm>
#include <cstdint>

namespace plan {

namespace {

bool is_common(const options& o, const answers& all, std::size_t scenario) {
  for (std::size_t p = 0; p < o.planners.size(); ++p)
    if (!answer_of(o, all, scenario, p).plan) return false;
  return true;
}

std::optional<double> mean(std::uint64_t sum, std::size_t n) {
  if (n == 0) return std::nullopt;
  return static_cast<double>(sum) / static_cast<double>(n);
}

} // namespace

const answer& answer_of(const options& o, const answers& all, std::size_t scenario,
                        std::size_t planner) {
  return all[scenario * o.planners.size() + planner];
}

total total_of(const options& o, const answers& all, std::size_t planner) {
  total t;
  std::uint64_t sms = 0, sms_of_common = 0;
  std::size_t common = 0;
  if (o.law) {
    t.holds = 0;
    t.holds_longer = 0;
    t.worst_beside = 0;
  }
  for (std::size_t s = 0; s < o.scenarios.size(); ++s) {
    const answer& a = answer_of(o, all, s, planner);
    t.took.push_back(a.took);
    t.impossible += a.is_proven_impossible ? 1 : 0;
    if (!a.plan) continue;
    ++t.schedulable;
    t.sharing += shares_sms(*a.plan) ? 1u : 0u;
    const std::uint64_t n = sms_of(*a.plan);
    sms += n;
    if (is_common(o, all, s)) {
      sms_of_common += n;
      ++common;
    }
    const question q = question_of(o, s);
    const bool informed = o.planners[planner].with_interference;
    t.worst = std::max(t.worst, worst_of(*a.plan, q, informed ? q.beside : std::nullopt));
    if (!o.law) continue;
    if (a.holds.value_or(false)) ++*t.holds;
    if (a.holds_longer.value_or(false)) ++*t.holds_longer;
    t.worst_beside = std::max(*t.worst_beside, worst_of(*a.plan, q, q.beside));
  }
  t.sms = mean(sms, t.schedulable);
  t.sms_of_common = mean(sms_of_common, common);
  std::sort(t.took.begin(), t.took.end());
  return t;
}

std::size_t common_of(const options& o, const answers& all) {
  std::size_t n = 0;
  for (std::size_t s = 0; s < o.scenarios.size(); ++s)
    if (is_common(o, all, s)) ++n;
  return n;
}

} // namespace plan
