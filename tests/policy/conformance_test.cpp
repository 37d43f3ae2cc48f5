// SPDX-License-Identifier: Apache-2.0
// One case for each numbered clause of policy and admitting_policy, for all models.

#include "allocations.hpp"
#include "policy/on_jobs.hpp"
#include "policy/workload.hpp"

#include "examples/feedback_queue.hpp"
#include "examples/least_slack.hpp"
#include "examples/lottery.hpp"

#include <gsched/policy/names.hpp>
#include <gsched/policy/priority.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace gsched;
using namespace gsched::test;

namespace {

/// A threshold that the workloads here exceed again and again.
template <class P>
struct tight : deficit_over<P> {
  tight() noexcept : deficit_over<P>(duration{600}) {}
};

using all_policies =
    std::tuple<fifo, round_robin, sjf, srpt, edf, deficit, deficit_over<srpt>, gamma_boost,
               tight<gamma_boost>, tight<srpt>, tight<fifo>, tight<edf>,
               gsched::priority<edf, deficit_over<srpt>>, gsched::priority<tight<srpt>, fifo>,
               tight<gsched::priority<edf, sjf>>, lottery, least_slack, feedback_queue,
               deficit_over<lottery>, gsched::priority<lottery, feedback_queue>>;

using preempting_policies =
    std::tuple<srpt, gamma_boost, edf, least_slack, deficit_over<srpt>, tight<srpt>, tight<edf>,
               gsched::priority<edf, deficit_over<srpt>>>;

using admitting_policies = std::tuple<edf, tight<edf>, gsched::priority<edf, deficit_over<srpt>>,
                                      gsched::priority<tight<srpt>, edf>>;

/// Random calls, the same for every P and every layout in memory. Tells `saw` of each pick.
template <class P, class Saw>
void exercise(P& p, workload& w, std::uint64_t seed, Saw saw) {
  std::mt19937_64 random(seed);
  std::vector<bool> is_in(w.size(), false);
  time_point now{};
  for (int step = 0; step < 4000; ++step) {
    now += duration{static_cast<std::int64_t>(random() % 200)};
    job& j = w[random() % w.size()];
    const auto what = random() % 8;
    if (!is_in[index(j.id)] && what < 4) {
      draw_facts(j, random, now);
      p.enqueue(j, now);
      is_in[index(j.id)] = true;
    } else if (is_in[index(j.id)] && what == 4) {
      p.erase(j);
      is_in[index(j.id)] = false;
    } else if (what > 4) {
      job* picked = p.try_pick(now);
      if (picked != nullptr) is_in[index(picked->id)] = false;
      saw(picked, is_in);
    }
  }
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("P1: each enqueued job leaves once, by try_pick or by erase", P,
                          leaving) {
  workload w(40, true, 5);
  on_jobs<P> p(w);
  const auto count = [](const std::vector<bool>& is_in) {
    return static_cast<std::size_t>(std::count(is_in.begin(), is_in.end(), true));
  };
  exercise(p, w, 11, [&](job* picked, const std::vector<bool>& is_in) {
    if (picked != nullptr) {
      CHECK_FALSE(p.is_linked(*picked));
    }
    REQUIRE(p.size() == count(is_in));
  });
  std::vector<std::uint64_t> rest = drain(p);
  std::sort(rest.begin(), rest.end());
  CHECK(std::adjacent_find(rest.begin(), rest.end()) == rest.end());
  CHECK(p.size() == 0);

  for (std::size_t i = 0; i < w.size(); ++i) p.enqueue(w[i], time_point{});  // and by erase, from
  for (std::size_t i = 0; i < w.size(); ++i) p.erase(w[(i * 7) % w.size()]); // within
  CHECK(p.size() == 0);
  CHECK(drain(p).empty());
}
TEST_CASE_TEMPLATE_APPLY(leaving, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P2: try_pick is null if and only if nothing waits", P, idling) {
  workload w(12, true, 3);
  on_jobs<P> p(w);
  CHECK(p.try_pick(time_point{}) == nullptr);
  bool was_empty = false, was_full = false;
  exercise(p, w, 12, [&](job* picked, const std::vector<bool>& is_in) {
    const auto left = std::count(is_in.begin(), is_in.end(), true); // by our own books
    if (picked == nullptr) REQUIRE(left == 0);
    was_empty |= picked == nullptr;
    was_full |= left > 4;
  });
  CHECK(was_empty);
  CHECK(was_full);
  drain(p, time_point::max());
  CHECK(p.size() == 0);
}
TEST_CASE_TEMPLATE_APPLY(idling, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P3: equal calls have equal answers, wherever jobs lie", P, repeating) {
  std::vector<std::uint64_t> picks[3];
  for (std::size_t run = 0; run < 3; ++run) {
    workload w(40, run == 1, 5);
    on_jobs<P> p(w);
    exercise(p, w, 13, [&](job* picked, const std::vector<bool>&) {
      picks[run].push_back(picked == nullptr ? ~std::uint64_t{0} : index(picked->id));
    });
  }
  CHECK(picks[0].size() > 100);
  CHECK(picks[0] == picks[1]);
  CHECK(picks[0] == picks[2]);
}
TEST_CASE_TEMPLATE_APPLY(repeating, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P4: equal keys leave in rising id", P, ties) {
  workload w(30, true); // address order opposes id order, so ties by address fail
  on_jobs<P> p(w);
  for (job* j : w.by_address()) p.enqueue(*j, time_point{});
  const std::vector<std::uint64_t> ids = drain(p);
  CHECK(ids.size() == 30);
  CHECK(std::is_sorted(ids.begin(), ids.end()));
}
TEST_CASE_TEMPLATE_APPLY(ties, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P5: no call allocates", P, hot_path) {
  workload w(200, true, 7);
  std::mt19937_64 random(15);
  for (std::size_t i = 0; i < w.size(); ++i) draw_facts(w[i], random, time_point{});
  on_jobs<P> p(w); // makes the states
  const std::size_t before = gsched::testing::allocations();
  bool wants = P().size() > 0; // nor does the policy itself
  for (int round = 0; round < 20; ++round) {
    const time_point now{duration{round}};
    for (std::size_t i = 0; i < w.size(); ++i) {
      if constexpr (admitting_policy<P>) wants ^= p.admits(w[i], now);
      wants ^= p.wants_preempt(w[i], now);
      p.enqueue(w[i], now);
    }
    for (std::size_t i = 0; i < w.size() / 2; ++i) p.enqueue(*p.try_pick(now), now);
    for (std::size_t i = 0; i < w.size(); i += 2) p.erase(w[i]);
    while (p.try_pick(now) != nullptr) wants = !wants;
  }
  CHECK(gsched::testing::allocations() == before);
  CHECK((wants || p.size() == 0));
}
TEST_CASE_TEMPLATE_APPLY(hot_path, all_policies);

namespace {
/// Of random situations, in how many P wants to preempt; in none of those may the job come next.
template <class P>
int preemptions() {
  int wanted = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    workload w(8, true, 3);
    on_jobs<P> p(w);
    const time_point now{duration{100}};
    for (std::size_t i = 0; i < w.size(); ++i) draw_facts(w[i], random, now);
    for (std::size_t i = 1; i < w.size(); ++i) p.enqueue(w[i], now);
    for (std::uint64_t picks = random() % 12; picks > 0; --picks) {
      job* j = p.try_pick(now);
      if (j != nullptr && random() % 4 != 0) p.enqueue(*j, now);
    }
    job& running = w[0];
    if (!p.wants_preempt(running, now)) continue;
    ++wanted;
    p.enqueue(running, now);
    REQUIRE(p.try_pick(now) != &running);
  }
  return wanted;
}
} // namespace

TEST_CASE_TEMPLATE_DEFINE("P6: who is to be preempted would not be picked next", P, preempting) {
  preemptions<P>();
}
TEST_CASE_TEMPLATE_APPLY(preempting, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P6: some models do want to preempt", P, wanting) {
  CHECK(preemptions<P>() > 100);
}
TEST_CASE_TEMPLATE_APPLY(wanting, preempting_policies);

TEST_CASE_TEMPLATE_DEFINE("P7: a policy that ends lets go of all that waits", P, ending) {
  workload w(24, true, 4);
  std::vector<per_client_t<P>> clients(w.clients());
  std::vector<typename P::per_job> jobs(w.size());
  for (std::size_t c = 0; c < w.clients(); ++c) clients[c].bind(w.owner(c));
  for (std::size_t k = 0; k < w.size(); ++k) jobs[k].bind(w[k], clients[index(w[k].owner->id)]);
  for (int round = 0; round < 2; ++round) { // linked hooks would fail when they are linked again
    P p;
    for (auto& j : jobs) p.enqueue(j, time_point{});
    for (int k = 0; k < 7; ++k) CHECK(p.try_pick(time_point{}) != nullptr);
  }
  P next;
  for (auto& j : jobs) next.enqueue(j, time_point{});
  std::size_t picked = 0;
  while (next.try_pick(time_point{}) != nullptr) ++picked;
  CHECK(picked == jobs.size());
}
TEST_CASE_TEMPLATE_APPLY(ending, all_policies);

TEST_CASE_TEMPLATE_DEFINE("A1: admits changes nothing", P, asking) {
  std::vector<std::uint64_t> picks[2];
  for (std::size_t asks = 0; asks < 2; ++asks) {
    workload w(40, true, 5);
    on_jobs<P> p(w);
    exercise(p, w, 16, [&](job* picked, const std::vector<bool>& is_in) {
      picks[asks].push_back(picked == nullptr ? ~std::uint64_t{0} : index(picked->id));
      if (asks == 0) return;
      for (std::size_t i = 0; i < w.size(); ++i) {
        if (is_in[i]) continue;
        const bool answer = p.admits(w[i], time_point{duration{500}});
        REQUIRE(p.admits(w[i], time_point{duration{500}}) == answer);
      }
    });
  }
  CHECK(picks[0] == picks[1]);
}
TEST_CASE_TEMPLATE_APPLY(asking, admitting_policies);

TEST_CASE_TEMPLATE_DEFINE("A2: on a device that does one thing at a time, who was refused is late",
                          P, refusing) {
  int refused = 0, admitted = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    workload w(10, true, 3);
    on_jobs<P> p(w);
    time_point now{duration{static_cast<std::int64_t>(random() % 1000)}};
    for (std::size_t i = 0; i < w.size(); ++i) {
      draw_facts(w[i], random, now);
      w[i].remaining += duration{50};
      w[i].head = std::min(w[i].remaining, duration{50});
    }
    for (std::size_t i = 0; i + 1 < w.size(); ++i) p.enqueue(w[i], now);
    job& asking = w[w.size() - 1];
    if (p.admits(asking, now)) {
      ++admitted;
      continue;
    }
    ++refused;
    p.enqueue(asking, now); // all the same
    while (asking.remaining > duration::zero()) {
      job* j = p.try_pick(now);
      now += j->head;
      j->remaining -= j->head;
      j->head = std::min(j->remaining, j->head);
      if (j->remaining > duration::zero()) p.enqueue(*j, now);
    }
    REQUIRE(now > asking.deadline);
  }
  CHECK(refused > 50);
  CHECK(admitted > 50);
}
TEST_CASE_TEMPLATE_APPLY(refusing, admitting_policies);

