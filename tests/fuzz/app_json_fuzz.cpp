// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/io/app_json.hpp>
#include <gsched/serving/detail/app_requests.hpp>
#include <gsched/workload/app_demands.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

/// Any bytes either are refused in one line, or are an app whose SLO can be shared out, and all of
/// whose requests are made and answered.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  static const std::array<latency_row, 2> rows{latency_row{"a", 1, sm_count{8}, from_us(10)},
                                               latency_row{"b", 1, sm_count{8}, from_us(20)}};
  static const latency_table table(rows);
  const std::vector<duration> slos{from_us(30), from_us(70)};
  try {
    app a = parse_app({reinterpret_cast<const char*>(data), size}, "t", table);
    check(a);
    a.slo = critical_path(a, slos);
    check(a, table, slos);
    const std::vector<duration> each = stage_slos(a, slos);
    for (std::size_t s = 0; s < each.size(); ++s)
      fuzz::require(each[s] >= slos[a.stages[s].model] && each[s] <= a.slo);
    fuzz::require(critical_path(a, model_slos(std::vector{a}, slos)) <= a.slo);
    double wanted = 0;
    for (const model_demand& d : demands_of(std::vector{a}, std::vector{1.0}, slos))
      wanted += d.rate;
    detail::app_requests under_way({a});
    std::deque<std::uint64_t> asked;
    double made = 0;
    const auto ask = [&](std::size_t, std::uint64_t id) {
      asked.push_back(id);
      ++made;
    };
    under_way.begin(0, time_point{}, ask);
    while (!asked.empty()) {
      const std::uint64_t id = asked.front();
      asked.pop_front();
      under_way.on_answer(id, time_point{}, ask);
    }
    fuzz::require(made == wanted && under_way.outcomes()[0].in_time == 1);
  } catch (const error& e) {
    fuzz::require_one_line(e, "t:");
  }
  return 0;
}
