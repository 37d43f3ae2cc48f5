// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include "field_checks.hpp"
#include "refusal.hpp"

#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/policy/names.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gsched::abi {

namespace {

/// As gsched_server_options says: programs that do not schedule, and submit whole graphs.
constexpr std::string_view whole_graphs[] = {"direct", "single"};

[[nodiscard]] bool submits_whole_graphs(const gsched_server_options& o) {
  return std::find(std::begin(whole_graphs), std::end(whole_graphs), std::string_view(o.policy)) !=
         std::end(whole_graphs);
}

[[nodiscard]] std::string known_policy(const gsched_server_options& o) {
  refuse_unless(o.policy != nullptr, "policy", "a name, not NULL");
  const std::string name = o.policy;
  if (submits_whole_graphs(o)) return std::string(fifo::name);
  constexpr auto& known = decltype(policy_list{selectable_policies{}})::names;
  if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  if (name.find(':') == name.npos)
    throw refusal(GSCHED_BAD_ARGUMENT,
                  "policy '" + name + "': unknown, expected one of " + policy_names());
  static_cast<void>(make_policy(name)); // refuses all but a factor of one that has it
  return name;
}

/// Nothing is held back: whatever arrives is submitted, whole.
void submit_everything(settings& s, std::uint32_t lanes, lane_use use) {
  hold_nothing_back(s.dispatch, use, lanes);
  s.account.overshoot_fill = 1e6;
  s.grain = run_to_completion;
  s.levels = 1;
}

void read_preemption(preemption_options& p, const gsched_server_options& o) {
  refuse_unless(o.real_time_lanes <= 64, "real_time_lanes", "at most 64");
  refuse_unless(o.yields <= 1, "yields", "0 or 1");
  refuse_unless(o.floor >= 0 && o.floor < 1, "floor", "0 to below 1");
  refuse_unless(o.tolerance >= 0 && o.tolerance <= 100, "tolerance", "0 to 100");
  p.real_time_lanes = o.real_time_lanes;
  p.yields = o.yields != 0;
  p.floor = o.floor;
  p.tolerance = o.tolerance;
  for (const std::uint32_t sms : o.side_sms)
    if (sms != 0) p.side.push_back(sm_count{sms});
  refuse_unless(o.reserve_fixed <= 1, "reserve_fixed", "0 or 1");
  refuse_unless(o.one_long <= 1, "one_long", "0 or 1");
  refuse_unless(o.reserve_slow_down >= 0 && o.reserve_slow_down <= 100, "reserve_slow_down",
                "0 to 100");
  refuse_unless(o.reserve_tail >= 0 && o.reserve_tail <= 100, "reserve_tail", "0 to 100");
  refuse_unless(o.reserve_share >= 0 && o.reserve_share <= 1, "reserve_share", "0 to 1");
  for (const std::uint32_t sms : o.reserve_sms) {
    if (sms == 0) continue;
    refuse_unless(p.reserve.empty() || p.reserve[p.reserve.size() - 1] < sm_count{sms},
                  "reserve_sms", "numbers of SMs that rise");
    p.reserve.push_back(sm_count{sms});
  }
  refuse_unless(p.reserve.empty() || p.real_time_lanes > 0, "reserve_sms",
                "real_time_lanes of at least 1 with them");
  p.reserve_learns = o.reserve_fixed == 0;
  p.one_long = o.one_long != 0;
  p.long_operation = time_of("long_kernel_us", o.long_kernel_us, 1, 1e9);
  p.reserve_slow_down = o.reserve_slow_down;
  p.reserve_tail = o.reserve_tail;
  p.reserve_share = o.reserve_share;
}

/// Which models do not run side by side.
void read_slow_downs(settings& s, const gsched_server_options& o) {
  s.dispatch.corun.most_wait = time_of("apart_wait_us", o.apart_wait_us, 0, 1e9);
  refuse_unless(o.unknown_apart <= 1, "unknown_apart", "0 or 1");
  if (o.slow_downs_count == 0) {
    refuse_unless(o.slow_down_limit == 0, "slow_down_limit", "0 without slow_downs");
    refuse_unless(o.unknown_apart == 0, "unknown_apart", "0 without slow_downs");
    refuse_unless(o.slow_down_limits_count == 0, "slow_down_limits", "none without slow_downs");
    return;
  }
  refuse_unless(o.slow_downs != nullptr, "slow_downs", "slow_downs_count of them, not NULL");
  refuse_unless(!submits_whole_graphs(o), "slow_downs", "none with direct or single");
  const bool all_have_one = o.slow_down_limit != 0;
  refuse_unless(o.slow_down_limit >= 1 || (!all_have_one && o.slow_down_limits_count > 0),
                "slow_down_limit", "at least 1 with slow_downs, or 0 and slow_down_limits");
  std::map<std::string, double> own;
  for (std::uint32_t i = 0; i < o.slow_down_limits_count; ++i) {
    refuse_unless(o.slow_down_limits != nullptr, "slow_down_limits",
                  "slow_down_limits_count of them, not NULL");
    const gsched_slow_down_limit& each = o.slow_down_limits[i];
    refuse_unless(each.model != nullptr, "slow_down_limits", "names of models, not NULL");
    refuse_unless(each.most >= 1, "slow_down_limits", "at least 1 each");
    refuse_unless(own.emplace(each.model, each.most).second, "slow_down_limits", "each model once");
  }
  refuse_unless(o.reserved == 0, "reserved", "0");
  std::set<std::string> names;
  for (const auto& [name, most] : own) names.insert(name);
  std::vector<corun_slowdown> pairs;
  for (std::uint32_t i = 0; i < o.slow_downs_count; ++i) {
    const gsched_slow_down& each = o.slow_downs[i];
    refuse_unless(each.model != nullptr && each.beside != nullptr, "slow_downs",
                  "names of models, not NULL");
    pairs.push_back({each.model, each.beside, each.by});
    names.insert(each.model);
    names.insert(each.beside);
  }
  std::vector<corun_limit> limits;
  for (const std::string& name : names) {
    const auto its = own.find(name);
    limits.push_back({name, its != own.end() ? its->second
                            : all_have_one   ? o.slow_down_limit
                                             : corun_limit::none});
  }
  s.dispatch.corun.rule = std::make_shared<const corun_rule>(
      limits, pairs, o.unknown_apart != 0 ? unknown_pairs::refused : unknown_pairs::allowed);
}

} // namespace

