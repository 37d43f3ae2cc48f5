// SPDX-License-Identifier: Apache-2.0
// Models that a corun_rule keeps apart.
#include "dispatch/rig.hpp"

#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/policy/deficit.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/gamma_boost.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using namespace gsched;

namespace {

/// The models of the jobs in flight, kept from the listener's events alone, and whether the rule
/// allowed each segment beside them.
struct corun_watch : recording_listener {
  std::shared_ptr<const corun_rule> rule{};
  std::map<job_id, corun_rule::row> row_of{}; ///< by job; set before it is submitted
  std::map<segment_id, job_id> flights{};
  std::vector<job_id> began{}; ///< in the order of the first segments
  std::uint64_t wrong = 0, beside = 0, real_time_beside = 0;
  bool copies = false; ///< the bodies also copy, and segments of copies are not looked at

  void on_submit(const job& j, const segment& s, duration expected, time_point now) noexcept {
    recording_listener::on_submit(j, s, expected, now);
    if (std::find(began.begin(), began.end(), j.id) == began.end()) began.push_back(j.id);
    if (copies && s.operations.front()->kind != operation_kind::kernel) return;
    std::map<job_id, corun_rule::row> jobs;
    for (const auto& [id, owner] : flights) jobs[owner] = row_of.at(owner);
    jobs[j.id] = row_of.at(j.id);
    flights[s.id] = j.id;
    beside += jobs.size() > 1;
    const bool real_time = j.service == service_class::real_time;
    for (const auto& [id, its_row] : jobs) {
      corun_rule::excess sum = 0;
      for (const auto& [other, its] : jobs)
        if (other != id) sum += rule->of(its_row, its);
      // a real-time job may have brought others beyond their limits
      const bool concerned = id == j.id || rule->of(its_row, row_of.at(j.id)) > 0;
      if (concerned && sum > rule->limit(its_row)) ++(real_time ? real_time_beside : wrong);
    }
  }
  void on_segment_end(const job& j, segment_id id, time_point now) noexcept {
    recording_listener::on_segment_end(j, id, now);
    flights.erase(id);
  }
};

using kept_rule = std::shared_ptr<const corun_rule>;

kept_rule rule_of(std::vector<corun_limit> models, std::vector<corun_slowdown> pairs,
                  unknown_pairs unknown = unknown_pairs::allowed) {
  return std::make_shared<const corun_rule>(models, pairs, unknown);
}
/// a and b are kept apart, c runs beside both.
kept_rule a_or_b() {
  return rule_of({{"a", 1.2}, {"b", 1.2}, {"c"}},
                 {{"a", "b", 1.5}, {"b", "a", 1.1}, {"a", "c", 1.1}, {"b", "c", 1.2}});
}

dispatch_options under(const kept_rule& rule, duration most_wait = from_us(500)) {
  dispatch_options o = rig<fifo>::even();
  o.corun.rule = rule;
  o.corun.most_wait = most_wait;
  return o;
}

/// Models "a", "b", ... on one dispatcher. Each job launches the program a number of times.
template <policy P>
struct corun_rig : rig<P, corun_watch> {
  struct body_of {
    const program& graph;
    bool copies;
    task operator()(job_context& ctx) {
      for (auto n = reinterpret_cast<std::uintptr_t>(ctx.user); n > 0; --n) {
        if (copies)
          ctx.copy_async(ctx.default_stream(), copy_direction::host_to_device, byte_count{9});
        ctx.launch(graph);
        if (n % 2 == 1) co_await ctx.synchronize();
      }
      if (copies)
        ctx.copy_async(ctx.default_stream(), copy_direction::device_to_host, byte_count{9});
    }
  };

  corun_rig(const dispatch_options& o, std::size_t models, std::uint32_t instances = 0,
            bool copies = false)
      : rig<P, corun_watch>(o) {
    this->hears.rule = o.corun.rule;
    this->hears.copies = copies;
    program& graph = this->make_program("graph", 8, from_us(25)); // two segments
    for (std::size_t m = 0; m < models; ++m) {
      const std::string name(1, static_cast<char>('a' + m));
      bodies.push_back({graph, copies});
      ids.push_back(this->dispatch.add_model(name, bodies.back(), &graph, instances));
      rows.push_back(o.corun.rule ? o.corun.rule->row_of(name) : 0);
    }
    for (int i = 0; i < 3; ++i) clients.push_back(&this->dispatch.add_client());
  }

