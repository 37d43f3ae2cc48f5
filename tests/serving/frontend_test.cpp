// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include "partition/random_table.hpp"
#include "serving/instant.hpp"

#include <gsched/partition/elastic.hpp>
#include <gsched/serving/frontend.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using namespace detail;
using namespace std::chrono_literals;

/// Batches of 1 to 8 of each model take that long plus a millisecond a request, on any SMs.
latency_table even_table(const std::vector<duration>& fixed) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < fixed.size(); ++m)
    for (std::uint32_t b = 1; b <= 8; ++b)
      rows.push_back({"m" + std::to_string(m), b, sm_count{8}, fixed[m] + b * 1ms});
  return latency_table(rows);
}

/// The result of choose_batch, by exhaustive search.
batch_choice naive_choice(const std::vector<time_point>& deadlines, std::uint32_t desired,
                          const std::vector<duration>& times, time_point now, time_point free_by) {
  const auto in_time = [&](std::size_t first, std::size_t n, time_point from) {
    return n >= 1 && n <= times.size() && from + times[n - 1] <= deadlines[first];
  };
  for (std::size_t d = 0; d < deadlines.size(); ++d) {
    const std::size_t left = deadlines.size() - d;
    const std::size_t planned = std::min<std::size_t>(left, desired);
    if (in_time(d, planned, now)) {
      std::size_t take = planned;
      for (std::size_t n = planned + 1; n <= left && in_time(d, n, now); ++n)
        if (now + times[n - 1] <= free_by) take = n;
      return {d, static_cast<std::uint32_t>(take)};
    }
    for (std::size_t n = planned; n-- > 1;)
      if (in_time(d, n, now)) {
        if (in_time(d + n, std::min<std::size_t>(left - n, desired), now + times[n - 1]))
          return {d, static_cast<std::uint32_t>(n)};
        break;
      }
  }
  return {deadlines.size(), 0};
}

/// A frontend under random load; each step checks the clauses.
class storm {
public:
  explicit storm(std::uint64_t seed)
      : random_(seed), table_(random_table(random_, 3, {8, 16, 32}, 6)),
        shapes_(1 + random_() % 3, gpu_shape{sm_count{36}, sm_count{8}}) {
    for (std::size_t m = 0; m < 3; ++m)
      slos_.push_back((2 + static_cast<int>(random_() % 6)) * table_.latency(m, 2, sm_count{8}));
    options_.start = random_() % 2 == 0 ? batch_start::when_due : batch_start::at_once;
    serve_.emplace(table_, slos_, shapes_, options_);
  }

