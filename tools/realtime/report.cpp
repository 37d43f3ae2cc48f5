// SPDX-License-Identifier: Apache-2.0
#include "realtime/report.hpp"

#include "realtime/configuration.hpp"
#include "realtime/workload_json.hpp"

#include "common/report/json.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace realtime {

namespace {

using gsched::duration;

json or_null(const std::optional<double>& x) { return x ? json(rounded(*x)) : json(); }

/// One summary over that of another run; none where there is no such run.
std::optional<double> over(double mine, const std::optional<double>& other) {
  return other && *other > 0 ? std::optional(mine / *other) : std::nullopt;
}

json timed_json(const timed& t) {
  return {{"count", t.count}, {"latency_us", {{"p50", us(t.p50)}, {"p99", us(t.p99)}}}};
}

json client_json(const client_spec& client, const client_result& c, const client_facts& f,
                 duration window) {
  const double mean = us(summarize(c.latencies).mean);
  return {{"name", client.name},
          {"class", client.real_time() ? "real_time" : "best_effort"},
          {"model", client.model},
          {"submitted", c.submitted},
          {"finished", c.finished},
          {"rejected", c.rejected},
          {"over_limit", c.over_limit},
          {"cancelled", c.cancelled},
          {"failed", c.failed},
          {"lost", c.lost()},
          {"finished_in_window", c.in_window},
          {"solo_us", us(f.solo)},
          {"solo_per_s", rounded(f.per_s)},
          {"normalised_latency", rounded(mean / us(f.solo))},
          {"normalised_throughput", rounded(throughput_of(c, f, window))},
          {"latency_us", latency_json(c.latencies)}};
}

json run_json(const options& from, const workload_facts& facts, std::span<const run_result> runs,
              const run_result& r) {
  const run_summary s = summarise(from, facts, r);
  std::optional<double> alone_us, seq;
  if (const run_result* other = find(runs, mode::rt_only))
    alone_us = us(summarize(summarise(from, facts, *other).latencies).mean);
  if (const run_result* other = find(runs, mode::seq))
    seq = summarise(from, facts, *other).throughput;
  json clients = json::array();
  for (std::size_t i = 0; i < r.clients.size(); ++i)
    if (r.clients[i].submitted > 0 || r.how != mode::rt_only || from.work.clients[i].real_time())
      clients.push_back(
          client_json(from.work.clients[i], r.clients[i], facts.clients[i], r.window));
  return {{"mode", name_of(r.how)},
          {"device", from.device},
          {"workload", from.work.name},
          {"window_us", us(r.window)},
          {"rt",
           {{"requests", s.latencies.size()},
            {"latency_us", latency_json(s.latencies)},
            {"normalised_latency", rounded(s.normalised_latency)},
            {"slowdown_vs_rt_only", or_null(over(us(summarize(s.latencies).mean), alone_us))}}},
          {"be",
           {{"finished", s.best_effort_finished},
            {"per_s", rounded(s.best_effort_per_s)},
            {"work_done_share", or_null(s.work_done)}}},
          {"throughput",
           {{"normalised", rounded(s.throughput)},
            {"real_time", rounded(s.real_time_throughput)},
            {"vs_seq", or_null(over(s.throughput, seq))}}},
          {"preemptions", timed_json(r.preemptions)},
          {"restores", timed_json(r.restores)},
          {"starvations", r.starvations},
          {"longest_wait_us", us(r.longest_wait)},
          {"preempted_segments", r.preempted_segments},
          {"undone_operations", r.undone_operations},
          {"side_segments", r.side_segments},
          {"reserve", {{"segments", r.reserved_segments}, {"sms", r.reserved}}},
          {"padding",
           {{"programs", r.padded_programs},
            {"segments", r.padded_segments},
            {"operations", r.carried_operations},
            {"carried_us", us(r.carried)},
            {"alone_us", us(r.padded_alone)},
            {"took_us", us(r.padded_took)}}},
          {"rerun_blocks", r.rerun_blocks ? json(*r.rerun_blocks) : json()},
          {"lost", s.lost},
          {"clients", std::move(clients)},
          {"wall_s", r.wall_s}};
}

const char* name_of(gsched::preemptibility l) {
  switch (l) {
  case gsched::preemptibility::never: return "never";
  case gsched::preemptibility::between_blocks: return "between_blocks";
  case gsched::preemptibility::at_checkpoints: break;
  }
  return "at_checkpoints";
}

const char* name_of(gsched::level_rule r) {
  return r == gsched::level_rule::own ? "own" : "needed";
}

json sizes_json(const std::vector<gsched::sm_count>& sizes) {
  json all = json::array();
  for (const gsched::sm_count s : sizes) all.push_back(s.count());
  return all;
}

json scheduling_json(const options& from) {
  json s{{"lanes", from.lanes},
         {"real_time_lanes", from.real_time_lanes},
         {"quantum_us", us(from.quantum)},
         {"most_quantum_us", us(from.most_quantum)},
         {"overshoot", rounded(from.overshoot)},
         {"floor", rounded(from.floor)},
         {"tolerance", rounded(from.tolerance)},
         {"side_sms", sizes_json(from.side)},
         {"reserve_sms", sizes_json(from.reserve)},
         {"reserve_fixed", from.reserve_fixed},
         {"long_operation_us", us(from.long_operation)},
         {"reserve_slow_down", rounded(from.reserve_slow_down)},
         {"reserve_tail", rounded(from.reserve_tail)},
         {"reserve_share", rounded(from.reserve_share)},
         {"pad", from.pad ? json(name_of(*from.pad)) : json()},
         {"pad_places", from.pad_places},
         {"pad_slow_down", from.pad_slow_down ? json(rounded(*from.pad_slow_down)) : json()}};
  for (const mode m : {mode::preempt, mode::preempt_pad})
    s["leaves"][realtime::name_of(m)] = name_of(leaving_of(m, from));
  s["queues"] = from.queues ? json(*from.queues) : json();
  return s;
}

} // namespace

void write_json(std::ostream& out, const options& from, const workload_facts& facts,
                std::span<const run_result> runs) {
  json clients = json::array();
  for (const client_spec& c : from.work.clients) clients.push_back(client_to_json(c));
  json document{{"device", from.device},
                {"seed", from.seed},
                {"workload",
                 {{"name", from.work.name},
                  {"about", from.work.about},
                  {"clients", std::move(clients)},
                  {"seconds", from.length ? json(rounded(gsched::to_s(*from.length))) : json()},
                  {"requests", from.requests ? json(*from.requests) : json()}}},
                {"scheduling", scheduling_json(from)}};
  if (!facts.device_name.empty()) document["device_name"] = facts.device_name;
  json list = json::array();
  for (const run_result& r : runs) list.push_back(run_json(from, facts, runs, r));
  document["runs"] = std::move(list);
  out << document.dump(2, ' ', true, json::error_handler_t::replace) << '\n';
}

} // namespace realtime