gsched_server_options default_options() noexcept {
  const dispatch_options d;
  gsched_server_options o{};
  o.size = sizeof o;
  o.policy = "boost";
  o.lanes = d.lanes;
  o.spare_lanes = std::numeric_limits<std::uint32_t>::max();
  o.segments_per_job = d.segments_per_job;
  o.quantum_us = to_us(d.quantum);
  o.most_quantum_us = to_us(d.most_quantum);
  o.overshoot = accountant_options{}.overshoot_fill;
  o.threshold_us = to_us(deficit_over<srpt>::default_threshold);
  o.spin_us = 50.0;
  o.max_jobs = 65536;
  o.watchdog_ms = 10000;
  o.yields = d.preemption.yields ? 1 : 0;
  o.floor = d.preemption.floor;
  o.tolerance = d.preemption.tolerance;
  o.lease_us = 20000;
  o.long_kernel_us = to_us(d.preemption.long_operation);
  o.reserve_slow_down = d.preemption.reserve_slow_down;
  o.reserve_tail = d.preemption.reserve_tail;
  o.reserve_share = d.preemption.reserve_share;
  o.slice_us = to_us(round_robin::default_slice);
  o.apart_wait_us = to_us(d.corun.most_wait);
  return o;
}

const std::string& policy_names() {
  static const std::string all = [] {
    std::string names;
    for (const std::string_view each : policy_list{selectable_policies{}}.names)
      names.append(each).append(" ");
    return names + "direct single";
  }();
  return all;
}