  void run(int steps) {
    change_plan();
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t what = random_() % 1000;
      if (what < 2) change_plan();
      if (what >= 500 && what < 530) cancel(ids_ - what % 8);
      if (what < 500) {
        arrive();
      } else {
        let_pass(duration{static_cast<duration::rep>(random_() % 30'000)});
      }
      check_counts();
    }
    while (!running_.empty() || next_due() != no_deadline) let_pass(1ms);
    check_counts();
    for (std::size_t m = 0; m < 3; ++m) CHECK(serve_->counts(m).waiting == 0);
    CHECK(unanswered_.empty());
  }

  int dropped = 0, late = 0, in_time = 0, grown = 0, switches = 0, cancelled = 0;

private:
  void change_plan() {
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < 3; ++m)
      demands.push_back({m, static_cast<double>(random_() % 20000), slos_[m]});
    const auto plan = elastic_planner{}.plan(table_, demands, shapes_);
    if (!plan) return;
    ++switches;
    const auto before = running_;
    const duration ready{static_cast<duration::rep>(random_() % 2 * 100'000)};
    serve_->switch_to(*plan, now_, ready);
    for (const auto& [p, b] : before) // F5
      REQUIRE(serve_->partitions()[p].running == b.requests);
    note_dropped([&](const waiting_request& r, std::size_t model) {
      CAPTURE(r.id);
      for (const gpulet& g : plan->gpulets)
        for (const portion& q : g.portions) REQUIRE(q.model != model);
    });
    for (std::uint32_t p = 0; p < serve_->partitions().size(); ++p) ask(p);
  }

  void arrive() {
    const std::size_t m = random_() % 3;
    const std::uint64_t id = ++ids_;
    unanswered_[id] = {m, {id, now_ + slos_[m]}};
    const auto to = serve_->arrive(m, id, now_);
    note_dropped([&](const waiting_request& r, std::size_t) { REQUIRE((r.id == id && !to)); });
    if (to) ask(*to);
  }

  /// A request leaves if it waits, and nothing else changes.
  void cancel(std::uint64_t id) {
    bool waits = false;
    std::size_t model = id % 3;
    if (const auto at = unanswered_.find(id); at != unanswered_.end()) {
      model = at->second.first;
      waits = true;
      for (const auto& [p, b] : running_)
        for (const waiting_request& r : b.requests) waits = waits && r.id != id;
    }
    REQUIRE(serve_->cancel(model, id) == waits);
    REQUIRE(!serve_->cancel(model, id));
    if (!waits) return;
    unanswered_.erase(id);
    ++cancelled;
  }

  void ask(std::uint32_t number) {
    const served_partition before = serve_->partitions()[number];
    const time_point due = serve_->due(number, now_);
    const auto begun = serve_->try_start(number, now_);
    // try_start does nothing before `due`, and something at `due`.
    REQUIRE((!begun && serve_->dropped().empty()) == (due > now_));
    note_dropped([&](const waiting_request& r, std::size_t model) { // F3
      for (const served_portion& p : before.portions) {
        if (p.model != model) continue;
        std::size_t behind = 0;
        for (std::size_t i = 0; i < p.waiting.size(); ++i) behind += p.waiting[i].id >= r.id;
        REQUIRE(now_ + p.times[std::min<std::size_t>(behind, p.desired) - 1] > r.deadline);
      }
    });
    if (!begun) return;
    REQUIRE(before.is_idle());
    std::uint32_t on_gpu = 0;
    for (const served_partition& p : serve_->partitions())
      if (p.gpu == before.gpu && !p.is_idle()) on_gpu += p.sms.count();
    REQUIRE(on_gpu <= 36);
    const std::vector<waiting_request> requests(begun->requests.begin(), begun->requests.end());
    for (std::size_t i = 0; i < before.portions.size(); ++i) {
      const served_portion& p = before.portions[i];
      if (p.model != begun->model) continue;
      std::vector<time_point> deadlines;
      for (std::size_t w = 0; w < p.waiting.size(); ++w) deadlines.push_back(p.waiting[w].deadline);
      const auto expected = naive_choice(deadlines, p.desired, p.times, now_,
                                         serve_->partitions()[number].latest_end(i, now_));
      REQUIRE(requests.size() == expected.take);
      for (std::uint32_t n = 0; n < expected.take; ++n)
        REQUIRE(requests[n] == p.waiting[expected.drop + n]);
      grown += requests.size() > p.desired ? 1 : 0;
      const double part = 0.8 + 0.0005 * static_cast<double>(random_() % 1000);
      const duration took = from_us(to_us(p.times[requests.size() - 1]) * part);
      running_[number] = {now_ + took, begun->model, requests};
    }
  }

  [[nodiscard]] time_point next_due() const {
    time_point first = no_deadline;
    for (std::uint32_t p = 0; p < serve_->partitions().size(); ++p)
      first = std::min(first, serve_->due(p, now_));
    return first;
  }

  void let_pass(duration d) {
    const time_point until = now_ + d;
    for (;;) {
      time_point next = next_due();
      for (const auto& [p, b] : running_) next = std::min(next, b.ends);
      if (next > until) break;
      REQUIRE(next >= now_);
      now_ = next;
      for (auto it = running_.begin(); it != running_.end();)
        if (it->second.ends == now_) {
          for (const waiting_request& r : it->second.requests) {
            REQUIRE(unanswered_.erase(r.id) == 1); // F1: once
            ++(now_ <= r.deadline ? in_time : late);
          }
          static_cast<void>(serve_->end(it->first, now_));
          it = running_.erase(it);
        } else {
          ++it;
        }
      for (std::uint32_t p = 0; p < serve_->partitions().size(); ++p) ask(p);
    }
    now_ = until;
  }

  template <class Check>
  void note_dropped(Check check) {
    for (const std::uint64_t id : serve_->dropped()) {
      REQUIRE(unanswered_.contains(id));
      check(unanswered_[id].second, unanswered_[id].first);
      unanswered_.erase(id);
      ++dropped;
    }
    serve_->forget_dropped();
  }

  void check_counts() const {
    request_counts all;
    for (std::size_t m = 0; m < 3; ++m) {
      const request_counts& c = serve_->counts(m);
      REQUIRE(c.arrived == c.in_time + c.late + c.dropped + c.waiting + c.running + c.cancelled);
      std::uint64_t waiting = 0;
      for (const served_partition& p : serve_->partitions())
        for (const served_portion& s : p.portions) waiting += s.model == m ? s.waiting.size() : 0;
      REQUIRE(c.waiting == waiting);
      all.in_time += c.in_time;
      all.late += c.late;
      all.dropped += c.dropped;
      all.cancelled += c.cancelled;
    }
    REQUIRE(all.cancelled == static_cast<std::uint64_t>(cancelled));
    REQUIRE(all.in_time == static_cast<std::uint64_t>(in_time));
    REQUIRE(all.late == static_cast<std::uint64_t>(late));
    REQUIRE(all.dropped == static_cast<std::uint64_t>(dropped));
  }

  struct under_way {
    time_point ends;
    std::size_t model;
    std::vector<waiting_request> requests;
  };
  std::mt19937_64 random_;
  latency_table table_;
  std::vector<gpu_shape> shapes_;
  std::vector<duration> slos_;
  frontend_options options_;
  std::optional<frontend> serve_;
  time_point now_{};
  std::uint64_t ids_ = 0;
  std::map<std::uint64_t, std::pair<std::size_t, waiting_request>> unanswered_;
  std::map<std::uint32_t, under_way> running_;
};

partition_plan one_partition(std::vector<portion> portions, duration cycle) {
  return {{{0, sm_count{8}, cycle, std::move(portions)}}};
}

} // namespace

TEST_CASE("choose_batch agrees with exhaustive search") {
  std::mt19937_64 random(3);
  int drops = 0, few = 0, grows = 0;
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    std::vector<duration> times;
    for (std::uint64_t b = 1 + random() % 6; b > 0; --b)
      times.push_back((times.empty() ? 0ns : times.back()) + duration{1 + random() % 9});
    const auto desired = static_cast<std::uint32_t>(1 + random() % times.size());
    std::vector<time_point> deadlines;
    for (std::uint64_t n = random() % 10; n > 0; --n)
      deadlines.push_back(at(duration{random() % 60}));
    std::sort(deadlines.begin(), deadlines.end());
    const time_point now = at(duration{random() % 30}), free_by = now + duration{random() % 40};
    const batch_choice c = choose_batch(deadlines.size(), desired, times, now, free_by,
                                        [&](std::size_t n) { return deadlines[n]; });
    REQUIRE(c == naive_choice(deadlines, desired, times, now, free_by));
    drops += c.drop > 0 && c.take > 0 ? 1 : 0;
    grows += c.take > desired ? 1 : 0;
    few += c.take > 0 && c.take < std::min<std::size_t>(desired, deadlines.size() - c.drop) ? 1 : 0;
  }
  CHECK(drops > 500);
  CHECK(grows > 500);
  CHECK(few > 500);
}

TEST_CASE("F1, F2, F3, F5: random load and plans lose no request and drop none too early") {
  int dropped = 0, late = 0, in_time = 0, grown = 0, switches = 0, cancelled = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    storm s(seed);
    s.run(2000);
    dropped += s.dropped;
    late += s.late;
    in_time += s.in_time;
    grown += s.grown;
    switches += s.switches;
    cancelled += s.cancelled;
  }
  CHECK(dropped > 1000);
  CHECK(late > 200);
  CHECK(in_time > 10000);
  CHECK(grown > 200);
  CHECK(switches > 100);
  CHECK(cancelled > 500);
}

