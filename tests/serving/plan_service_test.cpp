// SPDX-License-Identifier: Apache-2.0
#include "sanitized.hpp"
#include "serving/instant.hpp"

#include <gsched/io/rate_curve_csv.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/serving/plan_service.hpp>
#include <gsched/serving/simulated_batches.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace gsched;
using namespace gsched::testing;
using namespace std::chrono_literals;

namespace {

/// Batches of 1 to 8 take 1 ms plus 0.5 ms a request on 8 SMs, and less on more SMs.
latency_table table_of(std::size_t models) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < models; ++m)
    for (const std::uint32_t s : {8u, 16u, 32u})
      for (std::uint32_t b = 1; b <= 8; ++b)
        rows.push_back({"m" + std::to_string(m), b, sm_count{s},
                        1ms + duration{500'000} * b * 8 / static_cast<int>(s)});
  return latency_table(rows);
}

struct service {
  latency_table table = table_of(2);
  std::vector<duration> slos{20ms, 20ms};
  std::vector<gpu_shape> shapes{2, gpu_shape{sm_count{32}, sm_count{8}}};
  std::vector<offered_app> apps;
  plan_service_options options;
  duration prepare{};
  interference_function truth, expected;
  std::vector<double> true_slowdown; ///< by model; empty: none
  planner_function planner = [this](const latency_table& t, std::span<const model_demand> d) {
    return elastic_planner{}.plan(t, d, shapes);
  };

  void offer(app what, rate_curve expected_rate, std::optional<rate_curve> comes = {}) {
    const std::uint64_t seed = apps.size() + 7;
    apps.push_back({std::move(what), expected_rate, comes.value_or(expected_rate), seed});
  }
  void offer_model(std::size_t m, double rate) {
    offer(app_of_model(table.name(m), m, slos[m]), {{at(0s), rate}});
  }
  service() { options.replanning.clusters = 0; }

  service_outcome run() {
    const latency_table times = with_corrections(table, true_slowdown);
    simulated_batches runner(times, truth, shapes.size(), prepare);
    return plan_service(table, slos, shapes, apps, options, planner, expected, runner).run();
  }
};

void check_conservation(const service_outcome& o) {
  for (const app_outcome& a : o.apps) {
    CHECK(a.arrived == a.in_time + a.late + a.dropped);
    CHECK(a.latency.count() == a.in_time + a.late);
  }
  std::uint64_t came = 0, arrived = 0, ended = 0, violated = 0;
  for (const model_outcome& m : o.models) {
    const request_counts& c = m.counts;
    CHECK(c.waiting + c.running == 0);
    CHECK(c.arrived == c.in_time + c.late + c.dropped);
    CHECK(m.latency.count() == c.in_time + c.late);
    arrived += c.arrived;
  }
  std::vector<app_period> sums(o.apps.size());
  for (const period_outcome& p : o.periods) {
    for (const std::uint64_t n : p.arrived) came += n;
    for (std::size_t a = 0; a < sums.size(); ++a) {
      sums[a].arrived += p.apps[a].arrived;
      sums[a].ended += p.apps[a].ended;
      sums[a].violated += p.apps[a].violated;
    }
    ended += p.ended;
    violated += p.violated;
  }
  for (std::size_t a = 0; a < sums.size(); ++a) {
    CHECK(sums[a].arrived == o.apps[a].arrived);
    CHECK(sums[a].ended == o.apps[a].arrived);
    CHECK(sums[a].violated == o.apps[a].late + o.apps[a].dropped);
  }
  CHECK(came == arrived);
  CHECK(o.switched_at.size() == o.switches);
  CHECK(std::is_sorted(o.switched_at.begin(), o.switched_at.end()));
  const app_outcome all = o.all();
  CHECK(ended == all.arrived);
  CHECK(violated == all.late + all.dropped);
}

std::string text_of(const service_outcome& o) {
  std::ostringstream s;
  for (const app_outcome& a : o.apps)
    s << a.arrived << ' ' << a.in_time << ' ' << a.late << ' ' << a.latency.percentile(0.99).count()
      << '\n';
  for (const period_outcome& p : o.periods)
    s << p.sms << ' ' << p.factor << ' ' << p.ended << ' ' << p.violated << '\n';
  s << o.batches << ' ' << o.end.time_since_epoch().count();
  return s.str();
}

} // namespace

TEST_CASE("a Poisson process follows its rate curve, and repeats with its seed") {
  const rate_curve c{{at(1s), 1000}, {at(3s), 0}, {at(4s), 5000}};
  varying_poisson p(c, at(6s), 3), again(c, at(6s), 3);
  std::vector<int> in(8);
  time_point last{};
  while (const auto t = p.next()) {
    REQUIRE(again.next() == t);
    REQUIRE(*t >= last);
    last = *t;
    ++in[static_cast<std::size_t>(t->time_since_epoch() / 1s)];
  }
  CHECK(in[0] == 0);
  CHECK(std::abs(in[1] + in[2] - 2000) < 200);
  CHECK(in[3] == 0);
  CHECK(std::abs(in[4] + in[5] - 10000) < 400);
  CHECK(in[6] == 0);
}

TEST_CASE("a rate error is fixed, or drawn repeatedly around the rate") {
  const rate_curve c{{at(0s), 100}, {at(50s), 200}};
  const rate_curve more = with_error(c, {0.2, true, 20s}, at(100s), 1);
  CHECK(more == rate_curve{{at(0s), 120}, {at(50s), 240}});
  const rate_curve drawn = with_error(c, {0.2, false, 20s}, at(100s), 1);
  REQUIRE(drawn.size() == 6);
  CHECK(drawn[3].at == at(50s));
  CHECK(drawn[3].rate == doctest::Approx(2 * drawn[2].rate)); // the same error still
  for (const rate_step& s : drawn) {
    const double of = s.at < at(50s) ? 100 : 200;
    CHECK(s.rate >= of * 0.8);
    CHECK(s.rate <= of * 1.2);
  }
  CHECK(drawn[0].rate != drawn[1].rate);
  CHECK_THROWS_AS(static_cast<void>(with_error(c, {1.5, false, 20s}, at(1s), 1)), error);
  CHECK_THROWS_AS(static_cast<void>(with_error(c, {-1, true, 20s}, at(1s), 1)), error);
}

TEST_CASE("rate curves are read from a file, and errors are one line") {
  const auto read = [](const char* text) {
    return read_rate_curves(csv_table(std::make_unique<std::istringstream>(text), "r.csv",
                                      {"time_s", "model", "rate"}));
  };
  const auto curves = read("time_s,model,rate\n0,a,10\n0,b,5\n2.5,a,0\n");
  CHECK(curves.at("a") == rate_curve{{at(0s), 10}, {at(2500ms), 0}});
  CHECK(curves.at("b") == rate_curve{{at(0s), 5}});
  for (const char* bad :
       {"time_s,model,rate\n", "time_s,model,rate\n1,a,1\n1,a,2\n", "time_s,model,rate\n1,a,-1\n",
        "time_s,model,rate\n-1,a,1\n", "time_s,model\n1,a\n", "time_s,model,rate\n1,a,nan\n"})
    CHECK_THROWS_AS(read(bad), error);
}

TEST_CASE("batches slow each other while they overlap") {
  const latency_table t = table_of(1); // a batch of 2 on 8 SMs takes 2 ms
  const interference_function truth = [](std::span<const gpulet> all, std::size_t, std::size_t) {
    return static_cast<double>(all.size());
  };
  detail::batch_runs runs(t, truth, 2);
  std::vector<time_point> ends(3);
  const auto report_end = [&](std::uint32_t p, time_point e) { ends[p] = e; };
  runs.begin({0, 0, sm_count{8}, 0, 2}, at(0ms), report_end);
  CHECK(ends[0] == at(2ms));
  runs.begin({1, 2, sm_count{8}, 0, 2}, at(0ms), report_end); // another GPU
  CHECK(ends[2] == at(2ms));
  runs.begin({0, 1, sm_count{8}, 0, 2}, at(1ms), report_end);
  CHECK(ends[0] == at(3ms)); // the half that is left takes twice as long
  CHECK(ends[1] == at(5ms));
  runs.end(0, 0, at(3ms), report_end);
  CHECK(ends[1] == at(4ms)); // half of it was done in 2 ms
  runs.end(0, 1, at(4ms), report_end);
  runs.end(1, 2, at(2ms), report_end);
}

TEST_CASE("batches on shared SMs run at the same time, slowed as predicted for their region") {
  service s;
  s.shapes.resize(1);
  // In turns a request waits for a batch of the other model; on the same SMs it does not.
  s.slos = {5ms, 60ms};
  const auto plan_of = [](std::uint32_t region) {
    partition_plan p;
    if (region == 0)
      p.gpulets = {{0, sm_count{32}, 4ms, {{0, 200, 2}, {1, 150, 8}}}};
    else
      p.gpulets = {{0, sm_count{32}, 2500us, {{0, 200, 2}}, region},
                   {0, sm_count{32}, 30ms, {{1, 150, 8}}, region}};
    return p;
  };
  s.truth = [](std::span<const gpulet> all, std::size_t which, std::size_t) {
    double factor = 1;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which) factor += share_sms(all[i], all[which]) ? 0.25 : 10;
    return factor;
  };
  s.expected = s.truth;
  s.options.length = 20s;
  s.options.replans = false;
  s.options.fills = false;
  s.options.replanning.headroom = 1;
  s.offer_model(0, 200);
  s.offer_model(1, 150);
  s.true_slowdown = {1, 6}; // long batches
  std::uint32_t region = 0;
  s.planner = [&](const latency_table&, std::span<const model_demand>) { return plan_of(region); };
  const service_outcome turns = s.run();
  region = 3;
  const service_outcome both = s.run();
  check_conservation(both);
  CHECK(both.models[0].latency.percentile(0.99) < turns.models[0].latency.percentile(0.99) * 2 / 3);
  CHECK(turns.models[0].counts.late + turns.models[0].counts.dropped > 100);
  CHECK(both.models[0].counts.late + both.models[0].counts.dropped == 0);
  CHECK(both.periods.back().sms == 32);
  CHECK(both.periods.back().gpu_sms.front() == 32);
  // Alone a batch of one request takes 1,125 us, and beside the other model 1.25 times that.
  CHECK(both.models[0].latency.percentile(0.05) >= 1125us);
  CHECK(both.models[0].latency.percentile(0.5) <= 1450us);
}

