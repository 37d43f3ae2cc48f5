// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/report.hpp"

#include "common/report/json.hpp"

#include <gsched/dispatch/options.hpp>

#include <algorithm>
#include <cassert>
#include <ostream>
#include <utility>

namespace serve_mix {

namespace {

using gsched::duration;

json counts_json(std::uint64_t submitted, const std::vector<duration>& latencies) {
  return {{"submitted", submitted},
          {"finished", latencies.size()},
          {"latency_us", latency_json(latencies)}};
}

json run_json(const run_result& r) {
  json models = json::object();
  for (const model_result& m : r.per_model) models[m.name] = counts_json(m.submitted, m.latencies);
  json clients = json::array();
  for (const client_result& c : r.per_client)
    clients.push_back(counts_json(c.submitted, c.latencies));
  json run{{"policy", r.policy},
           {"submitted", r.submitted},
           {"finished", r.finished},
           {"rejected", r.rejected},
           {"over_limit", r.over_limit},
           {"cancelled", r.cancelled},
           {"failed", r.failed},
           {"throughput_per_s", rounded(r.throughput_per_s())},
           {"latency_us", latency_json(r.latencies)},
           {"per_model", std::move(models)},
           {"per_client", std::move(clients)},
           {"gpu_busy_fraction", rounded(r.gpu_busy_fraction)},
           {"operations", r.operations},
           {"decisions", r.decisions}};
  if (r.apart) {
    const gsched::neighbour_statistics& n = r.neighbours;
    run["apart"] = {{"refused", n.refused},
                    {"claims", n.claims},
                    {"unknown", n.unknown},
                    {"waited_us", us(n.waited)},
                    {"longest_wait_us", us(n.longest_wait)}};
  }
  if (r.deadlines_met) run["deadlines_met"] = *r.deadlines_met;
  run["wall_s"] = r.wall_s;
  return run;
}

/// Of each source, the one that decides first.
json slowdowns_json(const options& from, const workload_facts& facts) {
  json all = json::array();
  for (const found_slowdowns& found : facts.slowdowns) {
    json one{{"from", found.from}, {"by", json::object()}};
    for (std::size_t i = 0; i < found.by.size(); ++i)
      for (std::size_t j = 0; j < found.by.size(); ++j) {
        if (const auto by = found.by[i][j])
          one["by"][from.mix[i].name][from.mix[j].name] = rounded(*by);
        if (!found.beyond.empty() && !found.beyond[i][j].empty())
          one["beyond_the_fit"][from.mix[i].name][from.mix[j].name] = found.beyond[i][j];
      }
    if (&found != &facts.slowdowns.front()) {
      const agreement a = agreement_of(facts.slowdowns.front(), found, *from.slow_down_limit);
      one["pairs"] = a.pairs;
      one["alike"] = a.alike;
    }
    all.push_back(std::move(one));
  }
  return all;
}

json workload_json(const options& from, const workload_facts& facts) {
  json mix = json::object();
  for (const mix_entry& m : from.mix) mix[m.name] = m.weight;
  json w{{"mix", std::move(mix)},          {"clients", from.clients},
         {"weights", from.weights},        {"requests", from.requests},
         {"arrivals", from.arrivals.text}, {"mean_solo_us", us(facts.mean_solo)}};
  w["rate_per_s"] = facts.rate_per_s ? json(rounded(*facts.rate_per_s)) : json();
  w["load"] = facts.load ? json(rounded(*facts.load)) : json();
  const bool has_time = from.slo && !from.slo->of_solo;
  w["slo"] = from.slo ? json(from.slo->text) : json();
  w["slo_ms"] = has_time ? json(rounded(us(from.slo->time) / 1e3)) : json();
  json& alone = w["solo_us"] = json::object();
  for (std::size_t m = 0; m < from.mix.size(); ++m) alone[from.mix[m].name] = us(facts.solo[m]);
  if (!facts.slowdowns.empty()) w["slow_downs"] = slowdowns_json(from, facts);
  return w;
}

json scheduling_json(const options& from) {
  gsched::dispatch_options how;
  how.lanes = from.lanes;
  how.spare_lanes = from.spare_lanes;
  json s{{"quantum_us", us(from.quantum)},
         {"most_quantum_us", us(from.most_quantum)},
         {"overshoot", rounded(from.overshoot)},
         {"lanes", from.lanes},
         {"spare_lanes", how.spares(how.most_grids)},
         {"threshold_us", us(from.parameters.threshold)},
         {"slice_us", us(from.parameters.slice)},
         {"decision_delay_us", us(from.decision_delay)},
         {"submission", from.submission == gsched::submission::graph ? "graph" : "launches"}};
  if (from.slow_down_limit) {
    s["slow_down_limit"] = rounded(*from.slow_down_limit);
    s["most_wait_us"] = us(from.most_wait);
  }
  s["queues"] = from.queues ? json(*from.queues) : json();
  return s;
}

} // namespace

run_result::run_result(std::string policy_name, const options& from)
    : policy(std::move(policy_name)), per_client(from.clients) {
  for (const mix_entry& m : from.mix) per_model.push_back({m.name, 0, {}});
  if (from.slo) deadlines_met = 0;
}

void run_result::submit(std::size_t model, std::size_t of_client) {
  assert(model < per_model.size() && of_client < per_client.size());
  ++submitted;
  ++per_model[model].submitted;
  ++per_client[of_client].submitted;
}

void run_result::finish(std::size_t model, std::size_t of_client, duration latency, bool in_time) {
  assert(model < per_model.size() && of_client < per_client.size());
  ++finished;
  latencies.push_back(latency);
  per_model[model].latencies.push_back(latency);
  per_client[of_client].latencies.push_back(latency);
  if (deadlines_met) *deadlines_met += in_time;
}

agreement agreement_of(const found_slowdowns& a, const found_slowdowns& b, double limit) {
  const auto apart = [&](const found_slowdowns& f, std::size_t i, std::size_t j) {
    return std::max(f.by[i][j].value_or(0), f.by[j][i].value_or(0)) > limit;
  };
  agreement all;
  for (std::size_t i = 0; i < a.by.size(); ++i)
    for (std::size_t j = i; j < a.by.size(); ++j) {
      if (!a.by[i][j] || !b.by[i][j]) continue; // files have both directions or none
      ++all.pairs;
      all.alike += apart(a, i, j) == apart(b, i, j);
    }
  return all;
}

std::uint64_t requests_of(std::span<const run_result> runs) {
  std::uint64_t most = 0;
  for (const run_result& r : runs) most = std::max(most, r.submitted);
  return most;
}

double run_result::throughput_per_s() const noexcept {
  return span > duration::zero() ? static_cast<double>(finished) / gsched::to_s(span) : 0.0;
}

void write_json(std::ostream& out, const options& from, const workload_facts& facts,
                std::span<const run_result> runs) {
  json document{{"device", from.device},
                {"seed", from.draws() ? json(from.seed) : json()},
                {"workload", workload_json(from, facts)},
                {"scheduling", scheduling_json(from)}};
  if (!facts.device_name.empty()) document["device_name"] = facts.device_name;
  json list = json::array();
  for (const run_result& r : runs) list.push_back(run_json(r));
  document["runs"] = std::move(list);
  out << document.dump(2, ' ', true, json::error_handler_t::replace) << '\n';
}

} // namespace serve_mix
