// SPDX-License-Identifier: Apache-2.0
#include "cuda/c_abi_fake.hpp"
#include "cuda/c_abi_rig.hpp"

#include "plan_settings.hpp"
#include "server.hpp"

#include <gsched/io/machine_json.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/server/plan_server.hpp>
#include <gsched/serving/paced_batches.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

const std::string shipped = std::string(GSCHED_SOURCE_DIR) + "/tools/data/";
const std::string shipped_table = shipped + "latency_batch_partition.csv";

[[nodiscard]] gsched_plan_options plan_options() {
  gsched_plan_options o = abi::default_plan_options();
  o.table = shipped_table.c_str();
  return o;
}

/// LeNet and ResNet-50 in batches of 1, 2, 4 and 8, two graphs of each, with two inputs of 4 and 8
/// bytes a request, and one output of 8.
struct two_models {
  std::vector<std::array<gsched_buffer, 3>> buffers{4};
  std::vector<gsched_plan_graph> graphs;
  std::array<gsched_plan_model, 2> models{};
  char memory = 0;

  two_models() {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint64_t batch = 1u << i;
      buffers[i] = {gsched_buffer{&memory, 4 * batch}, {&memory, 8 * batch}, {&memory, 8 * batch}};
    }
    for (int copy = 0; copy < 2; ++copy)
      for (std::size_t i = 0; i < 4; ++i) {
        gsched_plan_graph& g = graphs.emplace_back();
        g.size = sizeof g;
        g.batch = 1u << i;
        g.graph = &memory;
        g.inputs = buffers[i].data();
        g.outputs = buffers[i].data() + 2;
      }
    for (gsched_plan_model& m : models) {
      m.size = sizeof m;
      m.graphs = graphs.data();
      m.graphs_count = static_cast<std::uint32_t>(graphs.size());
      m.inputs = 2;
      m.outputs = 1;
      m.slo_us = 5e6;
      m.rate = 100;
    }
    models[0].name = "lenet";
    models[1].name = "resnet50";
  }
  [[nodiscard]] std::vector<abi::plan_model_shape> shapes() const {
    return abi::shapes_of(models.data(), 2);
  }
};

/// VGG16's batches take longer than LeNet may, and the GPU cannot be cut.
struct too_short_to_wait : two_models {
  too_short_to_wait() {
    models[0].slo_us = 600;
    models[1].name = "vgg16";
    models[1].slo_us = 100e3;
  }
  [[nodiscard]] std::vector<model_demand> demands() const {
    return {{0, 100, from_us(600)}, {1, 100, from_us(100e3)}};
  }
};

/// Gives 10 a + b + model.
void compute(std::size_t model, std::span<const void* const> in, std::span<void* const> out) {
  if (in[0] == nullptr || in[1] == nullptr || out[0] == nullptr) return;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
  std::memcpy(&a, in[0], sizeof a);
  std::memcpy(&b, in[1], sizeof b);
  b += 10ull * a + model;
  std::memcpy(out[0], &b, sizeof b);
}

constexpr gpu_shape in_groups{sm_count{132}, sm_count{8}}, uncut{sm_count{132}, sm_count{132}};

struct plan_rig {
  explicit plan_rig(const two_models& m = {}, const gsched_plan_options& o = plan_options(),
                    const gpu_shape& gpu = in_groups)
      : plan_rig(abi::plan_settings_of(o), m.shapes(), gpu) {}
  plan_rig(const abi::plan_settings& how, std::span<const abi::plan_model_shape> models,
           const gpu_shape& gpu)
      : plan_rig(how, abi::offer_of(how, models, gpu, limits_for(9, 0))) {}
  plan_rig(const abi::plan_settings& how, abi::foreseen_offer offer)
      : served(offer.options(how)),
        it(std::make_unique<plan_server>(
               std::move(offer),
               [](const latency_table& t, const interference_function& f) {
                 return paced_batches(t, f, 1, {}, compute);
               },
               served, [](auto&) { return fake_event::source(); }),
           [](void* stream) { return static_cast<fake_event*>(stream)->mark(); },
           {"as was found", [](const partition_plan& p) {
              return std::to_string(p.gpulets.size()) + " of them";
            }}) {}

  plan_server_options served;
  abi::server it;
};

struct plan_question {
  std::uint32_t a = 0;
  std::uint64_t b = 0, out = 0;
  std::array<const void*, 2> inputs{&a, &b};
  std::array<void*, 1> outputs{&out};
  gsched_ticket* ticket = nullptr;

