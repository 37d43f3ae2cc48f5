// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/serving/batch_runner.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gsched::testing {

/// The clauses of batch_runner, on a GPU of 32 SMs in groups of 8 or more, with model 0 and batches
/// of up to 8 that take some 10 us to 100 ms.
template <class Runner>
struct batch_runner_conformance {
  Runner& runner;
  std::vector<served_partition> partitions{};
  partition_plan plan{};
  std::vector<std::uint32_t> reported{}; ///< partitions whose batches have ended, not asked for yet
  std::uint64_t begun = 0, ended = 0;
  std::vector<time_point> begun_at{}; ///< by partition

  /// `regions` are by partition; empty: none.
  static partition_plan plan_of(const std::vector<std::uint32_t>& sizes,
                                const std::vector<std::uint32_t>& regions = {}) {
    partition_plan p;
    for (const std::uint32_t s : sizes) {
      gpulet& g = p.gpulets.emplace_back();
      g.sms = sm_count{s};
      g.portions.push_back({0, 1.0, 1});
      if (!regions.empty()) g.region = regions[p.gpulets.size() - 1];
    }
    return p;
  }

  /// wait_end reports batches that end meanwhile.
  void wait_prepared() {
    const time_point until = runner.now() + std::chrono::seconds{20};
    while (!runner.try_prepared()) {
      if (const auto partition = runner.try_end()) reported.push_back(end(*partition));
      runner.wait(until);
      REQUIRE(runner.now() < until);
    }
  }

  /// Makes the idle partitions those of another plan.
  void switch_to(const std::vector<std::uint32_t>& sizes,
                 const std::vector<std::uint32_t>& regions = {}) {
    plan = plan_of(sizes, regions);
    runner.prepare([this] { return &plan; });
    wait_prepared();
    std::vector<bool> taken(partitions.size(), false);
    for (served_partition& p : partitions) p.planned = false;
    for (const gpulet& g : plan.gpulets) {
      std::size_t i = 0;
      while (i < partitions.size() &&
             (taken[i] || !partitions[i].is_idle() || partitions[i].planned))
        ++i;
      if (i == partitions.size()) {
        partitions.emplace_back();
        taken.push_back(false);
      }
      taken[i] = true;
      served_partition& p = partitions[i];
      p.sms = g.sms;
      p.region = g.region;
      p.planned = true;
      p.portions.clear();
      p.portions.emplace_back().model = 0;
    }
    runner.activate(partitions);
  }

  void begin(std::uint32_t partition, std::uint32_t batch = 1) {
    REQUIRE(partitions[partition].is_idle());
    partitions[partition].running.resize(batch);
    ++begun;
    batch_run run{0, partition, partitions[partition].sms, 0, batch};
    run.region = partitions[partition].region;
    launch(run);
  }
  void launch(const batch_run& run) {
    begun_at.resize(partitions.size());
    begun_at[run.partition] = runner.now();
    runner.begin(run);
  }
  std::uint32_t end(std::uint32_t partition) {
    REQUIRE(!partitions[partition].is_idle());
    partitions[partition].running.clear();
    ++ended;
    const duration least = runner.least_time_of_last(partition); // B7
    CHECK(least >= duration::zero());
    CHECK(least <= runner.now() - begun_at[partition]);
    return partition;
  }
  [[nodiscard]] std::uint32_t wait_end() {
    if (!reported.empty()) {
      const std::uint32_t first = reported.front();
      reported.erase(reported.begin());
      return first;
    }
    const time_point until = runner.now() + std::chrono::seconds{20};
    for (;;) {
      if (const auto partition = runner.try_end()) return end(*partition);
      REQUIRE(runner.now() < until);
      const time_point before = runner.now();
      runner.wait(until);
      REQUIRE(runner.now() >= before); // B2
    }
  }

  void run() {
    INFO("B1: each batch ends once");
    switch_to({16, 8, 8});
    for (std::uint32_t i = 0; i < 3; ++i) {
      CHECK(runner.is_available(i));
      begin(i, i + 1);
    }
    std::set<std::uint32_t> seen;
    while (seen.size() < 3) CHECK(seen.insert(wait_end()).second);
    CHECK(!runner.try_end());

    INFO("B2: wait returns at its time where nothing happens");
    const time_point until = runner.now() + std::chrono::microseconds{300};
    runner.wait(until);
    CHECK(runner.now() >= until);

    INFO("B3: what decide throws is thrown, and what it refuses changes nothing");
    runner.prepare([]() -> const partition_plan* { throw std::runtime_error("no"); });
    CHECK_THROWS_AS(wait_prepared(), std::runtime_error);
    runner.prepare([]() -> const partition_plan* { return nullptr; });
    wait_prepared();
    CHECK(!runner.try_prepared());
    begin(1);
    CHECK(wait_end() == 1);

    INFO("B4: batches go on over a switch, and those after it run on the new plan");
    begin(0, 8);
    plan = plan_of({32});
    runner.prepare([this] { return &plan; });
    begin(2, 2); // meanwhile
    wait_prepared();
    for (served_partition& p : partitions) p.planned = false;
    partitions[1].sms = sm_count{32};
    partitions[1].planned = true;
    runner.activate(partitions);
    while (ended < begun) static_cast<void>(wait_end());
    reported.clear();
    CHECK(runner.is_available(1)); // B5
    begin(1, 4);
    CHECK(wait_end() == 1);

    INFO("B5: batches of a region run at the same time, beside one with SMs of its own");
    switch_to({24, 24, 8}, {1, 1, 0});
    for (int round = 0; round < 3; ++round) {
      int at_once = 0;
      for (std::uint32_t i = 0; i < partitions.size(); ++i)
        if (partitions[i].planned) {
          CHECK(runner.is_available(i));
          begin(i, 8);
          ++at_once;
        }
      CHECK(at_once == 3);
      if (round == 2) break; // the next plan waits for these
      while (ended < begun) static_cast<void>(wait_end());
    }
    switch_to({32});
    while (ended < begun) static_cast<void>(wait_end());
    reported.clear();
    for (std::uint32_t i = 0; i < partitions.size(); ++i)
      if (partitions[i].planned) {
        CHECK(runner.is_available(i));
        begin(i);
        CHECK(wait_end() == i);
      }

    INFO("many plans, one after another, while batches run");
    std::mt19937 random(5);
    const std::vector<std::vector<std::uint32_t>> plans{{32},         {16, 16}, {8, 24},
                                                        {8, 8, 8, 8}, {24, 8},  {16, 8, 8}};
    const std::vector<std::uint32_t> regions[]{{}, {2, 2}, {}, {1, 2, 2, 1}, {}, {0, 1, 1}};
    for (int round = 0; round < 60; ++round) {
      for (std::uint32_t i = 0; i < partitions.size(); ++i)
        if (partitions[i].planned && partitions[i].is_idle() && runner.is_available(i))
          begin(i, 1 + static_cast<std::uint32_t>(random() % 8));
      if (random() % 2 == 0 && ended < begun) static_cast<void>(wait_end());
      reported.clear();
      const std::size_t next = random() % plans.size();
      switch_to(plans[next], random() % 2 == 0 ? regions[next] : std::vector<std::uint32_t>{});
    }
    for (reported.clear(); ended < begun; reported.clear()) static_cast<void>(wait_end());
    CHECK(!runner.try_end());
    for (std::uint32_t i = 0; i < partitions.size(); ++i)
      if (partitions[i].planned) CHECK(runner.is_available(i));
  }
};

} // namespace gsched::testing