TEST_CASE("at half of the planned rates no request is late or lost, and runs repeat") {
  service s;
  s.options.length = 60s;
  s.options.replanning.headroom = 2;
  s.offer_model(0, 1000);
  s.offer_model(1, 300);
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(std::abs(static_cast<double>(o.apps[0].arrived) - 60000) < 1500);
  CHECK(o.all().violations() < 0.001);
  CHECK(o.periods.size() == 3);
  CHECK(o.periods[0].factor == 2);
  CHECK(std::abs(o.periods[2].measured[0] - 1000) < 100);
  CHECK(text_of(s.run()) == text_of(o));
  s.apps[0].seed = 99;
  CHECK(text_of(s.run()) != text_of(o));
}

TEST_CASE("unplanned interference makes requests late; planned interference does not") {
  service s;
  s.shapes.resize(1);
  s.options.length = 20s;
  s.options.replans = false;
  s.options.replanning.headroom = 1.2;
  s.truth = [](std::span<const gpulet> all, std::size_t, std::size_t) {
    return all.size() > 1 ? 1.6 : 1.0;
  };
  s.offer_model(0, 2000);
  s.offer_model(1, 2000);
  const service_outcome blind = s.run();
  check_conservation(blind);
  CHECK(blind.all().violations() > 0.02);
  s.shapes.resize(2);
  s.expected = s.truth;
  s.planner = [&](const latency_table& t, std::span<const model_demand> d) {
    return elastic_planner{}.plan(t, d, s.shapes, s.expected);
  };
  const service_outcome seeing = s.run();
  check_conservation(seeing);
  CHECK(seeing.all().violations() < blind.all().violations() / 4);
}