TEST_CASE(
    "F2: a batch starts when it is full, when its cycle has passed, or when it would be late") {
  const latency_table t = even_table({1ms});
  constexpr frontend_options when_due{batch_start::when_due, {}};
  frontend f(t, {20ms}, {gpu_shape{sm_count{8}, sm_count{8}}}, when_due);
  f.switch_to(one_partition({{0, 300, 3}}, 10ms), at(0ms));
  CHECK(f.due(0, at(0ms)) == no_deadline);
  REQUIRE(f.arrive(0, 1, at(5ms)) == 0u); // no batch has begun in the last cycle
  CHECK(f.due(0, at(5ms)) == at(5ms));
  REQUIRE(f.try_start(0, at(5ms)));
  CHECK(f.due(0, at(5ms)) == no_deadline); // busy
  f.arrive(0, 2, at(6ms));
  CHECK_FALSE(f.end(0, at(7ms)));
  CHECK(f.due(0, at(7ms)) == at(15ms)); // the cycle
  CHECK_FALSE(f.try_start(0, at(14ms)));
  f.arrive(0, 3, at(8ms));
  f.arrive(0, 4, at(9ms)); // full
  const auto batch = f.try_start(0, at(9ms));
  REQUIRE(batch);
  CHECK(batch->requests.size() == 3);
  CHECK(batch->requests.front().id == 2);
  CHECK(batch->requests.back().id == 4);

  frontend g(t, {20ms}, {gpu_shape{sm_count{8}, sm_count{8}}}, when_due);
  g.switch_to(one_partition({{0, 10, 3}}, 1s), at(0ms)); // a cycle that no request can wait for
  g.arrive(0, 1, at(0ms));
  REQUIRE(g.try_start(0, at(0ms)));
  static_cast<void>(g.end(0, at(2ms)));
  g.arrive(0, 2, at(10ms));
  CHECK(g.due(0, at(10ms)) == at(28ms)); // 20 ms, less the 2 that it takes
  g.arrive(0, 3, at(11ms));
  CHECK(g.due(0, at(11ms)) == at(27ms));
  const auto last = g.try_start(0, at(27ms));
  REQUIRE(last);
  CHECK(last->requests.size() == 2);
  static_cast<void>(g.end(0, at(30ms)));
  CHECK(g.counts(0) == request_counts{3, 3, 0, 0, 0, 0});
}