settings settings_of(const gsched_server_options& o) {
  constexpr double most_us = 1e9;
  settings s;
  s.policy = known_policy(o);
  refuse_unless(o.gpu >= 0, "gpu", "0 or more");
  refuse_unless(o.lanes >= 1 && o.lanes <= 128, "lanes", "1 to 128");
  const bool chosen = o.spare_lanes != std::numeric_limits<std::uint32_t>::max();
  refuse_unless(!chosen || o.spare_lanes <= 128 - o.lanes, "spare_lanes", "128 at most with lanes");
  refuse_unless(!chosen || o.spare_lanes == 0 ||
                    (o.real_time_lanes == 0 && !submits_whole_graphs(o)),
                "spare_lanes", "0 with real_time_lanes, direct or single");
  refuse_unless(o.segments_per_job >= 1, "segments_per_job", "at least 1");
  refuse_unless(o.overshoot >= 0 && o.overshoot <= 1e6, "overshoot", "0 to 1e6");
  refuse_unless(o.max_jobs >= 1, "max_jobs", "at least 1");
  refuse_unless(o.watchdog_ms >= 1, "watchdog_ms", "at least 1");
  refuse_unless(o.instrumented <= 1, "instrumented", "0 or 1");
  refuse_unless(o.time_driver <= 1, "time_driver", "0 or 1");
  s.gpu = o.gpu;
  s.time_driver = o.time_driver != 0;
  s.dispatch.lanes = o.lanes;
  if (chosen) s.dispatch.spare_lanes = o.spare_lanes;
  s.dispatch.segments_per_job = o.segments_per_job;
  s.dispatch.quantum = time_of("quantum_us", o.quantum_us, 1, most_us);
  s.dispatch.most_quantum =
      std::max(s.dispatch.quantum, time_of("most_quantum_us", o.most_quantum_us, 0, most_us));
  const duration low = time_of("low_mark_us", o.low_mark_us, 0, most_us);
  const duration high = time_of("high_mark_us", o.high_mark_us, 0, most_us);
  if (low > duration::zero()) s.dispatch.low_mark = low;
  if (high > duration::zero())
    s.dispatch.high_mark = high;
  else
    s.dispatch.high_mark = std::max(s.dispatch.high_mark, s.dispatch.low_mark);
  s.dispatch.instrumented = o.instrumented != 0;
  s.dispatch.max_jobs = o.max_jobs;
  s.account.overshoot_fill = o.overshoot;
  read_preemption(s.dispatch.preemption, o);
  read_slow_downs(s, o);
  s.threshold = time_of("threshold_us", o.threshold_us, 0, most_us);
  s.slice = time_of("slice_us", o.slice_us, 0, most_us);
  refuse_unless(s.slice > duration::zero(), "slice_us", "more than 0");
  s.decision_delay = time_of("decision_delay_us", o.decision_delay_us, 0, 1e6);
  s.deadline = time_of("slo_us", o.slo_us, 0, 1e12);
  s.spin = time_of("spin_us", o.spin_us, 0, most_us);
  s.watchdog = std::chrono::milliseconds{o.watchdog_ms};
  // Within this time the watchdog has found what hangs.
  s.longest_hang = 2 * s.watchdog + std::chrono::seconds{3};
  s.dispatch.segment_limit = std::max(s.dispatch.segment_limit, s.longest_hang);
  s.lease = time_of("lease_us", o.lease_us, 100, 16e6); // as the device takes it
  s.grain = s.dispatch.quantum;
  while (s.levels < 8 && s.grain * (1 << (s.levels - 1)) < s.dispatch.most_quantum) ++s.levels;
  if (std::string_view(o.policy) == "direct") submit_everything(s, o.lanes, lane_use::client);
  if (std::string_view(o.policy) == "single") submit_everything(s, 1, lane_use::shared);
  static_cast<void>(s.dispatch.checked());
  return s;
}

} // namespace gsched::abi
