// SPDX-License-Identifier: Apache-2.0
// The running sums of slow-downs over the jobs in flight, and claims.
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/dispatch/detail/corun_gate.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gsched;

namespace {

using table_row = corun_rule::row;

/// A rule of n models whose pairs are drawn; a third of them are not slowed.
corun_rule drawn_table(std::size_t n, std::mt19937_64& random) {
  std::vector<corun_limit> models;
  std::vector<corun_slowdown> pairs;
  for (std::size_t i = 0; i < n; ++i)
    models.push_back({std::to_string(i), random() % 6 == 0
                                             ? corun_limit::none
                                             : 1 + static_cast<double>(random() % 6) / 10});
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      pairs.push_back({models[i].model, models[j].model,
                       random() % 3 == 0 ? 1 : 1 + static_cast<double>(random() % 7) / 10});
  return corun_rule(models, pairs);
}

std::uint64_t excess_by_hand(const corun_rule& r, const std::vector<table_row>& jobs,
                             std::size_t i) {
  std::uint64_t sum = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j)
    if (i != j) sum += r.of(jobs[i], jobs[j]);
  return sum;
}

} // namespace

TEST_CASE("corun_gate: fits as the rule allows, and its sums return to zero") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const corun_rule rule = drawn_table(1 + random() % 6, random);
    corun_gate gate(&rule);
    std::vector<table_row> jobs;
    for (int i = 0; i < 200; ++i) {
      const auto x = static_cast<table_row>(random() % (rule.models() + 1));
      std::vector<table_row> with = jobs;
      with.push_back(x);
      CHECK(gate.fits(x, false) == rule.allows(with));
      if (rule.allows(with) && random() % 2 == 0) {
        gate.began(x);
        jobs = with;
      } else if (!jobs.empty() && random() % 2 == 0) {
        const auto gone = jobs.begin() + static_cast<std::ptrdiff_t>(random() % jobs.size());
        CHECK(gate.fits(*gone, true)); // as all do
        gate.ended(*gone);
        jobs.erase(gone);
      }
      for (std::size_t j = 0; j < jobs.size(); ++j)
        CHECK(gate.sum(jobs[j]) == excess_by_hand(rule, jobs, j));
    }
    for (const table_row x : jobs) gate.ended(x);
    CHECK(gate.models_in_flight() == 0);
    for (table_row x = 0; x <= rule.models(); ++x) CHECK(gate.sum(x) == 0);
  }
}

// Jobs in flight end their segments in turn and go on if they fit; meanwhile any other job starts
// that fits. A job that claims has to fit after each job in flight has ended one segment.
TEST_CASE("corun_gate: a claim is met after one segment of each job in flight") {
  std::mt19937_64 random(2);
  int claims = 0, went_on = 0, started = 0;
  for (int round = 0; round < 3000; ++round) {
    const corun_rule rule = drawn_table(2 + random() % 5, random);
    corun_gate gate(&rule);
    std::vector<table_row> jobs;
    const auto start_any = [&](int tries) {
      int n = 0;
      for (int i = 0; i < tries; ++i) {
        const auto x = static_cast<table_row>(random() % rule.models());
        if (jobs.size() >= 8 || !gate.fits(x, false)) continue;
        gate.began(x);
        jobs.push_back(x);
        ++n;
      }
      return n;
    };
    start_any(20);
    const auto claims_for = static_cast<table_row>(random() % rule.models());
    if (gate.fits(claims_for, false)) continue;
    ++claims;
    gate.claim(claims_for);
    for (std::size_t left = jobs.size(), at = 0; left > 0; --left) {
      if (gate.fits(jobs[at], true)) {
        ++went_on;
        ++at;
      } else {
        gate.ended(jobs[at]);
        jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(at));
      }
      // a job of the claiming model itself would end the claim
      for (int i = 0; i < 3; ++i) {
        const auto x = static_cast<table_row>(random() % rule.models());
        if (x == claims_for || !gate.fits(x, false)) continue;
        gate.began(x);
        jobs.push_back(x);
        ++started;
      }
    }
    CHECK(gate.fits(claims_for, false));
    gate.drop_claim();
    std::vector<table_row> with = jobs;
    with.push_back(claims_for);
    CHECK(rule.allows(with));
  }
  CHECK(claims > 500);
  CHECK(went_on > 100);
  CHECK(started > 100);
}
