// SPDX-License-Identifier: Apache-2.0
//
// What a user of the headers or of the C library is served by default is what the programs serve by
// default: the same throughput and the same mean latency, on the same arrivals.
#include "realtime/arrivals.hpp"
#include "realtime/configuration.hpp"
#include "realtime/options.hpp"
#include "realtime/platform.hpp"
#include "realtime/run.hpp"
#include "serve_mix/options.hpp"
#include "serve_mix/platform.hpp"
#include "serve_mix/run.hpp"
#include "settings.hpp" // of the C library

#include "common/input/profile_catalogue.hpp"
#include "sanitized.hpp"

#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/workload/arrivals.hpp>
#include <gsched/workload/serve_workload.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

struct figures {
  double throughput_per_s = 0;
  std::vector<duration> latencies{}; ///< of finished requests, in order of their end

  [[nodiscard]] double mean_us() const {
    const duration sum = std::accumulate(latencies.begin(), latencies.end(), duration::zero());
    return to_us(sum) / static_cast<double>(latencies.size());
  }
};

void check_alike(const figures& a, const figures& b) {
  REQUIRE(b.throughput_per_s > 0);
  CHECK(a.throughput_per_s == doctest::Approx(b.throughput_per_s).epsilon(0.01));
  CHECK(a.mean_us() == doctest::Approx(b.mean_us()).epsilon(0.01));
}
/// Where both serve the same requests with the same settings.
void check_equal(const figures& a, const figures& b) {
  check_alike(a, b);
  CHECK(a.latencies == b.latencies);
}

/// What a user of the headers writes for a model: copy the input in, infer, copy the output out.
struct inference {
  program graph;
  byte_count in;
  byte_count out;

  explicit inference(const profile& p) : graph(to_program(p)), in(p.input), out(p.output) {}
  task operator()(job_context& ctx) {
    const stream_id s = ctx.default_stream();
    ctx.copy_async(s, copy_direction::host_to_device, in);
    ctx.launch(s, graph);
    ctx.copy_async(s, copy_direction::device_to_host, out);
    co_return;
  }
};

struct latencies_of : silent_listener {
  std::vector<duration> all{};
  std::function<void(const job&, void*, time_point)> ended{};
  void on_end(const job& j, void* user, time_point now) noexcept {
    if (j.state == job_state::finished) all.push_back(now - j.arrival);
    if (ended) ended(j, user, now);
  }
};

/// The mix of serve_mix's command line, as a user of the headers serves it.
struct mix_of {
  const serve_mix::options& from;
  const std::vector<profile>& models;
  double rate_per_s;

  template <policy P>
  [[nodiscard]] figures serve(P& order, const dispatch_options& how,
                              const accountant_options& account_how) const {
    std::deque<inference> bodies(models.begin(), models.end());
    sim::device gpu(sim::h200());
    aggregate_accountant account(gpu.limits().sm, gpu.limits().sms, account_how);
    latencies_of hears;
    dispatcher scheduler(gpu, order, account, hears, how);
    std::vector<model_id> ids;
    for (inference& b : bodies) {
      scheduler.load(b.graph);
      ids.push_back(scheduler.add_model(b.graph.name(), b, &b.graph));
    }
    std::vector<client*> clients;
    for (std::uint32_t i = 0; i < from.clients; ++i) clients.push_back(&scheduler.add_client());
    std::vector<double> weights;
    for (const serve_mix::mix_entry& m : from.mix) weights.push_back(m.weight);
    open_arrivals source =
        open_arrivals::poisson(rate_per_s, request_mix(weights, from.clients), from.seed);
    std::optional<time_point> first;
    serve_workload(
        scheduler, gpu, source, from.requests,
        [&](const arrival& q) {
          if (!first) first = q.at;
          job_request r;
          r.model = ids[q.model];
          r.owner = clients[index(q.client)];
          r.arrival = q.at;
          static_cast<void>(scheduler.submit(r));
        },
        [] {});
    return {static_cast<double>(hears.all.size()) / to_s(gpu.now() - first.value()), hears.all};
  }
};

} // namespace

TEST_CASE("defaults: serve_mix, the headers and the C library serve one mix alike") {
  for (const char* const load : {"0.9", "3"}) {
    CAPTURE(load);
    const std::vector<const char*> words{"serve_mix",
                                         "--load",
                                         load,
                                         "--policy",
                                         "srpt+deficit,boost",
                                         "--requests",
                                         testing::sanitized ? "100" : "600"};
    const std::optional<serve_mix::options> o =
        serve_mix::parse_options(static_cast<int>(words.size()), words.data());
    REQUIRE(o.has_value());
    const std::unique_ptr<serve_mix::platform> on = serve_mix::open_simulated(*o);
    std::vector<profile> models;
    for (const serve_mix::mix_entry& m : o->mix)
      models.push_back(common::load_model(m.profile, on->sm()));
    const serve_mix::workload_facts facts = serve_mix::facts_of(*on, *o, models);
    const auto runs = serve_mix::run_policies(*on, *o, facts, models, nullptr);
    REQUIRE(runs.size() == 2);
    const auto said = [](const serve_mix::run_result& r) {
      return figures{r.throughput_per_s(), r.latencies};
    };
    const mix_of mix{*o, models, facts.rate_per_s.value()};
    SUBCASE("the headers, with the default of every option") {
      deficit_over<srpt> fair;
      const figures f = mix.serve(fair, dispatch_options{}, accountant_options{});
      CHECK(f.latencies.size() == o->requests);
      check_equal(f, said(runs[0]));
      gamma_boost boost;
      check_equal(mix.serve(boost, dispatch_options{}, accountant_options{}), said(runs[1]));
    }
    SUBCASE("the C library's server, with the default of every option") {
      const abi::settings s = abi::settings_of(abi::default_options());
      CHECK(s.policy == "boost");
      CHECK(s.decision_delay == duration::zero());
      using ordering = priority<edf, named_policy>; // as a server orders them
      ordering order([] { return edf(); }, [&] { return make_policy(s.policy); });
      check_equal(mix.serve(order, s.dispatch, s.account), said(runs[1]));
    }
  }
}