TEST_CASE("F2: a batch starts where a partition is idle, and takes what came while it was busy") {
  const latency_table t = even_table({1ms, 1ms});
  frontend f(t, {20ms, 10ms}, {gpu_shape{sm_count{8}, sm_count{8}}});
  f.switch_to(one_partition({{0, 300, 3}, {1, 100, 1}}, 10ms), at(0ms));
  f.arrive(0, 1, at(1ms));
  CHECK(f.due(0, at(1ms)) == at(1ms));
  REQUIRE(f.try_start(0, at(1ms)));
  for (std::uint64_t i = 2; i < 5; ++i) f.arrive(0, i, at(2ms));
  f.arrive(1, 9, at(3ms)); // has to begin by 11 ms, the others by 18
  static_cast<void>(f.end(0, at(3ms)));
  CHECK(f.due(0, at(3ms)) == at(3ms)); // though its cycle has not passed
  const auto first = f.try_start(0, at(3ms));
  REQUIRE(first);
  CHECK(first->model == 1);
  static_cast<void>(f.end(0, at(5ms)));
  const auto second = f.try_start(0, at(5ms));
  REQUIRE(second);
  CHECK(second->requests.size() == 3);
}

TEST_CASE("F2: a portion that would be late after another batch goes first, though it is not due") {
  const latency_table t = even_table({1ms, 1ms});
  frontend f(t, {100ms, 20ms}, {gpu_shape{sm_count{8}, sm_count{8}}});
  f.switch_to(one_partition({{0, 100, 8}, {1, 100, 2}}, 15ms), at(0ms));
  f.arrive(1, 1, at(0ms));
  REQUIRE(f.try_start(0, at(0ms)));
  static_cast<void>(f.end(0, at(2ms)));
  f.arrive(1, 2, at(1ms));                                             // has to begin by 19
  for (std::uint64_t i = 0; i < 8; ++i) f.arrive(0, 10 + i, at(12ms)); // takes 9
  const auto first = f.try_start(0, at(12ms));
  REQUIRE(first);
  CHECK(first->model == 1);
}

