// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/platform.hpp"

#include "common/stage.hpp"

#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/serve.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <type_traits>
#include <vector>

namespace serve_mix {

/// One request, kept for as long as its run.
struct asked {
  std::uint32_t model = 0;
  std::uint32_t client = 0;
};

/// A source of requests on a clock that stood at `origin` when the source's stood at zero.
template <stage S>
class source_here {
public:
  source_here(gsched::sim::arrivals& from, S& on, typename S::device& device)
      : from_(from), stage_(on), device_(device), origin_(device.now().time_since_epoch()) {}

  [[nodiscard]] std::optional<gsched::sim::request> next() {
    if (stage_.ended(device_)) return std::nullopt;
    std::optional<gsched::sim::request> r = from_.next();
    if (r) r->at = gsched::saturating_add(r->at, origin_);
    return r;
  }
  void on_reply(gsched::client_id client, gsched::time_point now) {
    from_.on_reply(client, now - origin_);
  }

private:
  gsched::sim::arrivals& from_;
  S& stage_;
  typename S::device& device_;
  gsched::duration origin_;
};

/// Turns what the dispatcher tells into results.
template <stage S>
struct bookkeeper : gsched::silent_listener {
  S& on;
  typename S::device& device;
  const run_order& run;
  source_here<S>* source = nullptr;

  bookkeeper(S& s, typename S::device& d, const run_order& r) : on(s), device(d), run(r) {}

  void on_arrival(const gsched::job& j, void* user, gsched::time_point) noexcept {
    const asked& a = *static_cast<const asked*>(user);
    if (run.record != nullptr) run.record->arrived(j, a.model);
  }
  void on_submit(const gsched::job& j, const gsched::segment& s, gsched::duration expected,
                 gsched::time_point now) noexcept {
    on.spend(device, run.from.decision_delay);
    if (run.record != nullptr) run.record->decided(j, s, expected, now);
    on.submitted(j, s, now);
  }
  void on_segment_end(const gsched::job&, gsched::segment_id id, gsched::time_point now) noexcept {
    on.landed(id, now);
  }
  /// Results count it, and stage::finish reports what the device says.
  void on_failure(const gsched::job&, std::exception_ptr, gsched::time_point) noexcept {}
  void on_end(const gsched::job& j, void* user, gsched::time_point now) noexcept {
    const asked& a = *static_cast<const asked*>(user);
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
  explicit deadlines(const run_order& run) : run_(run), random_(run.from.seed ^ 0x6465616421) {}

  [[nodiscard]] gsched::time_point next(const gsched::sim::request& q) {
    if (!run_.from.slo) return gsched::no_deadline;
    const slo_rule& slo = *run_.from.slo;
    if (!slo.of_solo) return saturating_add(q.at, slo.time);
    double times = slo.least;
    if (slo.draws()) times += (slo.most - slo.least) * gsched::sim::uniform(random_);
    const double ns = times * static_cast<double>(run_.solo[q.model].count());
    return saturating_add(
        q.at, gsched::duration{static_cast<gsched::duration::rep>(std::clamp(ns, 1.0, 1e18))});
  }

private:
  const run_order& run_;
  gsched::sim::random_engine random_;
};

template <gsched::policy P, stage S>
void serve_under(P& order, const manner& how, const run_order& run, S& on) {
  using namespace gsched;
  std::deque<typename S::body> bodies; // outlive the dispatcher, and the device that loaded them
  for (const profile& p : run.models) bodies.push_back(on.make_body(p, leaving::never, 1));
  typename S::device device = on.make_device(how);
  aggregate_accountant account(device.limits().sm, device.limits().sms, how.account);
  bookkeeper<S> hears(on, device, run);
  dispatcher<P, typename S::device, aggregate_accountant, bookkeeper<S>> dispatch(
      device, order, account, hears, how.dispatch);
  std::vector<model_id> ids;
  for (typename S::body& body : bodies) {
    program& p = body.program(0);
    dispatch.load(p);
    ids.push_back(dispatch.add_model(p.name(), body, &p));
  }
  std::vector<client*> clients;
  for (std::uint32_t i = 0; i < run.from.clients; ++i) {
    const std::vector<double>& w = run.from.weights;
    clients.push_back(&dispatch.add_client(i < w.size() ? w[i] : w.back()));
  }
  source_here<S> source(run.source, on, device);
  hears.source = &source;
  deadlines until(run);
  std::deque<asked> all;
  time_point first{};
  const auto submit = [&](const sim::request& q) {
    if (all.empty()) first = q.at;
    all.push_back({q.model, index(q.client)});
    run.result.submit(q.model, index(q.client));
    job_request r;
    r.model = ids[q.model];
    r.owner = clients[index(q.client)];
    r.arrival = q.at;
    r.deadline = until.next(q);
    r.user = &all.back();
    static_cast<void>(dispatch.submit(r));
  };
  sim::serve(dispatch, device, source, run.requests, submit,
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
  result.span = device.now() - first;
  if (result.span > duration::zero())
    result.gpu_busy_fraction = to_s(on.busy(device)) / to_s(result.span);
  on.finish(device, s);
}

template <gsched::policy P>
P make_policy(const options& from, double factor) {
  if constexpr (requires { &P::set_threshold; })
    return P(from.threshold);
  else if constexpr (std::same_as<P, gsched::round_robin>)
    return P(from.slice);
  else if constexpr (std::same_as<P, gsched::gamma_boost>)
    return P(factor);
  else
    return P();
}

template <stage S>
void serve_on(const manner& how, const run_order& run, S& on) {
  gsched::visit_policy(how.policy, [&]<class P>(std::type_identity<P>) {
    P order = make_policy<P>(run.from, gsched::factor_of(how.policy));
    serve_under(order, how, run, on);
  });
}

} // namespace serve_mix