// base: a minimal model; each near miss breaks one clause of the concept, on one line.
namespace {
struct base {
  static constexpr std::string_view name = "base";
  using per_job = queued_job;
  base() = default;
  base(const base&) = delete;
  void enqueue(per_job&, time_point) noexcept {}
  per_job* try_pick(time_point) noexcept { return nullptr; }
  void erase(per_job&) noexcept {}
  bool wants_preempt(const per_job&, time_point) const noexcept { return false; }
  duration slice(const per_job&) const noexcept { return run_to_completion; }
  std::size_t size() const noexcept { return 0; }
};
static_assert(policy<base> && !admitting_policy<base>);

// clang-format off
struct needs_argument : base { explicit needs_argument(int) {} };
struct copies : base { copies() = default; copies(const copies&) : base() {} copies& operator=(const copies&) { return *this; } };
struct numbered : base { static constexpr int name = 1; };
struct throwing_enqueue : base { void enqueue(per_job&, time_point) {} };
struct reporting_enqueue : base { bool enqueue(per_job&, time_point) noexcept { return true; } };
struct timeless_enqueue : base { void enqueue(per_job&) noexcept {} };
struct throwing_pick : base { per_job* try_pick(time_point) { return nullptr; } };
struct const_pick : base { const per_job* try_pick(time_point) noexcept { return nullptr; } };
struct throwing_erase : base { void erase(per_job&) {} };
struct by_id_erase : base { void erase(job_id) noexcept {} };
struct mutable_wants : base { bool wants_preempt(const per_job&, time_point) noexcept { return false; } };
struct throwing_wants : base { bool wants_preempt(const per_job&, time_point) const { return false; } };
struct changing_wants : base { bool wants_preempt(per_job&, time_point) const noexcept { return false; } };
struct raw_slice : base { std::int64_t slice(const per_job&) const noexcept { return 1; } };
struct throwing_slice : base { duration slice(const per_job&) const { return {}; } };
struct narrow_size : base { std::uint32_t size() const noexcept { return 0; } };
struct mutable_size : base { std::size_t size() noexcept { return 0; } };
// clang-format on
struct stateless : base {
  struct per_job {};
  void enqueue(per_job&, time_point) noexcept {}
};
struct unbound_client : base {
  struct per_client {};
};
struct throwing_bind : base {
  struct per_job : queued_job {
    void bind(job&, known_client&) {}
  };
  void enqueue(per_job&, time_point) noexcept {}
  per_job* try_pick(time_point) noexcept { return nullptr; }
};
static_assert(!policy<stateless> && !policy<unbound_client> && !policy<throwing_bind>);
static_assert(!policy<needs_argument> && !policy<copies> && !policy<numbered>);
static_assert(!policy<throwing_enqueue> && !policy<reporting_enqueue> && !policy<timeless_enqueue>);
static_assert(!policy<throwing_pick> && !policy<const_pick>);
static_assert(!policy<throwing_erase> && !policy<by_id_erase>);
static_assert(!policy<mutable_wants> && !policy<throwing_wants> && !policy<changing_wants>);
static_assert(!policy<raw_slice> && !policy<throwing_slice>);
static_assert(!policy<narrow_size> && !policy<mutable_size>);

// clang-format off
struct admits_all : base { bool admits(const per_job&, time_point) const noexcept { return true; } };
struct throwing_admits : base { bool admits(const per_job&, time_point) const { return true; } };
struct mutable_admits : base { bool admits(const per_job&, time_point) noexcept { return true; } };
struct guessing_admits : base { double admits(const per_job&, time_point) const noexcept { return 1; } };
// clang-format on
static_assert(admitting_policy<admits_all>);
static_assert(policy<throwing_admits> && !admitting_policy<throwing_admits>);
static_assert(policy<mutable_admits> && !admitting_policy<mutable_admits>);
static_assert(policy<guessing_admits> && !admitting_policy<guessing_admits>);
static_assert(!admitting_policy<deficit_over<srpt>> && admitting_policy<deficit_over<edf>>);
static_assert(policy<deficit_over<base>> && policy<gsched::priority<base, fifo>>);
} // namespace

