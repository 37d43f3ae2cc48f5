// SPDX-License-Identifier: Apache-2.0
// Properties of deficit fairness beyond the clauses of a policy.

#include "on_jobs.hpp"
#include "workload.hpp"

#include <gsched/policy/deficit.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/detail/deficit_ledger.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

using namespace gsched;
using namespace gsched::test;
using namespace std::chrono_literals;

namespace {

/// The clients of a workload with their ledger states.
struct accounts {
  explicit accounts(workload& w) : all(w.clients()) {
    for (std::size_t c = 0; c < w.clients(); ++c) all[c].bind(w.owner(c));
  }
  fair_client& operator[](std::size_t c) { return all[c]; }
  std::vector<fair_client> all;
};

/// Two clients that always have waiting jobs; returns the time that each was served, pick by pick.
template <class P, class Check>
std::array<double, 2> serve_two(P& p, workload& w, std::array<duration, 2> head, int picks,
                                Check check) {
  std::array<double, 2> served{};
  for (std::size_t i = 0; i < w.size(); ++i) {
    job& j = w[i];
    j.head = head[i % 2];
    j.remaining = 10 * j.head;
    p.enqueue(j, time_point{});
  }
  for (int i = 0; i < picks; ++i) {
    job* j = p.try_pick(time_point{});
    served[index(j->owner->id)] += static_cast<double>(j->head.count());
    p.enqueue(*j, time_point{});
    check(served);
  }
  return served;
}

} // namespace

TEST_CASE("backlogged clients are served by weight, to within a quantum and the threshold") {
  constexpr duration quantum = 100us;
  for (const duration threshold : {duration{0}, duration{1ms}, duration{20ms}})
    for (const double scale : {1.0, 1.0 / 64, 64.0}) { // only ratios of weights count
      CAPTURE(threshold.count());
      CAPTURE(scale);
      workload w(6, true, 2);
      w.owner(0).weight = 1 * scale;
      w.owner(1).weight = 3 * scale;
      on_jobs<deficit_over<srpt>> p(w, threshold);
      // srpt alone would never serve client 1, whose jobs are longer
      double most = 0;
      serve_two(p, w, {20us, quantum}, 100000, [&](std::array<double, 2> s) {
        const double all = s[0] + s[1];
        const double lag = 0.75 * all - s[1]; // mean weight 2, so of 3: 1.5 thresholds
        most = std::max(most, lag);
        REQUIRE(lag <= 1.5 * static_cast<double>(threshold.count()) + 1e5 + 1);
        REQUIRE(-lag <= 0.5 * static_cast<double>(threshold.count()) + 1e5 + 1);
      });
      CHECK(most >= 1.5 * static_cast<double>(threshold.count()) - 1e5); // the threshold is used
    }
}

TEST_CASE("pure deficit serves by weight to within a quantum") {
  workload w(6, true, 2);
  w.owner(1).weight = 3;
  on_jobs<deficit> p(w);
  const auto served = serve_two(p, w, {130us, 70us}, 20000, [&](std::array<double, 2> s) {
    REQUIRE(std::abs(0.75 * (s[0] + s[1]) - s[1]) <= 130e3 + 1);
  });
  CHECK(served[1] / served[0] == doctest::Approx(3).epsilon(0.01));
}

TEST_CASE("a threshold without an end leaves srpt alone, and its starvation") {
  workload w(6, true, 2);
  on_jobs<deficit_over<srpt>> p(w, run_to_completion);
  const auto served = serve_two(p, w, {20us, 100us}, 1000, [](std::array<double, 2>) {});
  CHECK(served[1] == 0);
}

TEST_CASE("a long job ends in bounded time under a stream of short ones") {
  constexpr duration threshold = 2ms, head = 100us;
  constexpr std::size_t clients = 5;
  workload w(clients, true, clients);
  on_jobs<deficit_over<srpt>> p(w, threshold);
  job& victim = w[0]; // one job of client 0; the others' are short, and there are always some
  victim.remaining = 50 * head;
  victim.head = head;
  p.enqueue(victim, time_point{});
  for (std::size_t i = 1; i < clients; ++i) {
    w[i].remaining = w[i].head = 70us;
    p.enqueue(w[i], time_point{});
  }
  duration clock{};
  while (victim.remaining > duration::zero()) {
    job* j = p.try_pick(time_point{clock});
    clock += j->head;
    if (j == &victim) victim.remaining -= head;
    if (j != &victim || victim.remaining > duration::zero()) p.enqueue(*j, time_point{clock});
    // its share is a fifth; it may start when it is owed the threshold
    REQUIRE(clock <= clients * (50 * head + threshold + head));
  }
  CHECK(clock >= clients * threshold);
}