TEST_CASE("corrections change when a batch starts and which requests can be in time") {
  const latency_table t = even_table({1ms});
  frontend f(t, {20ms}, {{sm_count{8}, sm_count{8}}}, {batch_start::when_due, {}});
  f.switch_to({{{0, sm_count{8}, 10ms, {{0, 400, 4}}}}}, at(0ms));
  const auto first = f.arrive(0, 1, at(0ms));
  REQUIRE(first);
  REQUIRE(f.try_start(*first, at(0ms))); // its cycle has come
  static_cast<void>(f.end(*first, at(2ms)));
  static_cast<void>(f.arrive(0, 2, at(2ms)));
  CHECK(f.due(*first, at(2ms)) == at(10ms)); // the next cycle
  f.correct(std::vector<double>{8});         // a batch of 1 takes 16 ms
  CHECK(f.correction(0) == 8);
  CHECK(f.due(*first, at(2ms)) == at(6ms)); // the latest start
  CHECK(f.partitions()[*first].expected(0, 3) == 32ms);
  f.switch_to({{{0, sm_count{8}, 10ms, {{0, 400, 4}}}}},
              at(3ms)); // which the next plan has as well
  CHECK(f.due(*first, at(3ms)) == at(6ms));
  CHECK_FALSE(f.try_start(*first, at(7ms)));
  CHECK(f.counts(0).dropped == 1);
  f.correct(std::vector<double>{1});
  CHECK(f.partitions()[*first].expected(0, 3) == 4ms);
}

TEST_CASE("other slow-downs hold at once, for the partitions of the plan that exists") {
  const latency_table t = even_table({1ms, 1ms});
  frontend f(t, {20ms, 20ms}, {{sm_count{16}, sm_count{8}}, {sm_count{16}, sm_count{8}}});
  const partition_plan plan{{{1, sm_count{8}, 10ms, {{0, 100, 2}}},
                             {0, sm_count{8}, 10ms, {{1, 100, 2}}},
                             {1, sm_count{8}, 10ms, {{1, 100, 2}}}}};
  f.switch_to({{{0, sm_count{8}, 10ms, {{0, 100, 2}}}}}, at(0ms)); // takes the first place
  f.switch_to(plan, at(0ms));
  const auto of = [&](std::uint32_t gpu, std::size_t model) -> const served_partition& {
    for (const served_partition& p : f.partitions())
      if (p.planned && p.gpu == gpu && p.portions[0].model == model) return p;
    FAIL("no such partition");
    return f.partitions()[0];
  };
  const auto asked = f.arrive(0, 7, at(1ms));
  REQUIRE(asked);
  f.expect(plan, [](std::span<const gpulet> all, std::size_t which, std::size_t model) {
    return static_cast<double>(all.size()) + 0.25 * static_cast<double>(which) +
           0.5 * static_cast<double>(model);
  });
  CHECK(of(0, 1).expected(1, 1) == 3ms);    // alone on its GPU, as model 1: 1.5
  CHECK(of(1, 0).expected(0, 1) == 4ms);    // the first of two: 2
  CHECK(of(1, 1).expected(1, 1) == 5500us); // the second, as model 1: 2.75
  CHECK(f.counts(0).waiting == 1);          // no request moves
  CHECK(f.try_start(*asked, at(1ms)).has_value());
}