TEST_CASE("each policy is found by the name that people type, and no other is") {
  for (const std::string_view wanted :
       {"fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "boost"}) {
    std::string_view found;
    visit_policy(wanted, [&]<class P>(std::type_identity<P>) { found = P::name; });
    CHECK(found == wanted);
  }
  for (const std::string_view unknown : {"", "FIFO", "rr ", "lottery", "srpt+"}) {
    try {
      visit_policy(unknown, [](auto) { FAIL("visited"); });
      FAIL("no error");
    } catch (const error& e) {
      CHECK(e.code() == errc::unknown_name);
      CHECK(
          std::string(e.what()) ==
          "policy '" + std::string(unknown) +
              "': unknown, expected one of fifo, rr, sjf, srpt, edf, deficit, srpt+deficit, boost");
    }
  }
  CHECK(gsched::priority<edf, deficit_over<srpt>>::name == "priority<edf,srpt+deficit>");
}

TEST_CASE("a factor may follow the name of a policy that has one, behind a colon") {
  std::string_view found;
  visit_policy("boost:0.5", [&]<class P>(std::type_identity<P>) { found = P::name; });
  CHECK(found == "boost");
  CHECK(factor_of("boost:0.5") == 0.5);
  CHECK(factor_of("boost:1e-3") == 1e-3);
  CHECK(factor_of("boost") == gamma_boost::default_factor);
  for (const char* const bad : {"boost:", "boost:x", "boost:0", "boost:-1", "boost:1e7",
                                "boost:nan", "boost:inf", "boost:1 ", "boost:1:2"}) {
    CAPTURE(bad);
    try {
      visit_policy(bad, [](auto) { FAIL("visited"); });
      FAIL("no error");
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      const std::string factor = std::string(bad).substr(6);
      CHECK(std::string(e.what()) ==
            "policy '" + std::string(bad) + "': factor '" + factor + "', expected 1e-6 to 1e6");
    }
  }
  CHECK_THROWS_AS(visit_policy("fifo:1", [](auto) {}), error);
}