TEST_CASE("a client with one job at a time is not charged for its time in flight") {
  // Client 0 waits only until it is picked, and returns after client 1 was served once.
  workload w(3, true, 2);
  on_jobs<deficit> p(w);
  for (std::size_t i = 0; i < w.size(); ++i) w[i].head = 100us;
  p.enqueue(w[1], time_point{});
  w[2].owner = &w.owner(1);
  p.enqueue(w[2], time_point{});
  p.enqueue(w[0], time_point{});
  std::array<int, 2> served{};
  job* away = nullptr;
  for (int i = 0; i < 2000; ++i) {
    job* j = p.try_pick(time_point{});
    ++served[index(j->owner->id)];
    if (away != nullptr) p.enqueue(*away, time_point{});
    away = j == &w[0] ? j : nullptr;
    if (away == nullptr) p.enqueue(*j, time_point{});
  }
  CHECK(std::abs(served[0] - served[1]) <= 2);
  if (away != nullptr) p.enqueue(*away, time_point{});
}

TEST_CASE("who was idle gets its share from now on, and nothing for the past") {
  workload w(4, true, 2);
  on_jobs<deficit> p(w);
  for (std::size_t i = 0; i < w.size(); ++i) w[i].head = 100us;
  for (int i = 0; i < 1000; ++i) { // client 1 alone
    if (i == 0) p.enqueue(w[1], time_point{});
    p.enqueue(*p.try_pick(time_point{}), time_point{});
  }
  p.enqueue(w[0], time_point{});
  int first = 0;
  for (int i = 0; i < 100; ++i) {
    job* j = p.try_pick(time_point{});
    first += j == &w[0];
    p.enqueue(*j, time_point{});
    REQUIRE(std::abs(2 * first - (i + 1)) <= 2);
  }
}

TEST_CASE("a debt is not shed by leaving") {
  for (const bool pauses : {false, true}) {
    workload w(2, true, 2);
    on_jobs<deficit_over<srpt>> p(w, 1ms);
    w[0].remaining = 1us;
    w[1].remaining = 1s;
    w[0].head = w[1].head = 100us;
    p.enqueue(w[0], time_point{});
    p.enqueue(w[1], time_point{});
    std::array<int, 2> served{};
    for (int i = 0; i < 10000; ++i) {
      job* j = p.try_pick(time_point{});
      ++served[index(j->id)];
      if (pauses && j == &w[0]) { // cancelled and submitted again
        p.enqueue(*j, time_point{});
        p.erase(*j);
      }
      p.enqueue(*j, time_point{});
    }
    CHECK(served[0] == doctest::Approx(5000).epsilon(0.01));
  }
}

TEST_CASE("deficits are conserved: they add up to what rounding left") {
  workload w(12, true, 6);
  accounts known(w);
  deficit_ledger ledger;
  std::array<double, 6> weights{1, 3, 0.25, 7, 1, 1.0 / 1024};
  std::array<bool, 6> in{};
  for (std::size_t c = 0; c < 6; ++c) w.owner(c).weight = weights[c];
  std::mt19937_64 random(5);
  const auto total = [&] {
    double sum = 0;
    for (std::size_t c = 0; c < 6; ++c)
      sum += weights[c] * static_cast<double>(ledger.deficit_of(known[c])) / 16;
    return sum;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::size_t c = random() % 6;
    if (!in[c]) {
      ledger.enter(known[c]);
      in[c] = true;
    } else if (random() % 8 == 0) {
      ledger.leave(known[c]);
      in[c] = false;
    } else {
      const bool last = random() % 3 == 0;
      ledger.pick(known[c], duration{static_cast<std::int64_t>(random() % 200000)}, last);
      in[c] = !last;
    }
    REQUIRE(std::abs(total()) < 5000.0); // of 10^9 ns served, in 10^4 picks
  }
}

TEST_CASE("counters are set back before they overflow, and nothing is lost") {
  workload w(3, true, 3);
  for (std::size_t c = 0; c < 3; ++c) w.owner(c).weight = 1e-5; // the least there is: 2^-16
  accounts known(w);
  deficit_ledger ledger;
  for (std::size_t c = 0; c < 3; ++c) ledger.enter(known[c]);
  std::array<int, 3> served{};
  for (int i = 0; i < 3000; ++i) { // 3000 * 2^60 / 3 in level, over 2^63 many times
    fair_client& c = *ledger.leader();
    ++served[index(c.facts().id)];
    ledger.pick(c, deficit_ledger::longest, false);
    for (std::size_t k = 0; k < 3; ++k)
      REQUIRE(std::abs(ledger.deficit_of(known[k])) <= std::int64_t{1} << 60);
  }
  for (const int s : served) CHECK(s == 1000);
}

TEST_CASE("a client that is never served keeps its place when counters are set back") {
  workload w(3, true, 3);
  for (std::size_t c = 0; c < 3; ++c) w.owner(c).weight = 1e-5;
  accounts known(w);
  deficit_ledger ledger;
  for (std::size_t c = 0; c < 3; ++c) ledger.enter(known[c]);
  for (int i = 0; i < 200; ++i) {
    ledger.pick(known[1 + static_cast<std::size_t>(i % 2)], deficit_ledger::longest, false);
    REQUIRE(ledger.leader() == &known[0]);
    REQUIRE(ledger.deficit_of(known[0]) > 0);
  }
}