TEST_CASE("F4: requests go to partitions in proportion to the planned rates") {
  const latency_table t = even_table({1ms});
  frontend f(t, {20ms}, {gpu_shape{sm_count{32}, sm_count{8}}});
  const std::vector<double> rates{100, 250, 17};
  partition_plan plan;
  for (const double r : rates) plan.gpulets.push_back({0, sm_count{8}, 10ms, {{0, r, 2}}});
  f.switch_to(plan, at(0ms));
  std::vector<int> got(3);
  for (int n = 1; n <= 5000; ++n) {
    ++got[f.arrive(0, static_cast<std::uint64_t>(n), at(0ms)).value()];
    for (std::size_t i = 0; i < 3; ++i) REQUIRE(std::abs(got[i] - n * rates[i] / 367) < 3);
  }
}

TEST_CASE("F5: a new partition waits for SMs that a batch of the old plan occupies") {
  const latency_table t = even_table({1ms, 1ms});
  frontend f(t, {40ms, 40ms}, {gpu_shape{sm_count{32}, sm_count{8}}});
  f.switch_to({{{0, sm_count{24}, 10ms, {{0, 100, 2}}}}}, at(0ms));
  f.arrive(0, 1, at(0ms));
  REQUIRE(f.try_start(0, at(0ms)));
  f.arrive(0, 2, at(1ms));
  f.arrive(1, 3, at(1ms)); // no partition has the model
  CHECK(f.dropped().size() == 1);
  f.switch_to({{{0, sm_count{8}, 10ms, {{0, 100, 2}}}, {0, sm_count{16}, 10ms, {{1, 100, 2}}}}},
              at(1ms), 100us);
  REQUIRE(f.partitions().size() == 3);
  CHECK(f.counts(0).waiting == 1);        // it has moved
  CHECK(f.due(1, at(1ms)) == at(1100us)); // there is room, and its context is ready then
  CHECK_FALSE(f.try_start(1, at(1ms)));
  REQUIRE(f.try_start(1, at(1100us)));
  REQUIRE(f.arrive(1, 4, at(1200us)) == 2u);
  CHECK_FALSE(f.try_start(2, at(1200us))); // 24 + 8 + 16 > 32
  CHECK(f.due(2, at(1200us)) == no_deadline);
  CHECK(f.end(0, at(2ms)));
  REQUIRE(f.try_start(2, at(2ms)));
  // A plan that has the same partition lets it go on: there is nothing to wait for.
  f.arrive(0, 5, at(2ms));
  f.switch_to({{{0, sm_count{8}, 10ms, {{0, 200, 2}}}}}, at(2ms), 1s);
  static_cast<void>(f.end(1, at(3ms)));
  CHECK(f.due(1, at(3ms)) < at(20ms));
}