TEST_CASE("batches that take longer than planned lead to another plan, which has none late") {
  service s;
  s.options.length = 100s;
  s.options.period = 10s;
  s.options.fills = false;
  s.true_slowdown = {1.6, 1};
  s.offer_model(0, 1500);
  s.offer_model(1, 500);
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(o.periods[0].violated > o.periods[0].ended / 50);
  CHECK(o.periods[1].reason == replan_reason::times);
  CHECK(o.periods[1].switched);
  CHECK(o.periods[1].corrections[0] == doctest::Approx(1.6).epsilon(0.02));
  CHECK(o.periods[1].corrections[1] == 1);
  CHECK(o.periods[1].sms > o.periods[0].sms);
  CHECK(o.switches == 1); // no oscillation
  for (std::size_t i = 1; i < o.periods.size(); ++i)
    CHECK(o.periods[i].violated < o.periods[i].ended / 100);
  CHECK(text_of(s.run()) == text_of(o));

  s.options.corrections.learns = false;
  s.options.margins.allowed = 1;
  const service_outcome fixed = s.run();
  check_conservation(fixed);
  CHECK(fixed.switches == 0);
  CHECK(fixed.all().violations() > 0.02);
  // Without corrections violations alone bring a plan with more room.
  s.options.margins.allowed = 0.01;
  const service_outcome roomy = s.run();
  check_conservation(roomy);
  CHECK(roomy.switches > 0);
  CHECK(roomy.periods[1].reason == replan_reason::violations);
  CHECK(roomy.periods[1].margins[0] > 1);
  CHECK(roomy.all().violations() < fixed.all().violations());
}