  [[nodiscard]] gsched_request request(std::uint32_t model) {
    gsched_request r{};
    r.size = sizeof r;
    r.model = model;
    r.inputs = inputs.data();
    r.outputs = outputs.data();
    return r;
  }
};

} // namespace

TEST_CASE("c abi plan: requests have their own answers, and all ways to wait for them work") {
  plan_rig rig;
  std::vector<plan_question> all(200);
  for (std::size_t i = 0; i < all.size(); ++i) {
    plan_question& q = all[i];
    q.a = static_cast<std::uint32_t>(i);
    q.b = 1000 * i;
    gsched_request r = q.request(i % 2);
    r.collected = i % 4 == 3;
    rig.it.submit(r, &q.ticket);
  }
  std::size_t collected = 0;
  while (collected < all.size() / 4) {
    std::array<gsched_ticket*, 16> ended{};
    const std::uint32_t n = rig.it.collect(ended.data(), ended.size(), 20 * second_us);
    for (std::uint32_t i = 0; i < n; ++i) abi::server::release(*ended[i]);
    collected += n;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    plan_question& q = all[i];
    if (i % 4 != 3) {
      REQUIRE(abi::server::wait(*q.ticket, 20 * second_us));
      const gsched_report r = abi::server::status(*q.ticket);
      REQUIRE(r.state == GSCHED_FINISHED);
      REQUIRE(r.end_ns >= r.start_ns);
      abi::server::release(*q.ticket);
    }
    REQUIRE(q.out == 10ull * q.a + q.b + i % 2);
  }
  const gsched_plan_report p = rig.it.plan_report();
  CHECK(p.partitions >= 1);
  CHECK(p.sms >= 8);
  CHECK(p.sms + p.idle_sms == in_groups.sms.count());
  CHECK(p.factor > 0);
  CHECK(p.batches >= all.size() / 8);
  CHECK(p.batches < all.size());
  CHECK(p.failed_plans == 0);
  CHECK(p.last_failure[0] == 0);
  CHECK(std::string(p.warning) == "as was found");
  CHECK(std::string(p.beyond_fit) == std::to_string(p.partitions) + " of them");
  const gsched_plan_model_report m = rig.it.plan_model_report(1);
  CHECK(m.arrived == all.size() / 2);
  CHECK(m.in_time + m.late == all.size() / 2);
  CHECK(m.p99_us >= m.p50_us);
  CHECK(m.slow_down > 0);
  CHECK(m.host_part >= 0);
  CHECK(m.host_part < 1);
  CHECK(m.partitions >= 1);
  CHECK(m.sms >= 8);
  CHECK(m.sms <= p.sms);
  CHECK(m.time_factor >= 1);
  CHECK(m.rate_factor >= 1);
  CHECK(m.too_slow == 0);
  const gsched_statistics s = rig.it.statistics();
  CHECK(s.finished == all.size());
  CHECK(s.submitted == s.active + s.finished + s.failed + s.rejected + s.cancelled);
  std::string why;
  CHECK(close(rig.it, GSCHED_DRAIN, -1, why) == GSCHED_OK);
  CHECK(rig.it.plan_report().batches == p.batches);
}