  job_id submit(std::size_t m, std::uintptr_t launches = 1,
                service_class of = service_class::best_effort, int deadline_us = 0,
                std::size_t client = 0) {
    job_request q = this->request(ids[m], *clients[client]);
    q.service = of;
    if (deadline_us > 0) q.deadline = this->device.now() + from_us(deadline_us);
    q.user = reinterpret_cast<void*>(launches);
    this->hears.row_of[job_id{next}] = rows[m];
    const job_id id = this->dispatch.submit(q);
    REQUIRE(id == job_id{next});
    ++next;
    return id;
  }
  [[nodiscard]] bool has_ended(job_id id) const {
    return std::any_of(this->hears.ends.begin(), this->hears.ends.end(),
                       [&](const auto& e) { return e.id == id; });
  }
  [[nodiscard]] std::size_t in_flight(std::size_t m) const {
    std::map<job_id, int> jobs;
    for (const auto& [id, owner] : this->hears.flights)
      if (this->hears.row_of.at(owner) == rows[m]) ++jobs[owner];
    return jobs.size();
  }
  [[nodiscard]] const neighbour_statistics& counted() const {
    return this->dispatch.statistics().neighbours;
  }
  /// All jobs end, and no segment started beside others that the rule keeps apart from it.
  void check_all_end() {
    for (int rounds = 0; this->step_once(); ++rounds) {
      REQUIRE(rounds < 100'000);
      REQUIRE((this->dispatch.idle() || !this->dispatch.nothing_in_flight()));
    }
    CHECK(this->hears.wrong == 0);
    CHECK(this->dispatch.statistics().ended() == next);
    CHECK(this->hears.ends.size() == next);
    CHECK(this->hears.flights.empty());
    CHECK(this->order.size() == 0);
  }

  std::deque<body_of> bodies;
  std::vector<model_id> ids;
  std::vector<corun_rule::row> rows;
  std::vector<client*> clients;
  std::uint64_t next = 0;
};

kept_rule drawn_pairs_rule(std::mt19937_64& random, std::size_t models) {
  std::vector<corun_limit> limits;
  std::vector<corun_slowdown> pairs;
  for (std::size_t i = 0; i < models; ++i)
    limits.push_back(
        {std::string(1, static_cast<char>('a' + i)),
         random() % 5 == 0 ? corun_limit::none : 1 + static_cast<double>(random() % 5) / 10});
  for (const corun_limit& x : limits)
    for (const corun_limit& y : limits)
      if (random() % 4 != 0)
        pairs.push_back({x.model, y.model, 1 + static_cast<double>(random() % 5) / 10});
  return rule_of(limits, pairs, random() % 2 ? unknown_pairs::allowed : unknown_pairs::refused);
}

using some_policies = std::tuple<fifo, round_robin, gamma_boost, srpt, edf, deficit,
                                 deficit_over<srpt>, gsched::priority<edf, deficit_over<srpt>>>;

/// fifo, which adds up the heads of picked jobs, as policies do that charge clients.
struct charging_fifo {
  static constexpr std::string_view name = "charging_fifo";
  using per_job = fifo::per_job;
  void enqueue(per_job& j, time_point now) noexcept { base.enqueue(j, now); }
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* const picked = base.try_pick(now);
    if (picked != nullptr) charged += (*picked)->head;
    return picked;
  }
  void erase(per_job& j) noexcept { base.erase(j); }
  [[nodiscard]] bool wants_preempt(const per_job& j, time_point now) const noexcept {
    return base.wants_preempt(j, now);
  }
  [[nodiscard]] duration slice(const per_job& j) const noexcept { return base.slice(j); }
  [[nodiscard]] std::size_t size() const noexcept { return base.size(); }

  fifo base;
  duration charged{};
};

} // namespace