TEST_CASE("F7: partitions of a region run at the same time, and count once in a switch") {
  const latency_table t = even_table({1ms, 1ms});
  frontend f(t, {40ms, 40ms}, {gpu_shape{sm_count{48}, sm_count{8}}});
  const sm_count most{24};
  const gpulet first{0, most, 10ms, {{0, 100, 2}}, 1}, second{0, most, 10ms, {{1, 100, 2}}, 1};
  f.switch_to({{first, second, {0, sm_count{16}, 10ms, {{1, 100, 2}}}}}, at(0ms));
  REQUIRE(f.arrive(0, 1, at(0ms)) == 0u);
  for (std::uint64_t id = 2; id < 4; ++id) REQUIRE(f.arrive(1, id, at(0ms)));
  for (std::uint32_t i = 0; i < 3; ++i) REQUIRE(f.try_start(i, at(0ms)));
  // The next plan keeps the region, whose batches run, and has 8 SMs in place of 16.
  f.switch_to({{first, second, {0, sm_count{8}, 10ms, {{0, 1000, 2}}}}}, at(0ms));
  REQUIRE(f.partitions().size() == 4);
  while (f.arrive(0, 4, at(1ms)) != 3u) continue;
  REQUIRE(f.try_start(3, at(1ms))); // 24 + 16 + 8 SMs
  // A region of the next plan with the number of the old one waits for the old one's batches.
  f.switch_to(
      {{{0, sm_count{32}, 10ms, {{0, 100, 2}}, 1}, {0, sm_count{32}, 10ms, {{1, 50, 2}}, 1}}},
      at(3ms));
  const std::size_t all = f.partitions().size();
  REQUIRE(f.arrive(1, 5, at(3ms)) == all - 1);
  const auto last = static_cast<std::uint32_t>(all - 1);
  CHECK_FALSE(f.try_start(last, at(3ms)));
  CHECK(f.end(2, at(3ms)));
  CHECK_FALSE(f.try_start(last, at(3ms))); // 32 + 8 SMs, and those of the old region
  for (std::uint32_t i = 0; i < 2; ++i) CHECK(f.end(i, at(3ms)));
  REQUIRE(f.try_start(last, at(3ms))); // beside the 8 SMs
}