TEST_CASE("a client that is forgotten can go, in debt or not, and leaves no weight behind") {
  workload w(2, true, 1);
  on_jobs<deficit> p(w);
  w[0].head = w[1].head = 100us;
  p.enqueue(w[0], time_point{});
  {
    client visitor;
    visitor.id = client_id{1};
    visitor.weight = 1000;
    job visit;
    visit.id = job_id{7};
    visit.owner = &visitor;
    visit.head = 1s;
    p.enqueue(visit, time_point{});
    w[0].head = 100us;
    while (p.is_linked(visit)) {
      job* j = p.try_pick(time_point{});
      if (j != &visit) p.enqueue(*j, time_point{});
    }
    const auto& state = p.state_of(visitor);
    p.policy().forget(p.state_of(visitor));
    CHECK_FALSE(state.deficit_hook.is_linked());
    p.forget(visitor);
  }
  workload other(1, true);
  other.owner(0).id = client_id{2};
  other[0].id = job_id{8};
  other[0].head = 100us;
  p.enqueue(other[0], time_point{});
  int first = 0;
  for (int i = 0; i < 100; ++i) {
    job* j = p.try_pick(time_point{});
    first += j == &w[0];
    p.enqueue(*j, time_point{});
  }
  CHECK(first >= 49);
  p.erase(other[0]);
  p.forget(other.owner(0));
  p.erase(w[0]);
  p.forget(w.owner(0));
}

TEST_CASE("a policy that ends lets go of the jobs and clients that it holds") {
  workload w(20, true, 4);
  std::vector<deficit_over<srpt>::per_client> clients(w.clients());
  std::vector<deficit_over<srpt>::per_job> jobs(w.size());
  for (std::size_t c = 0; c < w.clients(); ++c) clients[c].bind(w.owner(c));
  for (std::size_t k = 0; k < w.size(); ++k) jobs[k].bind(w[k], clients[index(w[k].owner->id)]);
  for (int i = 0; i < 2; ++i) {
    deficit_over<srpt> p;
    for (auto& j : jobs) p.enqueue(j, time_point{});
    for (int k = 0; k < 7; ++k) CHECK(p.try_pick(time_point{}) != nullptr);
  }
  for (const auto& j : jobs) {
    CHECK_FALSE(j.order_hook.is_linked());
    CHECK_FALSE(j.queue_hook.is_linked());
    CHECK_FALSE(j.returned_hook.is_linked());
  }
  for (const auto& c : clients) CHECK_FALSE(c.deficit_hook.is_linked());
}

TEST_CASE("what fairness gave, srpt does not take back") {
  workload w(2, true, 2);
  on_jobs<deficit_over<srpt>> p(w, 1ms);
  job& brief = w[0];
  job& lengthy = w[1];
  brief.remaining = 10us;
  lengthy.remaining = 1s;
  brief.head = lengthy.head = 600us;
  p.enqueue(brief, time_point{});
  p.enqueue(lengthy, time_point{});
  job* picked = nullptr;
  int picks = 0;
  while ((picked = p.try_pick(time_point{})) == &brief && ++picks < 100) {
    CHECK_FALSE(p.wants_preempt(brief, time_point{}));
    p.enqueue(brief, time_point{});
  }
  REQUIRE(picked == &lengthy);
  CHECK(picks == 4);                                   // 4 x 300 us exceed 1 ms
  CHECK_FALSE(p.wants_preempt(lengthy, time_point{})); // after its pick it is not overdue
  p.enqueue(lengthy, time_point{});
  CHECK(p.try_pick(time_point{}) == &brief);
  CHECK_FALSE(p.wants_preempt(brief, time_point{}));
}

TEST_CASE("deficit_over: a client that P passes over waits about clients times the threshold") {
  constexpr duration threshold{1000}, head{50};
  for (const std::size_t n : {4u, 16u, 64u}) {
    CAPTURE(n);
    workload w(n, true, n);
    on_jobs<deficit_over<srpt>> p(w, threshold);
    for (std::size_t i = 0; i < n; ++i) {
      w[i].owner = &w.owner(i);
      w[i].remaining = duration{i == 0 ? 1'000'000 : 1};
      w[i].head = head;
      p.enqueue(w[i], time_point{});
    }
    duration picked{}, last{}, longest{};
    for (int k = 0; k < 200'000; ++k) {
      job* const j = p.try_pick(time_point{});
      if (j == &w[0]) {
        longest = std::max(longest, picked - last);
        last = picked;
      }
      picked += head;
      p.enqueue(*j, time_point{});
    }
    const auto clients = static_cast<duration::rep>(n);
    CHECK(longest <= 2 * clients * (threshold + head));
    CHECK(longest >= clients * threshold / 2); // not limited by the threshold alone
    for (std::size_t i = 0; i < n; ++i) p.erase(w[i]);
  }
}