TEST_CASE_TEMPLATE_DEFINE("corun: drawn rules and jobs, cancelled or not", P, drawn_jobs) {
  std::uint64_t beside = 0, refused = 0, claims = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::size_t models = 2 + random() % 4;
    dispatch_options o =
        under(drawn_pairs_rule(random, models), from_us(static_cast<double>(random() % 3 * 300)));
    o.lanes = 1 + static_cast<std::uint32_t>(random() % 6);
    o.segments_per_job = 1 + static_cast<std::uint32_t>(random() % 3);
    o.max_segments = 16;
    // one model more than the rule names
    corun_rig<P> r(o, models + 1, static_cast<std::uint32_t>(random() % 3), random() % 2 == 0);
    for (int i = 0; i < 60; ++i) {
      r.submit(random() % (models + 1), random() % 4,
               random() % 5 ? service_class::best_effort : service_class::real_time,
               static_cast<int>(random() % 3 * 900), random() % 3);
      for (std::uint64_t n = random() % 4; n > 0; --n) r.step_once();
      if (random() % 5 == 0) static_cast<void>(r.dispatch.cancel(job_id{random() % r.next}));
    }
    r.check_all_end();
    beside += r.hears.beside;
    refused += r.counted().refused;
    claims += r.counted().claims;
  }
  CHECK(beside > 100);
  CHECK(refused > 100);
  CHECK(claims > 10);
}
TEST_CASE_TEMPLATE_APPLY(drawn_jobs, some_policies);

TEST_CASE("corun: two models that are kept apart take turns, a third runs beside both") {
  corun_rig<fifo> r(under(a_or_b()), 3);
  for (int i = 0; i < 6; ++i) {
    r.submit(0, 3);
    r.submit(1, 3);
    r.submit(2, 3);
  }
  r.step_once();
  CHECK(r.in_flight(0) > 1); // beside itself
  CHECK(r.in_flight(1) == 0);
  CHECK(r.in_flight(2) == 2); // a third would bring a beyond its limit
  r.check_all_end();
  CHECK(r.counted().refused > 0);
  CHECK(r.counted().waited >= r.counted().longest_wait);
  CHECK(r.counted().longest_wait > from_us(50));
  CHECK(r.counted().unknown > 0); // c beside the others
}

TEST_CASE("corun: without a rule nothing is refused, counted or kept") {
  dispatch_options o = under(nullptr);
  corun_rig<fifo> r(o, 2);
  r.hears.rule = rule_of({}, {});
  for (int i = 0; i < 6; ++i) r.submit(static_cast<std::size_t>(i) % 2, 2);
  r.step_once();
  CHECK(r.dispatch.statistics().active == 6);
  r.check_all_end();
  CHECK(r.counted().refused + r.counted().unknown + r.counted().claims == 0);
}

// Jobs of `a` arrive for ever, and some are always in flight. The policies pick `b` when no job of
// `a` waits.
TEST_CASE_TEMPLATE("corun: a stream of jobs does not starve another model", P, fifo, srpt, edf,
                   deficit_over<srpt>) {
  for (const bool bounded : {true, false}) {
    CAPTURE(bounded);
    corun_rig<P> r(under(a_or_b(), bounded ? from_us(500) : run_to_completion), 3);
    const auto serve_a = [&](std::size_t jobs) {
      if (r.dispatch.statistics().active < jobs)
        r.submit(0, 1, service_class::best_effort, 1'000'000);
      while (r.dispatch.step()) {
      }
      r.device.wait(r.device.now() + from_us(7)); // so that they do not end at once
    };
    for (int i = 0; i < 40; ++i) serve_a(6);
    const job_id b = r.submit(1, 4);
    const time_point from = r.device.now();
    for (int i = 0; i < 3000 && !r.has_ended(b); ++i) serve_a(7);
    CHECK(r.has_ended(b) == bounded);
    // eight segments, and as often at most the bound, the segments in flight, and another claim
    if (bounded) CHECK(r.device.now() - from < from_us(8 * 2500));
    CHECK((r.counted().claims > 0) == bounded);
    r.check_all_end();
  }
}

TEST_CASE("corun: jobs that wait are not looked at again and again") {
  corun_rig<srpt> r(under(a_or_b()), 3);
  for (int i = 0; i < 8; ++i) r.submit(0, 40);
  r.step_once();
  for (int i = 0; i < 2000; ++i) r.submit(1, 1);
  r.check_all_end();
  const dispatch_statistics& s = r.dispatch.statistics();
  CHECK(s.decisions == s.segments + r.counted().refused);
  CHECK(r.counted().refused < 2100 + 20 * r.counted().claims);
}

