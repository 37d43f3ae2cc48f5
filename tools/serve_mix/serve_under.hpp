// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/platform.hpp"

#include "common/run/backend.hpp"

#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/serve_workload.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

namespace serve_mix {

/// One request, kept until the run ends.
struct pending_request {
  std::uint32_t model = 0;
  std::uint32_t client = 0;
};

/// Arrivals on the clock of a device, whose time was `origin` at the time zero of the arrivals.
template <backend S>
class rebased_arrivals {
public:
  rebased_arrivals(request_source& from, S& on, typename S::device& device)
      : from_(from), backend_(on), device_(device), origin_(device.now().time_since_epoch()) {}

  [[nodiscard]] std::optional<gsched::arrival> next() {
    if (backend_.ended(device_)) return std::nullopt;
    std::optional<gsched::arrival> r = from_.next();
    if (r) r->at = gsched::saturating_add(r->at, origin_);
    return r;
  }
  void on_reply(gsched::client_id client, gsched::time_point now) {
    from_.on_reply(client, now - origin_);
  }

private:
  request_source& from_;
  S& backend_;
  typename S::device& device_;
  gsched::duration origin_;
};

/// Counts the requests of a run from the events of the dispatcher.
template <backend S>
struct result_collector : gsched::silent_listener {
  S& on;
  typename S::device& device;
  const run_request& run;
  rebased_arrivals<S>* source = nullptr;

  result_collector(S& s, typename S::device& d, const run_request& r) : on(s), device(d), run(r) {}

  void on_arrival(const gsched::job& j, void* user, gsched::time_point) noexcept {
    const pending_request& a = *static_cast<const pending_request*>(user);
    if (run.record != nullptr) run.record->arrived(j, a.model);
  }
  void on_submit(const gsched::job& j, const gsched::segment& s, gsched::duration,
                 gsched::time_point now) noexcept {
    on.spend(device, run.from.decision_delay);
    on.submitted(j, s, now);
  }
  void on_segment_end(const gsched::job&, gsched::segment_id id, gsched::time_point now) noexcept {
    on.landed(id, now);
  }
  /// on_end counts the request; backend::finish reports an error of the device.
  void on_failure(const gsched::job&, std::exception_ptr, gsched::time_point) noexcept {}
  void on_end(const gsched::job& j, void* user, gsched::time_point now) noexcept {
    const pending_request& a = *static_cast<const pending_request*>(user);
    if (j.state == gsched::job_state::finished)
      run.result.finish(a.model, a.client, now - j.arrival, now <= j.deadline);
    if (run.record != nullptr) run.record->ended(j, a.model, now);
    source->on_reply(gsched::client_id{a.client}, now);
  }
};

/// The deadlines of one run's requests, in the order in which these come: equal for all policies
/// where the requests are.
class deadlines {
public:
  explicit deadlines(const run_request& run) : run_(run), random_(run.from.seed ^ 0x6465616421) {}

  [[nodiscard]] gsched::time_point next(const gsched::arrival& q) {
    if (!run_.from.slo) return gsched::no_deadline;
    const slo_rule& slo = *run_.from.slo;
    if (!slo.of_solo) return saturating_add(q.at, slo.time);
    double times = slo.least;
    if (slo.draws()) times += (slo.most - slo.least) * gsched::draw_uniform(random_);
    const double ns = times * static_cast<double>(run_.solo[q.model].count());
    return saturating_add(
        q.at, gsched::duration{static_cast<gsched::duration::rep>(std::clamp(ns, 1.0, 1e18))});
  }

private:
  const run_request& run_;
  gsched::random_engine random_;
};

template <backend S>
void serve_on(const configuration& how, const run_request& run, S& on) {
  using namespace gsched;
  named_policy order = make_policy(how.policy, run.from.parameters);
  std::deque<typename S::body> bodies; // outlive the dispatcher and the device that loaded them
  for (const profile& p : run.models) bodies.push_back(on.make_body(p, preemptibility::never, 1));
  if (run.record != nullptr) run.record->use_lanes(how.dispatch.lanes);
  typename S::device device = on.make_device(how);
  aggregate_accountant account(device.limits().sm, device.limits().sms, how.account);
  result_collector<S> collector(on, device, run);
  dispatch_options dispatching = how.dispatch;
  dispatching.corun = {run.apart, run.from.most_wait};
  dispatcher<named_policy, typename S::device, aggregate_accountant, result_collector<S>> dispatch(
      device, order, account, collector, dispatching);
  std::vector<model_id> ids;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    program& p = bodies[i].program(0);
    dispatch.load(p);
    ids.push_back(dispatch.add_model(run.from.mix[i].name, bodies[i], &p));
  }
  std::vector<client*> clients;
  for (std::uint32_t i = 0; i < run.from.clients; ++i) {
    const std::vector<double>& w = run.from.weights;
    clients.push_back(&dispatch.add_client(i < w.size() ? w[i] : w.back()));
  }
  rebased_arrivals<S> source(run.source, on, device);
  collector.source = &source;
  deadlines deadline(run);
  std::deque<pending_request> all;
  time_point first{};
  const auto submit = [&](const arrival& q) {
    if (all.empty()) first = q.at;
    all.push_back({q.model, index(q.client)});
    run.result.submit(q.model, index(q.client));
    job_request r;
    r.model = ids[q.model];
    r.owner = clients[index(q.client)];
    r.arrival = q.at;
    r.deadline = deadline.next(q);
    r.user = &all.back();
    static_cast<void>(dispatch.submit(r));
  };
  serve_workload(dispatch, device, source, run.requests, submit,
                 [&] { run.progress(dispatch.statistics().ended()); });
  const dispatch_statistics& s = dispatch.statistics();
  run_result& result = run.result;
  result.finished = s.finished;
  result.rejected = s.rejected;
  result.over_limit = s.over_limit;
  result.cancelled = s.cancelled;
  result.failed = s.failed;
  result.operations = s.operations;
  result.decisions = s.decisions;
  result.neighbours = s.neighbours;
  result.span = device.now() - first;
  if (result.span > duration::zero())
    result.gpu_busy_fraction = to_s(on.busy(device)) / to_s(result.span);
  on.finish(device, s);
}

} // namespace serve_mix