TEST_CASE("c abi plan: with at_once a request does not wait for others") {
  plan_rig rig;
  CHECK(plan_options().at_once == 1);
  for (int i = 0; i < 5; ++i) {
    plan_question q;
    rig.it.submit(q.request(1), &q.ticket);
    REQUIRE(abi::server::wait(*q.ticket, 20 * second_us));
    const gsched_report r = abi::server::status(*q.ticket);
    CHECK(r.state == GSCHED_FINISHED);
    CHECK(r.start_ns - r.arrival_ns < 1'000'000'000); // else it waits for most of its 5 s
    abi::server::release(*q.ticket);
  }
}

TEST_CASE(
    "c abi plan: a stream is waited for, a waiting request cancelled, buffers may be left out") {
  plan_rig rig;
  fake_event stream;
  plan_question waits, cut;
  gsched_request r = waits.request(0);
  r.wait_stream = &stream;
  rig.it.submit(r, &waits.ticket);
  r = cut.request(0);
  r.wait_stream = &stream;
  rig.it.submit(r, &cut.ticket);
  CHECK_FALSE(abi::server::wait(*waits.ticket, 20'000));
  CHECK(abi::server::cancel(*cut.ticket));
  CHECK(abi::server::wait(*cut.ticket, 20 * second_us));
  CHECK(abi::server::status(*cut.ticket).state == GSCHED_CANCELLED);
  waits.a = 7;
  stream.code = 0;
  CHECK(abi::server::wait(*waits.ticket, 20 * second_us));
  CHECK(waits.out == 70);
  fake_event signal;
  plan_question none;
  r = none.request(1);
  r.outputs = nullptr;
  r.signal_event = &signal;
  rig.it.submit(r, &none.ticket);
  CHECK(abi::server::wait(*none.ticket, 20 * second_us));
  CHECK(abi::server::status(*none.ticket).state == GSCHED_FINISHED);
  CHECK(none.out == 0);
  CHECK(signal.records == 1);
  for (const plan_question* q : {&waits, &cut, &none}) abi::server::release(*q->ticket);
  CHECK(stream.marks == 0);
}

TEST_CASE("c abi plan: what a server of a plan does not have is refused in one line") {
  plan_rig rig;
  plan_question q;
  std::string line;
  gsched_request r = q.request(0);
  r.deadline_us = 5000;
  CHECK(code_of([&] { rig.it.submit(r, &q.ticket); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("deadline_us") == 0);
  r = q.request(2);
  CHECK(code_of([&] { rig.it.submit(r, &q.ticket); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("model 2") == 0);
  CHECK(code_of([&] { static_cast<void>(rig.it.facts(0)); }) == GSCHED_BAD_ARGUMENT);
  CHECK(code_of([&] {
          static_cast<void>(rig.it.add_model({}, [] {
            FAIL("its graphs were read");
            return std::unique_ptr<abi::model>();
          }));
        }) == GSCHED_BAD_ARGUMENT);
  CHECK(code_of([&] { static_cast<void>(rig.it.plan_model_report(2)); }, &line) ==
        GSCHED_BAD_ARGUMENT);
  CHECK(line.find("model 2") == 0);
  server_rig other;
  CHECK(code_of([&] { static_cast<void>(other.it.plan_report()); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("gsched_plan_open") != std::string::npos);
}

TEST_CASE("c abi plan: an option out of range is refused by its name") {
  const auto refused = [](auto change, const char* name) {
    gsched_plan_options o = plan_options();
    change(o);
    std::string line;
    const gsched_code code = code_of([&] { static_cast<void>(abi::plan_settings_of(o)); }, &line);
    CHECK(code == GSCHED_BAD_ARGUMENT);
    CHECK_MESSAGE(line.find(name) != std::string::npos, line);
  };
  refused([](auto& o) { o.gpu = -1; }, "gpu");
  static constexpr std::int32_t several[] = {1, 0, 1, -1};
  const auto on = [](std::uint32_t from, std::uint32_t count) {
    return [=](auto& o) { o.gpus = several + from, o.gpus_count = count; };
  };
  refused(on(0, 3), "gpus: expected each GPU once");
  refused(on(2, 2), "gpus: expected 0 or more each");
  refused(on(0, 0), "gpus, gpus_count: expected both or none");
  refused(on(0, 65), "gpus_count: expected at most 64");
  refused([](auto& o) { o.gpus_count = 1; }, "gpus, gpus_count: expected both or none");
  refused([&](auto& o) { on(0, 2)(o), o.gpu = 2; }, "gpu: expected 0 or gpus[0]");
  refused([](auto& o) { o.reserved = 1; }, "reserved: expected 0");
  refused([](auto& o) { o.table = nullptr; }, "table");
  refused([](auto& o) { o.planner = "sbp"; }, "planner");
  refused([](auto& o) { o.planner = nullptr; }, "planner");
  refused([](auto& o) { o.planner = "sbp+share"; }, "planner");
  refused([](auto& o) { o.planner = "+share"; }, "planner");
  refused([](auto& o) { o.planner = "best+int"; }, "planner");
  refused([](auto& o) { o.planner = "best+share"; }, "interference, solo: expected both");
  refused([](auto& o) { o.profiles = "x"; }, "profiles: expected NULL");
  refused(
      [](auto& o) {
        o.planner = "best+share";
        o.interference = o.solo = "x";
        o.profiles = "";
      },
      "profiles: expected a folder");
  refused([](auto& o) { o.solo = "x"; }, "solo");
  refused([](auto& o) { o.replans = 2; }, "replans");
  refused([](auto& o) { o.at_once = 2; }, "at_once");
  refused([](auto& o) { o.period_us = 0; }, "period_us");
  refused([](auto& o) { o.headroom = 0; }, "headroom");
  refused([](auto& o) { o.tolerance = -1; }, "tolerance");
  refused([](auto& o) { o.fall = 2; }, "fall");
  refused([](auto& o) { o.added_us = std::numeric_limits<double>::quiet_NaN(); }, "added_us");
  refused([](auto& o) { o.watchdog_ms = 0; }, "watchdog_ms");
  refused([](auto& o) { o.spare = 1u << 20; }, "spare");
  refused([](auto& o) { o.learns = 1; }, "learns: expected 0 without interference and solo");
  const auto with_files = [](auto& o) { o.interference = o.solo = "x"; };
  refused([&](auto& o) { with_files(o), o.learns = 2; }, "learns: expected 0 or 1");
  refused([&](auto& o) { with_files(o), o.learns = 1, o.replans = 0; },
          "learns: expected 0 without replans");
}

TEST_CASE("c abi plan: a bad model is refused by its field") {
  const auto refused = [](auto change, const char* text) {
    two_models m;
    change(m);
    std::string line;
    CHECK(code_of([&] { static_cast<void>(m.shapes()); }, &line) == GSCHED_BAD_ARGUMENT);
    CHECK_MESSAGE(line.find(text) != std::string::npos, line);
  };
  refused([](two_models& m) { m.models[1].name = "lenet"; }, "lenet: twice");
  refused([](two_models& m) { m.models[0].name = nullptr; }, "name");
  refused([](two_models& m) { m.models[0].graphs_count = 0; }, "lenet.graphs");
  refused([](two_models& m) { m.models[0].slo_us = 0; }, "lenet.slo_us");
  refused([](two_models& m) { m.models[0].rate = -1; }, "lenet.rate");
  refused([](two_models& m) { m.models[1].size = 8; }, "gsched_plan_model.size: 8 of model 1");
  refused([](two_models& m) { m.graphs[3].graph = nullptr; }, "graph 3.graph");
  refused([](two_models& m) { m.graphs[3].batch = 0; }, "graph 3.batch");
  refused([](two_models& m) { m.graphs[3].batch = 7; }, "of 7 requests");
  refused([](two_models& m) { m.graphs[3].batch = 4; }, "graph 3: other bytes");
  refused([](two_models& m) { m.graphs[3].inputs = nullptr; }, "graph 3.inputs: NULL");
  refused([](two_models& m) { m.graphs[2].size = 8; }, "gsched_plan_graph.size: 8 of graph 2");
  refused([](two_models& m) { m.graphs[2].gpu = 1; }, "graph 2.gpu: 1, expected less than 1");
  refused([](two_models& m) { m.graphs[2].reserved = 1; }, "graph 2.reserved: expected 0");
  two_models m;
  CHECK(code_of([&] { static_cast<void>(abi::shapes_of(nullptr, 1)); }) == GSCHED_BAD_ARGUMENT);
  CHECK(code_of([&] { static_cast<void>(abi::shapes_of(m.models.data(), 0)); }) ==
        GSCHED_BAD_ARGUMENT);
}

TEST_CASE("c abi plan: a model has graphs of the same batches on each GPU") {
  two_models m;
  const auto shapes = [&] { return abi::shapes_of(m.models.data(), 2, 2); };
  std::string line;
  CHECK(code_of([&] { static_cast<void>(shapes()); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "lenet.graphs: other batch sizes on gpus[1] than on gpus[0], expected the same");
  for (std::size_t i = 4; i < 8; ++i) m.graphs[i].gpu = 1;
  for (const abi::plan_model_shape& s : shapes())
    CHECK(s.batches == std::vector<std::uint32_t>{1, 2, 4, 8});
  m.graphs[7].gpu = 0;
  CHECK(code_of([&] { static_cast<void>(shapes()); }) == GSCHED_BAD_ARGUMENT);
}

TEST_CASE("c abi plan: graphs of a caller who knows no GPU of theirs are on the first one") {
  struct older_graph { // as the first version of the header had it
    std::uint32_t size, batch;
    void* graph;
    const gsched_buffer *inputs, *outputs;
  };
  two_models m;
  std::vector<older_graph> older;
  for (const gsched_plan_graph& g : m.graphs)
    older.push_back({sizeof(older_graph), g.batch, g.graph, g.inputs, g.outputs});
  for (gsched_plan_model& each : m.models)
    each.graphs = reinterpret_cast<const gsched_plan_graph*>(older.data());
  CHECK(m.shapes()[1].batches == std::vector<std::uint32_t>{1, 2, 4, 8});
}

TEST_CASE("c abi plan: plans are for all GPUs") {
  static constexpr std::int32_t both[] = {3, 1};
  gsched_plan_options o = plan_options();
  o.gpus = both;
  o.gpus_count = 2;
  const abi::plan_settings how = abi::plan_settings_of(o);
  CHECK(how.gpus == std::vector{3, 1});
  const two_models m;
  abi::foreseen_offer one =
      abi::offer_of(abi::plan_settings_of(plan_options()), m.shapes(), in_groups, limits_for(9, 0));
  abi::foreseen_offer two = abi::offer_of(how, m.shapes(), in_groups, limits_for(9, 0));
  CHECK(one.shapes.size() == 1);
  CHECK(two.shapes == std::vector{in_groups, in_groups});
  double most = 1000; // ResNet-50's requests a second on one GPU
  const auto demands = [&] {
    return std::vector<model_demand>{{0, 10, from_us(5000)}, {1, most, from_us(20000)}};
  };
  while (one.planner(one.table, demands())) most *= 1.1;
  most *= 1.5;
  const auto plan = two.planner(two.table, demands());
  REQUIRE(plan);
  std::array<bool, 2> used{};
  for (const gpulet& g : plan->gpulets) used[g.gpu] = true;
  CHECK(used == std::array{true, true});
}

TEST_CASE("c abi plan: batches are planned with the copies of their requests' data") {
  const two_models m;
  const auto offer = [&](const copy_times& copies) {
    return abi::offer_of(abi::plan_settings_of(plan_options()), m.shapes(), in_groups,
                         limits_for(9, 0), copies);
  };
  const abi::foreseen_offer without = offer({}), with = offer({from_us(2), 1, 2});
  for (std::size_t model = 0; model < 2; ++model) {
    const abi::plan_model_shape shape = m.shapes()[model];
    const auto us = [](const std::vector<std::uint64_t>& buffers, double bytes_per_ns) {
      double sum = 0;
      for (const std::uint64_t bytes : buffers)
        sum += 2 + static_cast<double>(bytes) / bytes_per_ns / 1e3;
      return sum;
    };
    const double expected = 4 * (us(shape.inputs, 1) + us(shape.outputs, 2));
    REQUIRE(expected > 0);
    const duration added =
        with.table.latency(model, 4, sm_count{64}) - without.table.latency(model, 4, sm_count{64});
    CHECK(to_us(added) == doctest::Approx(expected).epsilon(0.001));
  }
}

TEST_CASE("c abi plan: files are read, and each planner plans") {
  const auto offer = [](const gsched_plan_options& o, const char* name = "lenet") {
    two_models m;
    m.models[0].name = name;
    return abi::offer_of(abi::plan_settings_of(o), m.shapes(), in_groups, limits_for(9, 0));
  };
  std::string line;
  gsched_plan_options o = plan_options();
  CHECK(code_of([&] { static_cast<void>(offer(o, "lenot")); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "model 'lenot': not in the latency table, expected one of it");
  o.table = "/nonexistent.csv";
  CHECK(code_of([&] { static_cast<void>(offer(o)); }, &line) == GSCHED_IO);
  o = plan_options();
  o.sms = 4;
  CHECK(code_of([&] { static_cast<void>(offer(o)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line.find("sms: 4, expected 8 to 132") == 0);
  o = plan_options();
  const std::string law = shipped + "interference/h200.json", solo = shipped + "solo_metrics.csv";
  for (const char* planner : {"elastic", "best", "ideal"})
    for (const bool beside : {false, true}) {
      o.planner = planner;
      o.interference = beside ? law.c_str() : nullptr;
      o.solo = beside ? solo.c_str() : nullptr;
      o.sms = 120;
      const abi::foreseen_offer made = offer(o);
      CHECK(made.table.size() == 2);
      CHECK(made.table.name(1) == "resnet50");
      CHECK(made.shapes[0].sms == sm_count{120});
      CHECK(static_cast<bool>(made.expected) == beside);
      CHECK(static_cast<bool>(made.beyond_fit) == beside);
      const std::vector<model_demand> demands{{0, 5000, from_us(5000)}, {1, 300, from_us(20000)}};
      const auto plan = made.planner(made.table, demands);
      REQUIRE(plan);
      CHECK_FALSE(plan->gpulets.empty());
      if (!beside) continue;
      partition_plan many;
      for (int i = 0; i < 3; ++i) many.gpulets.push_back({0, sm_count{8}, from_us(9), {{0, 1, 1}}});
      CHECK(made.beyond_fit(many) == "graphs");
      many.gpulets.pop_back();
      CHECK(made.beyond_fit(many).empty());
    }
}

TEST_CASE("c abi plan: with learns, plans and expected slow-downs are by the factors learned") {
  const std::string law = shipped + "interference/h200.json", solo = shipped + "solo_metrics.csv";
  gsched_plan_options o = plan_options();
  o.interference = law.c_str();
  o.solo = solo.c_str();
  const two_models m;
  const auto offer = [&] {
    return abi::offer_of(abi::plan_settings_of(o), m.shapes(), in_groups, limits_for(9, 0));
  };
  CHECK_FALSE(offer().learning);
  o.learns = 1;
  const abi::foreseen_offer made = offer();
  REQUIRE(made.learning);
  const plan_rules same = made.learning->rules(std::vector<corun_factors>(2));
  const plan_rules other = made.learning->rules(std::vector<corun_factors>{{3, 1}, {1, 2}});
  const std::vector<gpulet> beside{{0, sm_count{64}, {}, {{0, 1, 8}}},
                                   {0, sm_count{64}, {}, {{1, 1, 8}}}};
  const auto slow_down = [&](const interference_function& f, std::size_t model) {
    return f(beside, model, model);
  };
  for (const std::size_t model : {std::size_t{0}, std::size_t{1}})
    CHECK(slow_down(same.expected, model) == slow_down(made.expected, model));
  CHECK(slow_down(other.expected, 0) > 1 + 3 * (slow_down(made.expected, 0) - 1));
  CHECK(slow_down(other.expected, 1) == slow_down(made.expected, 1));
  const std::vector<model_demand> demands{{0, 20000, from_us(5000)}, {1, 3000, from_us(20000)}};
  const auto plan = made.planner(made.table, demands);
  REQUIRE(plan);
  CHECK(same.planner(made.table, demands)->gpulets == plan->gpulets);
  const auto slower = other.planner(made.table, demands);
  CHECK((!slower || slower->gpulets != plan->gpulets));
}

TEST_CASE("c abi plan: what was learned is reported by model") {
  const std::string law = shipped + "interference/h200.json", solo = shipped + "solo_metrics.csv";
  gsched_plan_options o = plan_options();
  o.interference = law.c_str();
  o.solo = solo.c_str();
  for (const std::uint32_t learns : {0u, 1u}) {
    CAPTURE(learns);
    o.learns = learns;
    plan_rig rig({}, o);
    std::vector<plan_question> all(400);
    for (std::size_t i = 0; i < all.size(); ++i)
      rig.it.submit(all[i].request(i % 2), &all[i].ticket);
    for (plan_question& q : all) {
      REQUIRE(abi::server::wait(*q.ticket, 20 * second_us));
      abi::server::release(*q.ticket);
    }
    std::uint64_t from = 0;
    for (const std::uint32_t model : {0u, 1u}) {
      const gsched_plan_model_report r = rig.it.plan_model_report(model);
      from += r.learned_from;
      CHECK((r.sensitivity_error > 0) == (learns == 1));
      CHECK((r.pressure_error > 0) == (learns == 1));
      if (learns == 1) continue;
      CHECK(r.sensitivity == 1);
      CHECK(r.pressure == 1);
    }
    CHECK((from > 0) == (learns == 1));
  }
}

TEST_CASE("c abi plan: a planner with +share puts models on the same SMs, where there is no plan "
          "otherwise or a larger one") {
  const std::string law = shipped + "interference/h200.json", solo = shipped + "solo_metrics.csv",
                    profiles = shipped + "profiles";
  std::string with; // `o` refers to all of these
  gsched_plan_options o = plan_options();
  o.interference = law.c_str();
  o.solo = solo.c_str();
  const too_short_to_wait m;
  const auto offer = [&](const gpu_shape& gpu) {
    return abi::offer_of(abi::plan_settings_of(o), m.shapes(), gpu, limits_for(9, 0));
  };
  const auto plan_on = [&](const gpu_shape& gpu) {
    const plan_offer made = offer(gpu);
    return made.planner(made.table, m.demands());
  };
  for (const char* planner : {"elastic", "best", "ideal"}) {
    o.planner = planner;
    CHECK_FALSE(plan_on(uncut));
    const auto apart = plan_on(in_groups);
    REQUIRE(apart);
    with = std::string(planner) + "+share";
    o.planner = with.c_str();
    CHECK(plan_on(in_groups) == apart);
    for (const char* folder : {static_cast<const char*>(nullptr), profiles.c_str()}) {
      if (folder != nullptr && with != "best+share") continue; // the slow-downs do not depend on it
      o.profiles = folder;
      const plan_offer made = offer(uncut);
      const auto plan = made.planner(made.table, m.demands());
      REQUIRE(plan);
      REQUIRE(plan->gpulets.size() == 2);
      CHECK(share_sms(plan->gpulets[0], plan->gpulets[1]));
      CHECK(made.expected(plan->gpulets, 0, plan->gpulets[0].portions[0].model) >
            1.19); // the margin
    }
    o.profiles = nullptr;
  }
  std::string line;
  o.profiles = "/nonexistent";
  CHECK(code_of([&] { static_cast<void>(offer(uncut)); }, &line) == GSCHED_IO);
  CHECK(line.find("profiles: /nonexistent: ") == 0);
  // LeNet's metrics are of a batch that it has no graph of.
  const std::string few = std::filesystem::temp_directory_path() /
                          ("gsched_solo_" + std::to_string(::getpid()) + ".csv");
  {
    std::ifstream from(solo);
    std::ofstream to(few);
    for (std::string row; std::getline(from, row);)
      if (!row.starts_with("lenet,") || row.starts_with("lenet,32,")) to << row << '\n';
  }
  o.profiles = nullptr;
  o.solo = few.c_str();
  CHECK(code_of([&] { static_cast<void>(offer(uncut)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line ==
        "planner ideal+share: no profile or metrics of lenet in batches up to 8, expected one");
  std::filesystem::remove(few);
}

TEST_CASE(
    "c abi plan: files that were measured on another GPU are refused, by other versions noted") {
  namespace fs = std::filesystem;
  const machine here = load_machine(shipped + "machine.json");
  const fs::path home =
      fs::temp_directory_path() / ("gsched_machines_" + std::to_string(::getpid()));
  const auto put = [&](const char* folder, const machine& m) {
    fs::create_directories(home / folder);
    std::ofstream to(home / folder / "machine.json");
    write_machine(to, m);
    return (home / folder / "any.csv").string();
  };
  machine h100 = here, later = here;
  h100.gpu = "NVIDIA H100";
  later.driver = "590.1";
  const std::string of_other = put("other", h100), of_later = put("later", later),
                    unknown = (home / "a/b/none.csv").string();
  fs::create_directories(home / "profiles");
  fs::copy_file(home / "other/machine.json", home / "profiles/machine.json");
  const std::string law = shipped + "interference/h200.json", solo = shipped + "solo_metrics.csv",
                    profiles = (home / "profiles").string();
  gsched_plan_options o = plan_options();
  o.planner = "best+share";
  o.interference = law.c_str();
  o.solo = solo.c_str();
  const auto compare = [&](const machine& with) {
    return abi::compare_machines(abi::plan_settings_of(o), with);
  };
  CHECK(compare(here).empty());
  std::string line;
  CHECK(code_of([&] { static_cast<void>(compare(h100)); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(line == "table " + shipped_table +
                    ": measured on NVIDIA H200, not NVIDIA H100 as here, expected measurements of "
                    "this GPU");
  const auto refused = [&](const char*& field, const std::string& file, const char* name) {
    const char* const before = std::exchange(field, file.c_str());
    CHECK(code_of([&] { static_cast<void>(compare(here)); }, &line) == GSCHED_BAD_ARGUMENT);
    CHECK_MESSAGE(line.find(name + (" " + file) + ": measured on NVIDIA H100, not") == 0, line);
    field = before;
  };
  refused(o.interference, of_other, "interference");
  refused(o.solo, of_other, "solo");
  refused(o.profiles, profiles, "profiles");
  machine newer = here;
  newer.driver = "600.2";
  o.table = unknown.c_str();
  o.interference = o.solo = of_later.c_str();
  const std::string of_unknown =
      "table " + unknown + ": no machine.json beside it, so its GPU is unknown";
  CHECK(compare(newer) == of_unknown + "; interference " + of_later +
                              ": measured with driver 590.1, not 600.2 as here");
  o.solo = solo.c_str();
  newer.cuda = "13.1";
  CHECK(compare(newer) == of_unknown + "; interference " + of_later +
                              ": measured with driver 590.1, not 600.2; CUDA 13.0, not 13.1 as "
                              "here; solo " +
                              solo + ": measured with CUDA 13.0, not 13.1 as here");
  machine with_torch = here;
  with_torch.libraries = {{"cudnn", "91900"}, {"torch", "2.11.0"}};
  const std::string of_torch = put("torch", with_torch);
  o.interference = law.c_str();
  o.table = of_torch.c_str();
  CHECK(compare(here).empty()); // without versions of libraries
  o.libraries = "torch=2.12.0,cudnn=91900,triton=3.6.0";
  CHECK(compare(here) == "table " + of_torch + ": measured with torch 2.11.0, not 2.12.0 as here");
  for (const char* wrong : {"torch", "torch=", "=2", "a=1,a=2", "a=1,,b=2", ","}) {
    CAPTURE(wrong);
    o.libraries = wrong;
    CHECK(code_of([&] { static_cast<void>(abi::plan_settings_of(o)); }, &line) ==
          GSCHED_BAD_ARGUMENT);
    CHECK(line.find("libraries: '") == 0);
  }
  fs::remove_all(home);
}

TEST_CASE("c abi plan: of files without machine.json it is noted that their GPU is unknown") {
  namespace fs = std::filesystem;
  const fs::path home =
      fs::temp_directory_path() / ("gsched_unknown_" + std::to_string(::getpid()));
  const auto put = [&](const char* file) {
    fs::create_directories((home / file).parent_path());
    std::ofstream(home / file) << "any";
    return (home / file).string();
  };
  const std::string table = put("a/b/latency.csv"), solo = put("a/b/solo.csv"),
                    profiles = fs::path(put("a/b/profiles/net_b1.json")).parent_path().string(),
                    law = put("c/d/law.json"),
                    others = fs::path(put("e/f/net_b1.json")).parent_path();
  const std::string unknown = ": no machine.json beside it, so its GPU is unknown";
  gsched_plan_options o = plan_options();
  const auto compare = [&] {
    return abi::compare_machines(abi::plan_settings_of(o), load_machine(shipped + "machine.json"));
  };
  CHECK(compare().empty()); // those that ship
  o.table = table.c_str();
  CHECK(compare() == "table " + table + unknown);
  o.planner = "best+share";
  o.interference = law.c_str();
  o.solo = solo.c_str();
  o.profiles = profiles.c_str();
  const std::string both = "table " + table + unknown + "; interference " + law + unknown;
  CHECK(compare() == both); // solo and profiles are in the table's folder
  o.profiles = others.c_str();
  CHECK(compare() ==
        both + "; profiles " + others + ": no machine.json in it, so its GPU is unknown");
  o.table = shipped_table.c_str();
  CHECK(compare() == "interference " + law + unknown + "; solo " + solo + unknown + "; profiles " +
                         others + ": no machine.json in it, so its GPU is unknown");
  fs::remove_all(home);
}

TEST_CASE("c abi plan: requests on shared SMs have their own answers") {
  const std::string law = shipped + "interference/h200.json", solo = shipped + "solo_metrics.csv";
  gsched_plan_options o = plan_options();
  o.planner = "elastic+share";
  o.interference = law.c_str();
  o.solo = solo.c_str();
  plan_rig rig(too_short_to_wait(), o, uncut);
  CHECK(rig.it.plan_report().partitions == 2);
  CHECK(rig.it.plan_report().sms == 132); // the same for both
  std::vector<plan_question> all(20);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].a = static_cast<std::uint32_t>(i);
    rig.it.submit(all[i].request(1), &all[i].ticket); // LeNet's would be late on a loaded machine
  }
  for (plan_question& q : all) {
    REQUIRE(abi::server::wait(*q.ticket, 20 * second_us));
    const gsched_report r = abi::server::status(*q.ticket);
    if (r.state == GSCHED_FINISHED) CHECK(q.out == 10ull * q.a + 1);
    CHECK((r.state == GSCHED_FINISHED || r.state == GSCHED_REJECTED));
    abi::server::release(*q.ticket);
  }
  CHECK(rig.it.plan_report().batches > 0);
}

} // namespace gsched::testing