TEST_CASE("F8: of a model that cannot be in time one request in each probe runs, alone") {
  const latency_table t = even_table({1ms, 1ms}); // 2 ms for a batch of 1
  frontend f(t, {10ms, 40ms}, {gpu_shape{sm_count{8}, sm_count{8}}},
             {batch_start::at_once, {}, 200ms});
  f.switch_to(one_partition({{0, 100, 2}, {1, 100, 2}}, 5ms), at(0ms));
  f.correct(std::vector<double>{5, 1}); // just in time: nothing is probed
  f.arrive(0, 1, at(0ms));
  REQUIRE(f.try_start(0, at(1ms)) == std::nullopt);
  CHECK(f.counts(0).dropped == 1);
  f.correct(std::vector<double>{6, 1});
  int probes = 0;
  time_point last = at(-1000ms);
  for (std::uint64_t id = 2; id <= 1001; ++id) {
    const time_point now = at(1ms * static_cast<int>(id));
    f.arrive(0, id, now);
    if (id % 5 == 0) f.arrive(0, 10'000 + id, now); // the last one runs
    const auto batch = f.try_start(0, now);
    if (!batch) continue;
    CHECK(batch->model == 0);
    CHECK(batch->requests.size() == 1);
    CHECK(now - last >= 200ms);
    last = now;
    ++probes;
    static_cast<void>(f.end(0, now));
  }
  CHECK(probes == 5);
  CHECK(f.counts(0).in_time == 5);
  CHECK(f.counts(0).dropped == 1 + 1000 + 200 - 5);
  CHECK(f.counts(0).waiting == 0);

  f.correct(std::vector<double>{60, 1}); // ten times 120 ms
  probes = 0;
  for (std::uint64_t id = 20'000; id < 26'000; ++id) {
    const time_point now = at(1ms * static_cast<int>(id));
    f.arrive(0, id, now);
    if (!f.try_start(0, now)) continue;
    ++probes;
    static_cast<void>(f.end(0, now));
  }
  CHECK(probes == 5);

  f.correct(std::vector<double>{4, 1}); // fast again: served
  f.arrive(0, 30'000, at(30'000ms));
  CHECK(f.try_start(0, at(30'000ms)));
}

TEST_CASE("F3: one request that has waited too long does not make all later ones late") {
  const latency_table t = even_table({6ms}); // a batch of n takes 6 + n ms
  frontend f(t, {20ms}, {gpu_shape{sm_count{8}, sm_count{8}}});
  f.switch_to(one_partition({{0, 400, 4}}, 10ms), at(0ms));
  for (std::uint64_t i = 0; i < 8; ++i) f.arrive(0, i, at(duration{i * 1'000'000}));
  // At 11 the first has 9 ms, in which 3 run; 4 of those after it would then begin at 20 and end
  // at 30, when the first of them has 23. So it is dropped, and with it the second.
  const auto batch = f.try_start(0, at(11ms));
  REQUIRE(batch);
  CHECK(f.dropped().size() == 1);
  CHECK(batch->requests.size() >= 4);
  CHECK(batch->requests.front().id == 1);
}

TEST_CASE("requests that arrive evenly at the planned rates meet their SLO") {
  std::mt19937_64 random(5);
  int served = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const latency_table t = random_table(random, 3, {8, 16, 32}, 6);
    const std::vector<gpu_shape> shapes(2, gpu_shape{sm_count{36}, sm_count{8}});
    std::vector<model_demand> demands;
    std::vector<duration> slos;
    for (std::size_t m = 0; m < 3; ++m) {
      slos.push_back(8 * t.latency(m, 2, sm_count{8}));
      demands.push_back({m, static_cast<double>(500 + random() % 4000), slos[m]});
    }
    const auto plan = elastic_planner{}.plan(t, demands, shapes);
    if (!plan) continue;
    std::vector<int> portions(3);
    for (const gpulet& g : plan->gpulets)
      for (const portion& p : g.portions) ++portions[p.model];
    if (*std::max_element(portions.begin(), portions.end()) > 1) continue;
    frontend f(t, slos, shapes);
    f.switch_to(*plan, at(0ms));
    std::map<std::uint32_t, time_point> ends;
    std::vector<double> next(3, 0);
    for (time_point now{}; now < at(1s); now += 1us) {
      for (auto it = ends.begin(); it != ends.end();)
        if (it->second <= now) {
          static_cast<void>(f.end(it->first, now));
          it = ends.erase(it);
        } else {
          ++it;
        }
      for (std::size_t m = 0; m < 3; ++m)
        if (to_s(now.time_since_epoch()) >= next[m]) {
          f.arrive(m, 1, now);
          next[m] += 1.001 / demands[m].rate;
        }
      for (std::uint32_t p = 0; p < f.partitions().size(); ++p) {
        if (!f.partitions()[p].is_idle()) continue;
        if (const auto b = f.try_start(p, now))
          ends[p] = now + t.latency(b->model, static_cast<std::uint32_t>(b->requests.size()),
                                    f.partitions()[p].sms);
      }
    }
    for (std::size_t m = 0; m < 3; ++m) {
      CHECK(f.counts(m).dropped == 0);
      CHECK(f.counts(m).late == 0);
      served += static_cast<int>(f.counts(m).in_time);
    }
  }
  CHECK(served > 10000);
}

TEST_CASE("serving does not allocate once queues have reached their longest") {
  const latency_table t = even_table({1ms, 2ms});
  frontend f(t, {20ms, 30ms}, {gpu_shape{sm_count{8}, sm_count{8}}});
  f.switch_to(one_partition({{0, 100, 4}, {1, 100, 4}}, 12ms), at(0ms));
  std::uint64_t id = 0;
  time_point now{}, ends = no_deadline;
  const auto serve = [&](int steps) {
    for (int i = 0; i < steps; ++i, now += 500us) {
      f.arrive(id % 2, id, now);
      ++id;
      if (ends <= now) {
        static_cast<void>(f.end(0, now));
        ends = no_deadline;
      }
      if (const auto b = f.try_start(0, now)) ends = now + 5ms;
      f.forget_dropped();
    }
  };
  serve(2000);
  const std::size_t before = allocations();
  serve(20000);
  CHECK(allocations() == before);
  CHECK(f.counts(0).dropped > 0);
  CHECK(f.counts(0).in_time > 1000);
}

TEST_CASE("a number of SLOs other than that of the models is refused") {
  const latency_table t = even_table({1ms});
  CHECK_THROWS_AS(frontend(t, {}, {}), error);
}

} // namespace gsched::testing