TEST_CASE("interference that is worse than planned is learned, and the next plan knows it") {
  GSCHED_TOO_LONG_SANITIZED();
  service s;
  s.table = table_of(3);
  s.slos = {20ms, 20ms, 20ms};
  s.shapes.assign(1, gpu_shape{sm_count{96}, sm_count{8}});
  s.options.length = 40s;
  s.options.period = 5s;
  const auto metrics = [&](double pressure) {
    solo_table t;
    for (std::size_t m = 0; m < 3; ++m) {
      solo_metrics of{s.table.name(m), 1, 2ms, 0.08, 0.08, 0.9};
      if (m == 0) of.factors.pressure = pressure;
      t.add(of);
    }
    return t;
  };
  interference_coefficients c;
  c.contention.l2_latency = 0.3;
  c.contention.dram_latency = 0.5;
  const solo_table known = metrics(1), real = metrics(3);
  s.expected = contention_interference(s.table, known, c);
  s.truth = contention_interference(s.table, real, c);
  bool is_fixed = true; // the plan: 32 SMs for each model
  const auto plan = [&](const latency_table& t, std::span<const model_demand> d,
                        const contention_interference& beside) {
    if (!is_fixed) return elastic_planner{}.plan(t, d, s.shapes, beside);
    partition_plan p;
    for (std::size_t m = 0; m < 3; ++m) p.gpulets.push_back({0, sm_count{32}, 8ms, {{m, 1100, 4}}});
    return std::optional<partition_plan>(p);
  };
  int made = 0;
  const solo_table* base = &known; // what is multiplied by the factors learned
  const auto rules = [&](std::span<const corun_factors> learned) {
    ++made;
    const auto now = std::make_shared<solo_table>(with_factors(*base, s.table, learned));
    const contention_interference beside(s.table, *now, c);
    return plan_rules{
        [&plan, now, beside](const latency_table& t, std::span<const model_demand> d) {
          return plan(t, d, beside);
        },
        [now, beside](std::span<const gpulet> all, std::size_t which, std::size_t m) {
          return beside(all, which, m);
        }};
  };
  const contention_interference first(s.table, known, c);
  s.planner = [&](const latency_table& t, std::span<const model_demand> d) {
    return plan(t, d, first);
  };
  s.options.learning = interference_learning{first, rules};
  for (std::size_t m = 0; m < 3; ++m) s.offer_model(m, 1100);
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(made >= static_cast<int>(o.periods.size()) - 1);
  REQUIRE(o.learned.size() == 3);
  for (std::size_t m = 0; m < 3; ++m) {
    CHECK(o.learned[m].factors.pressure == doctest::Approx(m == 0 ? 3 : 1).epsilon(0.2));
    CHECK(o.learned[m].factors.sensitivity == doctest::Approx(1).epsilon(0.2));
    CHECK(o.learned[m].watched > 1000);
    if (m > 0) CHECK(o.learned[m].of.learned < 0.7 * o.learned[m].of.at_first);
  }
  CHECK(o.periods[0].factors[0] == corun_factors{});
  CHECK(o.periods[1].factors[0].pressure > 1.3);
  CHECK(o.periods[1].reason == replan_reason::interference);
  CHECK(o.periods.back().reason == replan_reason::none); // what moves a little changes nothing
  CHECK(o.switches == 0);
  CHECK(text_of(s.run()) == text_of(o));

  // Less than planned: the plan in service holds, and stays until rates call for another.
  const solo_table too_high = metrics(1.5);
  base = &too_high;
  s.options.learning = interference_learning{contention_interference(s.table, too_high, c), rules};
  s.expected = contention_interference(s.table, too_high, c);
  s.truth = first;
  const service_outcome calm = s.run();
  CHECK(calm.learned[0].factors.pressure == doctest::Approx(1 / 1.5).epsilon(0.1));
  for (const period_outcome& p : calm.periods) CHECK(p.reason == replan_reason::none);
  base = &known;
  s.expected = first;
  s.truth = contention_interference(s.table, real, c);

  // Without learning the table is corrected for the neighbours of the one that presses.
  const double corrected = o.periods.back().corrections[1];
  s.options.learning.reset();
  CHECK(s.run().periods.back().corrections[1] > 1.05 * corrected);

  // A planner that may choose puts the models where they do not press on each other.
  is_fixed = false;
  s.options.learning = interference_learning{first, rules};
  const service_outcome chosen = s.run();
  check_conservation(chosen);
  CHECK(chosen.periods[0].violated > chosen.periods[0].ended / 50);
  CHECK(chosen.periods[1].switched);
  CHECK(chosen.periods[1].partitions < chosen.periods[0].partitions);
  for (std::size_t i = 1; i < chosen.periods.size(); ++i)
    CHECK(chosen.periods[i].violated <= chosen.periods[i].ended / 100);
  CHECK(chosen.learned[0].factors.pressure > 1.1); // though nothing is beside it any more

  s.options.learning->rules = {};
  CHECK_THROWS_AS(s.run(), error);
  s.options.learning = interference_learning{first, rules};
  s.expected = {};
  CHECK_THROWS_AS(s.run(), error);
}