TEST_CASE("defaults: realtime has the library's marks at every quantum") {
  for (const char* const quantum : {"20", "400", "5000"}) {
    const std::vector<const char*> words{"realtime", "--leaves", "never", "--quantum", quantum};
    const auto o = realtime::parse_options(static_cast<int>(words.size()), words.data());
    REQUIRE(o.has_value());
    const dispatch_options how = realtime::configuration_of(realtime::mode::preempt, *o).dispatch;
    CHECK(how.quantum == o->quantum);
    CHECK(how.low_mark == dispatch_options{}.low_mark);
    CHECK(how.high_mark == dispatch_options{}.high_mark);
  }
}

TEST_CASE("defaults: realtime and the headers serve two clients alike") {
  // Segments and lanes, for which realtime has defaults of its own, are the library's here.
  const dispatch_options library;
  const std::string lanes = std::to_string(library.lanes);
  const std::string quantum = std::to_string(library.quantum / std::chrono::microseconds{1});
  const std::string most = std::to_string(library.most_quantum / std::chrono::microseconds{1});
  const std::vector<const char*> words{
      "realtime",    "--mode",    "preempt",       "--seconds",      "0.5",       "--lanes",
      lanes.c_str(), "--quantum", quantum.c_str(), "--most-quantum", most.c_str()};
  const auto o = realtime::parse_options(static_cast<int>(words.size()), words.data());
  REQUIRE(o.has_value());
  REQUIRE(o->work.clients.size() == 2);
  const std::unique_ptr<realtime::platform> on = realtime::open_simulated(*o);
  std::vector<profile> models;
  for (const auto& file : o->profiles) models.push_back(common::load_model(file, on->sm()));
  const realtime::workload_facts facts = realtime::facts_of(*on, *o, models);
  const realtime::run_result run =
      realtime::run_modes(*on, *o, facts, models, nullptr).front(); // preempt

  dispatch_options how;
  how.preemption.real_time_lanes = 1;
  std::deque<inference> bodies(models.begin(), models.end());
  sim::device gpu(sim::h200());
  aggregate_accountant account(gpu.limits().sm, gpu.limits().sms);
  priority<fifo, fifo> order;
  latencies_of hears;
  dispatcher scheduler(gpu, order, account, hears, how);
  struct asking {
    model_id model;
    client* owner;
    realtime::client_source when;
    std::vector<duration> latencies{};
  };
  std::deque<asking> clients;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    scheduler.load(bodies[i].graph);
    clients.push_back({scheduler.add_model(bodies[i].graph.name(), bodies[i], &bodies[i].graph),
                       &scheduler.add_client(),
                       {o->work.clients[i].arrivals, facts.clients[i].per_s, {}, o->seed}});
  }
  const time_point end = gpu.now() + *o->length;
  hears.ended = [&](const job& j, void* user, time_point now) {
    asking& a = *static_cast<asking*>(user);
    if (now <= end) a.latencies.push_back(now - j.arrival);
    a.when.on_reply(now);
  };
  for (;;) {
    time_point next = no_deadline;
    for (asking& a : clients) {
      std::optional<time_point> due = a.when.due();
      for (; due && *due < end && *due <= gpu.now() && gpu.now() < end; due = a.when.due()) {
        job_request r;
        r.model = a.model;
        r.owner = a.owner;
        r.service = o->work.clients[static_cast<std::size_t>(&a == &clients.back())].service;
        r.arrival = *due;
        r.user = &a;
        a.when.take();
        static_cast<void>(scheduler.submit(r));
      }
      if (due && *due < end) next = std::min(next, *due);
    }
    if (scheduler.step()) continue;
    if (gpu.now() >= end && scheduler.idle()) break;
    if (gpu.now() >= end) next = no_deadline;
    gpu.wait(std::min(next == no_deadline && scheduler.idle() ? end : next, scheduler.step_by()));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CAPTURE(i);
    const realtime::client_result& theirs = run.clients[i];
    std::vector<duration> in_window = theirs.latencies;
    in_window.resize(theirs.in_window);
    const double seconds = to_s(*o->length);
    const auto rate = [&](const auto& n) { return static_cast<double>(n.size()) / seconds; };
    const std::vector<duration>& mine = clients[i].latencies;
    check_alike({rate(mine), mine}, {rate(in_window), in_window});
  }
}
