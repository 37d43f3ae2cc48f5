// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/run.hpp"

#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/sim/arrivals.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/serve.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <deque>
#include <type_traits>
#include <utility>

namespace serve_mix {

namespace {

using namespace gsched;

/// What runs as a job for one model: copy the input in, infer, copy the output out.
struct inference {
  program graph;
  byte_count in;
  byte_count out;

  task operator()(job_context& ctx) {
    const stream_id s = ctx.default_stream();
    if (in.count() > 0) ctx.copy_async(s, copy_direction::host_to_device, in);
    ctx.launch(s, graph);
    if (out.count() > 0) ctx.copy_async(s, copy_direction::device_to_host, out);
    co_return;
  }
};

/// One request, kept for as long as its run.
struct asked {
  std::uint32_t model = 0;
  std::uint32_t client = 0;
};

/// Turns what the dispatcher tells into results.
struct bookkeeper : silent_listener {
  sim::device& device;
  sim::arrivals& source;
  run_result& result;
  duration decision_delay;
  timeline* record;

  bookkeeper(sim::device& d, sim::arrivals& s, run_result& r, duration delay, timeline* t)
      : device(d), source(s), result(r), decision_delay(delay), record(t) {}

  void on_arrival(const job& j, void* user, time_point) noexcept {
    const asked& a = *static_cast<const asked*>(user);
    if (record != nullptr) record->arrived(j, a.model);
  }
  void on_submit(const job& j, const segment& s, duration expected, time_point now) noexcept {
    device.spend(decision_delay);
    if (record != nullptr) record->decided(j, s, expected, now);
  }
  void on_end(const job& j, void* user, time_point now) noexcept {
    const asked& a = *static_cast<const asked*>(user);
    if (j.state == job_state::finished) result.finish(a.model, a.client, now - j.arrival);
    if (record != nullptr) record->ended(j, a.model, now);
    source.on_reply(client_id{a.client}, now);
  }
};

/// How the dispatcher is set for a policy, and for the two ways of not scheduling at all.
struct manner {
  dispatch_options dispatch;
  accountant_options account;
  std::string policy;
};

manner manner_of(const std::string& policy, const options& from) {
  manner m;
  m.policy = policy;
  m.dispatch.how = from.submission;
  m.dispatch.lanes = from.lanes;
  m.dispatch.quantum = from.quantum;
  m.dispatch.most_quantum = std::max(from.quantum, from.most_quantum);
  m.dispatch.low_mark = from.quantum;
  m.dispatch.high_mark = 2 * from.quantum;
  m.account.max_outstanding = m.dispatch.max_segments;
  m.account.overshoot_fill = from.overshoot;
  if (policy == "direct" || policy == "single") {
    m.policy = "fifo";
    m.dispatch.quantum = m.dispatch.most_quantum = run_to_completion;
    m.dispatch.low_mark = m.dispatch.high_mark = run_to_completion;
    m.dispatch.segments_per_job = 1u << 20;
    m.dispatch.max_segments = m.account.max_outstanding = 1u << 12;
    m.dispatch.use = policy == "direct" ? lane_use::own : lane_use::shared;
    m.dispatch.lanes = policy == "direct" ? 1024 : 1;
    m.account.overshoot_fill = 1e6; // whatever arrives is submitted
  }
  return m;
}

sim::arrivals arrivals_of(const options& from, const workload_facts& facts) {
  std::vector<double> weights;
  std::vector<std::string> names;
  for (const mix_entry& e : from.mix) {
    weights.push_back(e.weight);
    names.push_back(e.name);
  }
  const sim::mix what(weights, from.clients);
  switch (from.arrivals.law) {
  case arrival_law::poisson:
    return sim::open_arrivals::poisson(facts.rate_per_s.value(), what, from.seed);
  case arrival_law::lognormal:
    return sim::open_arrivals::lognormal(facts.rate_per_s.value(), from.arrivals.sigma, what,
                                         from.seed);
  case arrival_law::closed:
    return sim::closed_arrivals(from.arrivals.in_flight, duration::zero(), what, from.seed);
  case arrival_law::trace: break;
  }
  return sim::trace_arrivals(from.arrivals.file.string(), names, from.clients);
}

template <policy P>
void serve_under(P& order, const manner& how, const options& from, std::uint64_t requests,
                 sim::arrivals& source, std::span<const profile> models, timeline* record,
                 run_result& result, progress_bar& bar) {
  std::deque<inference> bodies; // outlive the dispatcher, and the device that loaded them
  sim::device device(device_of(from), {},
                     record != nullptr ? record->device_observer() : sim::observer{});
  aggregate_accountant account(device.limits().sm, device.limits().sms, how.account);
  bookkeeper hears(device, source, result, from.decision_delay, record);
  dispatcher<P, sim::device, aggregate_accountant, bookkeeper> dispatch(device, order, account,
                                                                        hears, how.dispatch);
  std::vector<model_id> ids;
  for (const profile& p : models) {
    inference& body = bodies.emplace_back(inference{to_program(p), p.input, p.output});
    dispatch.load(body.graph);
    ids.push_back(dispatch.add_model(body.graph.name(), body, &body.graph));
  }
  std::vector<client*> clients;
  for (std::uint32_t i = 0; i < from.clients; ++i) clients.push_back(&dispatch.add_client());
  std::deque<asked> all;
  time_point first{};
  const auto submit = [&](const sim::request& q) {
    if (all.empty()) first = q.at;
    all.push_back({q.model, index(q.client)});
    result.submit(q.model, index(q.client));
    job_request r;
    r.model = ids[q.model];
    r.owner = clients[index(q.client)];
    r.arrival = q.at;
    if (from.slo) r.deadline = saturating_add(q.at, *from.slo);
    r.user = &all.back();
    static_cast<void>(dispatch.submit(r));
  };
  sim::serve(dispatch, device, source, requests, submit,
             [&] { bar.update(dispatch.statistics().ended()); });
  const dispatch_statistics& s = dispatch.statistics();
  result.finished = s.finished;
  result.rejected = s.rejected;
  result.cancelled = s.cancelled;
  result.failed = s.failed;
  result.operations = s.operations;
  result.decisions = s.decisions;
  result.span = device.now() - first;
  if (result.span > duration::zero())
    result.gpu_busy_fraction = to_s(device.busy_time()) / to_s(result.span);
}

template <policy P>
P make_policy(const options& from) {
  if constexpr (std::constructible_from<P, duration>)
    return P(from.threshold);
  else if constexpr (std::same_as<P, edf>)
    return P(from.lanes); // refuses only what would be late with every lane at full speed
  else
    return P();
}

void serve_named(const std::string& policy, const options& from, std::uint64_t requests,
                 sim::arrivals& source, std::span<const profile> models, timeline* record,
                 run_result& result, progress_bar& bar) {
  const manner how = manner_of(policy, from);
  visit_policy(how.policy, [&]<class P>(std::type_identity<P>) {
    P order = make_policy<P>(from);
    serve_under(order, how, from, requests, source, models, record, result, bar);
  });
}

} // namespace

sim::preset device_of(const options& from) {
  sim::preset p = sim::preset_by_name(from.device);
  if (from.queues) p.hardware_queues = *from.queues;
  return p;
}

workload_facts facts_of(const options& from, std::span<const profile> models) {
  workload_facts facts;
  double weighted_ns = 0;
  double weights = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    options alone = from;
    alone.mix = {from.mix[i]};
    alone.clients = 1;
    alone.slo.reset();
    alone.decision_delay = {};
    alone.submission = submission::graph;
    run_result r("single", alone);
    progress_bar none({}, 1, false);
    sim::arrivals one = sim::closed_arrivals(1, duration::zero(), sim::mix({1.0}, 1u), from.seed);
    serve_named("single", alone, 1, one, models.subspan(i, 1), nullptr, r, none);
    weighted_ns += from.mix[i].weight * static_cast<double>(r.latencies.at(0).count());
    weights += from.mix[i].weight;
  }
  facts.mean_solo = duration{static_cast<duration::rep>(weighted_ns / weights)};
  if (from.load) facts.rate_per_s = *from.load / to_s(facts.mean_solo);
  if (from.rate) facts.rate_per_s = from.rate;
  if (!facts.rate_per_s) return facts;
  facts.load = *facts.rate_per_s * to_s(facts.mean_solo);
  constexpr double longest_s = 1e9; // the device's clock counts to 9.2e9
  if (!(static_cast<double>(from.requests) / *facts.rate_per_s <= longest_s))
    throw error(errc::bad_option,
                std::string(from.rate ? "--rate" : "--load") + ": so low that " +
                    std::to_string(from.requests) +
                    " requests take more than 1e9 seconds, expected a higher one");
  return facts;
}

run_result run_policy(const std::string& policy, const options& from, const workload_facts& facts,
                      std::span<const profile> models, timeline* record) {
  const auto start = std::chrono::steady_clock::now();
  run_result result(policy, from);
  progress_bar bar(policy, from.requests, from.progress);
  sim::arrivals source = arrivals_of(from, facts);
  serve_named(policy, from, from.requests, source, models, record, result, bar);
  if (from.arrivals.law == arrival_law::trace && result.submitted == 0)
    throw error(errc::bad_trace, from.arrivals.file.string() +
                                     ": no requests, expected lines of time_us,model[,client]");
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace serve_mix