TEST_CASE("batches too slow for any plan are served as well as there is a plan") {
  service s;
  s.options.length = 50s;
  s.options.period = 10s;
  s.options.fills = false;
  s.slos = {9ms, 20ms};
  s.true_slowdown = {4, 1};
  s.offer(app_of_model("m0", 0, 9ms), {{at(0s), 100}});
  s.offer_model(1, 500);
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(o.periods[1].corrections[0] == doctest::Approx(4).epsilon(0.01));
  CHECK(o.periods[1].too_slow.empty()); // a request that waits for no batch is in time
  CHECK(o.periods[4].sms > o.periods[0].sms);
  CHECK(o.apps[1].violations() < 0.01); // the other model has nothing of it
}

TEST_CASE("a model too slow for every partition costs the others nothing, and is served once it is "
          "fast") {
  service s;
  s.options.length = 100s;
  s.options.period = 10s;
  s.slos = {9ms, 20ms};
  s.true_slowdown = {10, 1};
  s.offer(app_of_model("m0", 0, 9ms), {{at(0s), 100}});
  s.offer_model(1, 500);
  const service_outcome o = s.run();
  check_conservation(o);
  const period_outcome& last = o.periods.back();
  CHECK(last.corrections[0] == doctest::Approx(10).epsilon(0.01)); // not a bound
  REQUIRE(last.too_slow == std::vector<std::size_t>{0});
  CHECK(last.margins[0] == 1);
  CHECK(last.margins[1] == 1);
  for (std::size_t i = 2; i < o.periods.size(); ++i)
    CHECK(o.periods[i].models[1].violated <= o.periods[i].models[1].ended / 100);
  // Its requests end as dropped. Of those of the first period, and one in 0.1 s, batches run late.
  const request_counts& slow = o.models[0].counts;
  CHECK(slow.in_time == 0);
  CHECK(slow.dropped > 8'000);
  CHECK(slow.late < 100 * 10 + 90 * 10 + 10);
  CHECK(slow.late > 500); // probes
}

TEST_CASE("idle SMs and partitions are used: latencies at low rates are near those of a batch") {
  service s;
  s.shapes.resize(1);
  s.options.length = 20s;
  s.offer_model(0, 500);
  s.offer_model(1, 500);
  const service_outcome quick = s.run();
  check_conservation(quick);
  CHECK(quick.periods[0].sms == 32);
  CHECK(quick.periods[0].gpu_sms == std::vector<std::uint32_t>{32});
  s.options.fills = false;
  s.options.frontend.start = batch_start::when_due;
  const service_outcome slow = s.run();
  CHECK(slow.periods[0].sms < 32);
  s.options.frontend.start = batch_start::at_once;
  const service_outcome small = s.run();
  s.options.fills = true;
  s.options.frontend.start = batch_start::when_due;
  const service_outcome waiting = s.run();
  for (std::size_t m = 0; m < 2; ++m) {
    const auto p99 = [&](const service_outcome& o) { return o.models[m].latency.percentile(0.99); };
    CHECK(p99(quick) < 5ms);
    CHECK(p99(small) > p99(quick));
    CHECK(p99(waiting) > p99(quick));
    CHECK(p99(slow) >= p99(small));
  }
  CHECK(quick.all().violations() == 0);
}

TEST_CASE("idle GPUs are used: each of two models has one") {
  service s;
  s.shapes.assign(2, {sm_count{32}, sm_count{8}});
  s.options.length = 5s;
  s.slos = {9ms, 20ms};
  s.offer_model(0, 300);
  s.offer_model(1, 300);
  s.options.fills = false;
  CHECK(s.run().periods[0].gpu_sms[1] == 0); // one GPU is enough
  s.options.fills = true;
  const service_outcome o = s.run();
  CHECK(o.all().violations() == 0);
  if (o.periods[0].partitions > 1)
    CHECK(o.periods[0].gpu_sms == std::vector<std::uint32_t>{32, 32});
}

TEST_CASE("batches that stall are recorded, with where their time went") {
  service s;
  s.shapes.resize(1);
  s.options.length = 2s;
  s.options.replans = false;
  s.options.fills = false;
  s.slos = {100ms, 100ms};
  s.offer_model(0, 100);
  s.offer_model(1, 100);
  s.options.stall = 5ms;
  s.planner = [](const latency_table&, std::span<const model_demand>) {
    return partition_plan{
        {{0, sm_count{16}, 20ms, {{0, 100, 2}}}, {0, sm_count{16}, 20ms, {{1, 100, 2}}}}};
  };
  CHECK(s.run().stalled == 0);
  s.true_slowdown = {1, 8};
  const service_outcome slow = s.run();
  CHECK(slow.stalled > 10);
  REQUIRE(slow.stalls.size() == std::min<std::uint64_t>(slow.stalled, batch_stall::most));
  for (const batch_stall& b : slow.stalls) {
    CHECK(b.model == 1);
    CHECK(b.took > b.expected + 5ms);
    REQUIRE(b.times);
    CHECK(b.times->started == b.decided);
    CHECK(b.times->ended - b.times->started == b.took);
    CHECK_FALSE(b.behind); // it did not wait for its start
  }

  // On a runner where the batches of model 1 start when one of the other model ends.
  struct one_queue : simulated_batches {
    using simulated_batches::simulated_batches;
    [[nodiscard]] std::optional<std::uint32_t> try_end() {
      const auto partition = simulated_batches::try_end();
      if (!partition) return partition;
      const time_point at_end = now();
      if (is_of_model_1(*partition) && last_end > time_point{}) started = last_end;
      if (!is_of_model_1(*partition)) last_end = at_end;
      return partition;
    }
    void begin(const batch_run& r) {
      models.resize(std::max<std::size_t>(models.size(), r.partition + 1u));
      models[r.partition] = r.model;
      simulated_batches::begin(r);
    }
    [[nodiscard]] std::optional<batch_times> times_of_last(std::uint32_t partition) const {
      auto t = simulated_batches::times_of_last(partition);
      t->started = std::max(t->started, started);
      return t;
    }
    [[nodiscard]] bool is_of_model_1(std::uint32_t partition) const {
      return models[partition] == 1;
    }
    std::vector<std::size_t> models;
    time_point last_end{}, started{};
  };
  static_assert(tracing_batch_runner<one_queue>);
  const latency_table times = with_corrections(s.table, s.true_slowdown);
  one_queue runner(times, s.truth, s.shapes.size());
  const service_outcome queued =
      plan_service(s.table, s.slos, s.shapes, s.apps, s.options, s.planner, s.expected, runner)
          .run();
  const auto is_behind = [](const batch_stall& b) { return b.behind == std::size_t{0}; };
  CHECK(std::any_of(queued.stalls.begin(), queued.stalls.end(), is_behind));
}

TEST_CASE("ends that the host sees late change no correction, and are reported") {
  /// Sees one end in ten late.
  struct late_looks : simulated_batches {
    using simulated_batches::simulated_batches;
    [[nodiscard]] std::optional<std::uint32_t> try_end() {
      while (const auto partition = simulated_batches::try_end())
        unseen.push_back({now() + (ends++ % 10 == 0 ? late : duration{}), *partition});
      const auto at = std::find_if(unseen.begin(), unseen.end(),
                                   [&](const auto& u) { return u.first <= now(); });
      if (at == unseen.end()) return std::nullopt;
      const std::uint32_t partition = at->second;
      unseen.erase(at);
      return partition;
    }
    void wait(time_point t) {
      for (const auto& u : unseen) t = std::min(t, u.first);
      simulated_batches::wait(t);
    }
    duration late = 30ms;
    std::uint64_t ends = 0;
    std::vector<std::pair<time_point, std::uint32_t>> unseen;
  };
  /// The same, but does not know that it was late.
  struct unaware : late_looks {
    using late_looks::late_looks;
    void begin(const batch_run& r) {
      begun.resize(std::max<std::size_t>(begun.size(), r.partition + 1u));
      begun[r.partition] = now();
      simulated_batches::begin(r);
    }
    [[nodiscard]] duration least_time_of_last(std::uint32_t partition) const {
      return now() - begun[partition];
    }
    std::vector<time_point> begun;
  };
  service s;
  s.options.length = 40s;
  s.options.period = 5s;
  s.offer_model(0, 200);
  s.offer_model(1, 200);
  const auto run_on = [&](auto runner) {
    return plan_service(s.table, s.slos, s.shapes, s.apps, s.options, s.planner, s.expected, runner)
        .run();
  };
  const service_outcome o = run_on(late_looks(s.table, s.truth, s.shapes.size()));
  const service_outcome without = run_on(unaware(s.table, s.truth, s.shapes.size()));
  check_conservation(o);
  for (std::size_t m = 0; m < 2; ++m) {
    CHECK(o.periods.back().corrections[m] == 1);
    CHECK(o.periods.back().margins[m] == 1);
    CHECK(o.periods[2].models[m].violated > o.periods[2].models[m].ended / 100);
    CHECK(o.periods[2].models[m].host > 0.05);
    const auto ends = static_cast<double>(o.models[m].batches);
    CHECK(to_s(o.models[m].host) == doctest::Approx(ends / 10 * 0.03).epsilon(0.2));
    CHECK(without.periods.back().corrections[m] > 1.5);
    CHECK(without.models[m].host == duration{});
  }
  s.true_slowdown = {1.6, 1.6}; // what is slow all the same is corrected
  const latency_table times = with_corrections(s.table, s.true_slowdown);
  const service_outcome slow = run_on(late_looks(times, s.truth, s.shapes.size()));
  for (std::size_t m = 0; m < 2; ++m)
    CHECK(slow.periods.back().corrections[m] == doctest::Approx(1.6).epsilon(0.1));
}

TEST_CASE("replanning follows rates that jump tenfold, and reports rates that are too high") {
  service s;
  s.options.length = 100s;
  s.options.period = 10s;
  s.options.fills = false;
  s.offer(app_of_model("m0", 0, 20ms), {{at(0s), 400}},
          rate_curve{{at(0s), 400}, {at(25s), 4000}, {at(55s), 400}});
  s.offer_model(1, 100);
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(o.switches >= 2);
  CHECK(o.periods[1].violated < o.periods[1].ended / 100);
  CHECK(o.periods[5].sms > 2 * o.periods[0].sms); // looked at when it had risen
  CHECK(o.periods[8].sms < o.periods[5].sms);
  CHECK(o.periods[8].violated < o.periods[8].ended / 100);
  CHECK(o.periods[4].violated < o.periods[4].ended / 20);

  s.apps[0].actual[1].rate = testing::sanitized ? 40000 : 400000; // which nothing can serve
  const service_outcome over = s.run();
  check_conservation(over);
  bool told_so = false;
  for (const period_outcome& p : over.periods) told_so |= p.factor < 1;
  CHECK(told_so);
  CHECK(over.apps[0].in_time > 25 * 400 + 3 * 10 * 3000);
}

TEST_CASE("a later plan that cannot be made leaves the one before in place") {
  service s;
  s.options.length = 60s;
  s.options.period = 5s;
  s.offer(app_of_model("m0", 0, s.slos[0]), {{at(0s), 50}},
          rate_curve{{at(0s), 50}, {at(20s), 200}});
  const planner_function good = s.planner;
  std::size_t plans = 0;
  s.planner = [&](const latency_table& t, std::span<const model_demand> d) {
    if (d[0].rate > 100 && ++plans > 0) throw error(errc::too_small, "no graph left");
    return good(t, d);
  };
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(plans > 0);
  CHECK(o.failed_plans == plans);
  CHECK(o.switches == 0);
  REQUIRE(o.plan_failure);
  CHECK_THROWS_WITH_AS(std::rethrow_exception(o.plan_failure), doctest::Contains("no graph left"),
                       error);
  CHECK(o.apps[0].in_time > 9 * o.apps[0].arrived / 10); // by the first plan, which has room
  s.planner = [&](const latency_table& t, std::span<const model_demand> d) { // a planner's mistake
    if (d[0].rate > 100) throw std::runtime_error("a wrong plan");
    return good(t, d);
  };
  CHECK_THROWS_WITH_AS(static_cast<void>(s.run()), doctest::Contains("a wrong plan"),
                       std::runtime_error);
  s.planner = [](const latency_table&,
                 std::span<const model_demand>) -> std::optional<partition_plan> {
    throw error(errc::too_small, "no graph at all");
  };
  CHECK_THROWS_WITH_AS(static_cast<void>(s.run()), doctest::Contains("no graph at all"), error);
}

TEST_CASE("switching plans all the time delays no request") {
  service s;
  s.options.length = 30s;
  s.options.period = 100ms;
  s.options.replanning = {1.6, 0, 0, 1, 0};
  s.offer_model(0, 1000);
  s.offer_model(1, 1000);
  const service_outcome changing = s.run();
  check_conservation(changing);
  CHECK(changing.switches > 30);
  s.options.replans = false;
  const service_outcome still = s.run();
  CHECK(still.switches == 0);
  CHECK(changing.all().violations() < still.all().violations() + 0.002);
}

TEST_CASE("an app is in time if all of its answers are") {
  service s;
  s.options.length = 20s;
  s.options.replanning.headroom = 4;
  s.offer({"fan", 40ms, {{0, 1, {}}, {1, 3, {0}}, {0, 2, {0}}, {1, 1, {1, 2}}}}, {{at(0s), 100}});
  const service_outcome o = s.run();
  check_conservation(o);
  const std::uint64_t n = o.apps[0].arrived;
  CHECK(o.models[0].counts.arrived == 3 * n); // nothing was dropped, so all stages came
  CHECK(o.models[1].counts.arrived == 4 * n);
  CHECK(o.apps[0].violations() < 0.01);
  CHECK(o.apps[0].latency.min() >= 3 * 1ms); // three stages, one after the other
  s.apps[0].definition.slo = 1ms;
  const service_outcome late = s.run();
  CHECK(late.apps[0].in_time == 0);
  CHECK(late.apps[0].late == n);
  // Without GPUs every request fails at its first stage.
  s.shapes.clear();
  const service_outcome none = s.run();
  check_conservation(none);
  CHECK(none.apps[0].dropped == n);
  CHECK(none.models[1].counts.arrived == 0);
  CHECK(none.periods[0].no_plan);
  s.apps[0].definition.stages[0].after = {1};
  CHECK_THROWS_AS(static_cast<void>(s.run()), error);
}

TEST_CASE("large numbers of GPUs and long runs are fast") {
  service s;
  s.shapes.assign(40, gpu_shape{sm_count{32}, sm_count{8}});
  s.options.length = 600s;
  s.offer_model(0, 1000);
  s.offer_model(1, 500);
  const service_outcome o = s.run();
  check_conservation(o);
  CHECK(o.all().arrived > 800000);
}