TEST_CASE("corun: jobs of a model that waits start in the policy's order") {
  corun_rig<edf> r(under(a_or_b(), run_to_completion), 3);
  const job_id first = r.submit(0, 5, service_class::best_effort, 900'000);
  r.step_once();
  std::vector<job_id> expected;
  for (const int us : {500'000, 400'000, 300'000})
    expected.insert(expected.begin(), r.submit(1, 1, service_class::best_effort, us));
  r.step_once(); // these are refused
  CHECK(r.counted().refused == 3);
  for (const int us : {200'000, 100'000})
    expected.insert(expected.begin(), r.submit(1, 1, service_class::best_effort, us));
  expected.insert(expected.begin(), first);
  r.check_all_end();
  CHECK(r.hears.began == expected);
}

TEST_CASE("corun: a refused pick costs its client nothing") {
  corun_rig<charging_fifo> r(under(a_or_b(), duration::zero()), 3);
  for (int i = 0; i < 40; ++i) {
    r.submit(static_cast<std::size_t>(i) % 3, 2);
    r.step_once();
  }
  r.check_all_end();
  duration submitted{};
  for (const auto& s : r.hears.submits) submitted += s.expected;
  CHECK(r.counted().refused > 20);
  CHECK(r.order.charged <= submitted + duration{r.counted().refused});
  CHECK(r.order.charged >= submitted);
}

TEST_CASE("corun: a real-time job is never refused, and best-effort work waits beside it") {
  using classes = gsched::priority<edf, srpt>;
  for (const std::uint32_t lanes : {0u, 1u}) {
    CAPTURE(lanes);
    dispatch_options o = under(a_or_b(), duration::zero());
    o.preemption.real_time_lanes = lanes;
    o.preemption.yields = false;
    o.lanes = 6;
    corun_rig<classes> r(o, 3);
    for (int i = 0; i < 3; ++i) r.submit(0, 6);
    r.step_once();
    CHECK(r.in_flight(0) == 3);
    const job_id urgent = r.submit(1, 6, service_class::real_time);
    r.step_once();
    CHECK(r.in_flight(1) == 1);
    CHECK(r.counted().overridden == 1);
    CHECK(r.hears.real_time_beside > 0);
    int beside = 0;
    while (!r.has_ended(urgent)) {
      r.step_once();
      beside += r.in_flight(0) > 0 && r.in_flight(1) > 0;
    }
    CHECK(beside <= 3); // the segments that were in flight at its arrival
    r.check_all_end();
  }
}

TEST_CASE("corun: copies are not refused, and do not count") {
  dispatch_options o = under(a_or_b(), run_to_completion);
  corun_rig<fifo> r(o, 3, 0, true);
  r.submit(0, 6);
  r.step_once();
  r.submit(1, 1);
  const std::size_t before = r.hears.submits.size();
  CHECK(r.dispatch.step());
  REQUIRE(r.hears.submits.size() == before + 1); // the copy of its input
  CHECK(r.hears.submits.back().job == job_id{1});
  r.submit(0, 1); // the copy does not keep it waiting
  r.step_once();
  CHECK(r.in_flight(0) == 2);
  r.check_all_end();
}

TEST_CASE("corun: models come and go; one that is not named runs beside all, or alone") {
  for (const auto unknown : {unknown_pairs::allowed, unknown_pairs::refused}) {
    auto o = under(rule_of({{"a", 1.2}, {"b"}}, {{"a", "b", 1.5}, {"b", "a", 1}}, unknown));
    corun_rig<fifo> r(o, 3);
    r.submit(0, 2);
    r.submit(2, 2);
    r.step_once();
    CHECK(r.in_flight(0) == 1);
    CHECK(r.in_flight(2) == (unknown == unknown_pairs::allowed ? 1 : 0));
    r.check_all_end();
    CHECK((r.counted().unknown > 0) == (unknown == unknown_pairs::allowed));
    r.dispatch.remove(r.ids[0]);
    // another model of that name, while one job of b runs and one of it waits
    r.ids[0] = r.dispatch.add_model("a", r.bodies[0], nullptr);
    r.submit(1, 2);
    r.submit(0, 2);
    r.step_once();
    CHECK(r.in_flight(1) == 1);
    CHECK(r.in_flight(0) == 0);
    r.dispatch.cancel_all();
    r.check_all_end();
    r.dispatch.remove(r.ids[0]);
  }
}
