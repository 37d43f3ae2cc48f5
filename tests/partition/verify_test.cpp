// SPDX-License-Identifier: Apache-2.0
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace gsched::testing {
namespace {

struct served_well {
  latency_table table{std::vector<latency_row>{{"a", 1, sm_count{8}, from_us(100)},
                                               {"a", 4, sm_count{8}, from_us(160)},
                                               {"b", 1, sm_count{8}, from_us(50)},
                                               {"b", 4, sm_count{8}, from_us(80)}}};
  std::vector<model_demand> demands{{0, 10000, from_us(500)}, {1, 5000, from_us(500)}};
  std::vector<gpu_shape> shapes{{sm_count{20}, sm_count{8}}};
  partition_plan plan{{{0, sm_count{8}, from_us(300), {{0, 10000, 4}, {1, 5000, 4}}}}};

  [[nodiscard]] std::vector<std::string> faults() const {
    return faults_of(plan, demands, table, shapes);
  }
};

} // namespace

TEST_CASE("each fault of a plan is found and described in one line") {
  served_well good;
  CHECK(good.faults().empty());
  const auto only = [](const served_well& s) {
    const std::vector<std::string> all = s.faults();
    REQUIRE(all.size() == 1);
    return all[0];
  };

  served_well s;
  s.plan.gpulets.clear();
  CHECK(s.faults().size() == 2);
  CHECK(s.faults()[0] == "a: served 0.00 a second, expected 10000.00");
  s = {};
  s.demands[0].rate = 10001;
  CHECK(only(s) == "a: served 10000.00 a second, expected 10001.00");
  s = {};
  s.plan.gpulets[0].portions[0].batch = 2;
  CHECK(only(s) == "GPU 0, 8 SMs: a gets 3.00 requests a cycle, expected at most its batch of 2");
  s = {};
  s.plan.gpulets[0].portions[0].batch = 5;
  CHECK(s.faults()[0] == "GPU 0, 8 SMs: a in batches of 5, expected what the table has");
  s = {};
  s.demands[1].slo = from_us(379);
  CHECK(only(s) == "GPU 0, 8 SMs: b takes up to 380.00 us, expected its SLO of 379.00");
  s = {};
  s.plan.gpulets[0].cycle = from_us(239);
  CHECK(only(s) == "GPU 0, 8 SMs: batches take 240.00 us, expected at most a cycle of 239.00");
  s = {};
  s.plan.gpulets.push_back({0, sm_count{10}, from_us(300), {}});
  CHECK(only(s) == "GPU 0: 8 + 10 SMs, expected sizes that its 20 can be cut into");
  s = {};
  s.plan.gpulets.push_back({0, sm_count{16}, from_us(300), {}});
  CHECK(only(s).starts_with("GPU 0: 8 + 16 SMs"));
  s = {};
  s.plan.gpulets.push_back({1, sm_count{8}, from_us(300), {}});
  CHECK(only(s) == "GPU 1: not there, expected one of 1");
  s = {};
  s.plan.gpulets[0].portions[1].rate = -1;
  CHECK(s.faults().size() == 2);
  // With interference every batch takes longer.
  s = {};
  const auto slower = [](std::span<const gpulet> all, std::size_t which, std::size_t) {
    return all[which].portions.size() == 2 ? 1.4 : 1.0;
  };
  const std::vector<std::string> beside = faults_of(s.plan, s.demands, s.table, s.shapes, slower);
  REQUIRE(beside.size() == 2);
  CHECK(beside[0] == "GPU 0, 8 SMs: a takes up to 524.00 us, expected its SLO of 500.00");
  CHECK(beside[1] == "GPU 0, 8 SMs: batches take 336.00 us, expected at most a cycle of 300.00");
}

TEST_CASE("demands that no plan can serve are refused in one line") {
  const served_well s;
  const auto refusal = [&](const model_demand& d, served_by by = served_by::plan) {
    try {
      check(std::span(&d, 1), s.table, by);
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(refusal({0, 10, from_us(200)}) == "none");
  CHECK(refusal({2, 10, from_us(100)}) == "model 2: not in the table of 2");
  CHECK(refusal({0, -1, from_us(100)}).find("a: rate of -1") == 0);
  CHECK(refusal({0, 1e300 * 1e300, from_us(100)}).find("a: rate of inf") == 0);
  CHECK(refusal({0, 10, from_us(199)}) == "a: SLO of 199 us, expected at least 200, twice its "
                                          "fastest latency: a request waits for one batch and "
                                          "takes another");
  CHECK(refusal({0, 10, from_us(100)}, served_by::whole_gpu) == "none");
  CHECK(refusal({0, 10, from_us(99)}, served_by::whole_gpu) ==
        "a: SLO of 99 us, expected at least 100, its fastest latency");
}

} // namespace gsched::testing
