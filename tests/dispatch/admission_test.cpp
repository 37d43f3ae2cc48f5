// SPDX-License-Identifier: Apache-2.0
//
// Admission by deadline, at the level of a served mix: a request that is admitted ends in time.
#include "dispatch/served_mix.hpp"

#include <gsched/policy/edf.hpp>

#include <sanitized.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace gsched;
using namespace gsched::test;

namespace {

struct tally {
  int admitted = 0;
  int in_time = 0;
  [[nodiscard]] int late() const { return admitted - in_time; }
};

tally count(const std::vector<planned>& requests, const std::vector<outcome>& ends,
            std::optional<std::uint32_t> model = {}) {
  tally t;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (model && requests[i].model != *model) continue;
    if (ends[i].how == job_state::rejected) continue;
    REQUIRE(ends[i].how == job_state::finished);
    ++t.admitted;
    t.in_time += ends[i].latency <= requests[i].allowed;
  }
  return t;
}

/// Poisson arrivals of all models equally, with deadlines of 2 to 5 times their time alone.
std::vector<planned> random_requests(const served_mix& mix, std::uint32_t models, double load,
                                     int n) {
  std::vector<duration> alone;
  double mean = 0;
  for (std::uint32_t i = 0; i < models; ++i) {
    alone.push_back(mix.alone(i));
    mean += static_cast<double>(alone.back().count()) / models;
  }
  std::mt19937_64 random(5);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<planned> all;
  double t = 0;
  for (int i = 0; i < n; ++i) {
    t -= std::log(1 - uniform()) * mean / load;
    const auto model = static_cast<std::uint32_t>(random() % models);
    const double allowed = static_cast<double>(alone[model].count()) * (2 + 3 * uniform());
    all.push_back({time_point{duration{static_cast<duration::rep>(t)}}, model, 0,
                   duration{static_cast<duration::rep>(allowed)}});
  }
  return all;
}

} // namespace

TEST_CASE("edf: of the admitted requests of a served mix at most one in a hundred is late") {
  GSCHED_TOO_LONG_SANITIZED();
  struct one {
    std::vector<std::string> models;
    double load;
    std::uint32_t instances;
    int least_in_time; ///< of 1500
  };
  const one all[] = {{{"resnet18_b1", "inception_v3_b1"}, 0.5, 0, 1300},
                     {{"resnet18_b1", "inception_v3_b1"}, 1.2, 2, 1000},
                     {{"resnet18_b1", "inception_v3_b1"}, 3.0, 0, 650},
                     {{"resnet18_b1", "bert_base_b32"}, 0.5, 0, 1000},
                     {{"resnet18_b1", "bert_base_b32"}, 1.2, 2, 650},
                     {{"lenet_b1", "resnet50_b32"}, 1.2, 1, 600}};
  for (const one& x : all) {
    const served_mix mix(x.models);
    const auto requests =
        random_requests(mix, static_cast<std::uint32_t>(x.models.size()), x.load, 1500);
    CAPTURE(x.models[1]);
    CAPTURE(x.load);
    served_mix::settings how;
    how.instances = x.instances;
    edf order;
    const tally t = count(requests, mix.serve(order, how, requests));
    CHECK(t.late() * 100 <= t.admitted);
    CHECK(t.in_time >= x.least_in_time);
  }
}

TEST_CASE("edf: a task of 1 ms period beside others misses no deadline that it was promised, once "
          "edf knows") {
  GSCHED_TOO_LONG_SANITIZED();
  for (const int period : {2200, 5500}) { // of each of the others
    const served_mix mix({"squeezenet1_1_b1", "inception_v3_b1", "bert_base_b8"});
    std::vector<planned> requests;
    for (int i = 0; i < 1000; ++i)
      requests.push_back({time_point{from_us(1000.0 * i)}, 0, 0, from_us(1000)});
    for (int at = 0; at < 1'000'000; at += period) {
      requests.push_back({time_point{from_us(at + 300.0)}, 1, 0, from_us(10000)});
      requests.push_back({time_point{from_us(at + 600.0)}, 2, 0, from_us(20000)});
    }
    std::stable_sort(requests.begin(), requests.end(),
                     [](const planned& a, const planned& b) { return a.at < b.at; });
    edf order;
    const auto ends = mix.serve(order, {}, requests);
    const tally task = count(requests, ends, 0);
    CAPTURE(period);
    CAPTURE(task.admitted);
    // Before edf has learned how jobs slow one another, it can promise too much once.
    CHECK(task.late() <= (period == 5500 ? 0 : 1));
    CHECK(task.admitted >= (period == 5500 ? 400 : 1));
    CHECK(count(requests, ends).late() * 100 <= count(requests, ends).admitted);
  }
}

TEST_CASE("edf: how many jobs run side by side is learned, from too low or too high a number") {
  GSCHED_TOO_LONG_SANITIZED();
  const served_mix mix({"resnet18_b1", "inception_v3_b1"});
  const auto requests = random_requests(mix, 2, 3.0, 1500);
  for (const double start : {1.0, 8.0, 100.0}) {
    CAPTURE(start);
    edf order(start);
    const tally t = count(requests, mix.serve(order, {}, requests));
    CHECK(t.late() * 100 <= t.admitted * (start == 1.0 ? 1 : 4));
    CHECK(order.overlap() > 1.5);
    CHECK(order.overlap() < 12);
  }
}
