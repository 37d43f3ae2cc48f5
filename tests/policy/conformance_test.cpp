// SPDX-License-Identifier: Apache-2.0
// One case for each numbered clause of policy and admitting_policy, for all models.

#include "allocations.hpp"

#include "examples/feedback_queue.hpp"
#include "examples/least_slack.hpp"
#include "examples/lottery.hpp"

#include <gsched/policy/chosen_policy.hpp>
#include <gsched/policy/conformance.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/priority.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace gsched;

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
               deficit_over<lottery>, gsched::priority<lottery, feedback_queue>,
               chosen_policy<lottery, tight<srpt>>, gsched::priority<edf, named_policy>>;

using preempting_policies =
    std::tuple<srpt, gamma_boost, edf, least_slack, deficit_over<srpt>, tight<srpt>, tight<edf>,
               gsched::priority<edf, deficit_over<srpt>>>;

using admitting_policies = std::tuple<edf, tight<edf>, gsched::priority<edf, deficit_over<srpt>>,
                                      gsched::priority<tight<srpt>, edf>>;

/// Fails with the broken clause, if there is one.
void expect(const std::optional<conformance::failure>& f) {
  if (f) FAIL_CHECK(f->line());
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("P1: each enqueued job leaves once, by try_pick or by erase", P,
                          conserving) {
  expect(conformance::check_conservation<P>());
}
TEST_CASE_TEMPLATE_APPLY(conserving, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P2: try_pick is null if and only if nothing waits", P, idling) {
  expect(conformance::check_no_idling<P>());
}
TEST_CASE_TEMPLATE_APPLY(idling, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P3: equal calls have equal answers, wherever jobs lie", P, repeating) {
  expect(conformance::check_determinism<P>());
}
TEST_CASE_TEMPLATE_APPLY(repeating, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P4: equal keys leave in rising id", P, ties) {
  expect(conformance::check_ties<P>());
}
TEST_CASE_TEMPLATE_APPLY(ties, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P5: no call allocates", P, hot_path) {
  expect(conformance::check_hot_path<P>(gsched::testing::allocations));
}
TEST_CASE_TEMPLATE_APPLY(hot_path, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P6: who is to be preempted would not be picked next", P, preempting) {
  expect(conformance::check_preemption<P>());
}
TEST_CASE_TEMPLATE_APPLY(preempting, all_policies);

TEST_CASE_TEMPLATE_DEFINE("P6: some models do want to preempt", P, wanting) {
  int wanted = 0;
  expect(conformance::check_preemption<P>({}, &wanted));
  CHECK(wanted > 100);
}
TEST_CASE_TEMPLATE_APPLY(wanting, preempting_policies);

TEST_CASE_TEMPLATE_DEFINE("P7: a policy that ends lets go of all that waits", P, ending) {
  expect(conformance::check_end<P>());
}
TEST_CASE_TEMPLATE_APPLY(ending, all_policies);

TEST_CASE_TEMPLATE_DEFINE("A1: admits changes nothing", P, asking) {
  expect(conformance::check_pure_admission<P>());
}
TEST_CASE_TEMPLATE_APPLY(asking, admitting_policies);

TEST_CASE_TEMPLATE_DEFINE("A2: on a device that does one thing at a time, who was refused is late",
                          P, refusing) {
  conformance::admissions seen;
  expect(conformance::check_deadline_admission<P>({}, &seen));
  CHECK(seen.refused > 50);
  CHECK(seen.admitted > 50);
}
TEST_CASE_TEMPLATE_APPLY(refusing, admitting_policies);

TEST_CASE_TEMPLATE("R1, R2: real-time jobs first, and each class alone", P,
                   gsched::priority<edf, deficit_over<srpt>>, gsched::priority<tight<srpt>, fifo>,
                   gsched::priority<lottery, feedback_queue>, gsched::priority<edf, named_policy>) {
  expect(conformance::check_classes<P>());
}

TEST_CASE("all clauses: each policy that is chosen by its name") {
  using with_real_time = gsched::priority<edf, named_policy>;
  for (const std::string_view name : selectable_policies::names) {
    CAPTURE(name);
    // A threshold and a slice that the workloads here exceed again and again.
    const policy_parameters with{.threshold = duration{600}, .slice = duration{500}};
    const auto make = [&] { return make_policy(name, with); };
    const conformance::options o{gsched::testing::allocations};
    CHECK(conformance::check_policy<named_policy>(make, o).text() == "");
    const auto beside_edf = [&] { return with_real_time([] { return edf(); }, make); };
    CHECK(conformance::check_policy<with_real_time>(beside_edf, o).text() == "");
    int wanted = 0;
    expect(conformance::check_preemption<named_policy>(make, &wanted));
    CHECK((wanted > 100) == find_policy(name)->preempts);
    conformance::admissions seen;
    expect(conformance::check_deadline_admission<named_policy>(make, &seen));
    CHECK((seen.refused > 50) == (name == edf::name));
    CHECK(seen.admitted > 50);
  }
}

namespace {

/// A correct policy, of which each of those below breaks a clause.
class oldest_first {
public:
  static constexpr std::string_view name = "oldest";
  using order = job_order<&job::arrival>;
  using per_job = order::per_job;

  void enqueue(per_job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(time_point) noexcept {
    return waiting_.empty() ? nullptr : waiting_.pop_front();
  }
  void erase(per_job& j) noexcept { waiting_.erase(j); }
  [[nodiscard]] bool wants_preempt(const per_job&, time_point) const noexcept { return false; }
  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

struct miscounts : oldest_first {
  [[nodiscard]] std::size_t size() const noexcept { return oldest_first::size() / 2; }
};
struct idles : oldest_first { // every fifth time
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    return ++calls_ % 5 == 0 ? nullptr : oldest_first::try_pick(now);
  }
  unsigned calls_ = 0;
};
struct reads_addresses : oldest_first { // lets the first of two go by their addresses
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* const one = oldest_first::try_pick(now);
    per_job* const other = oldest_first::try_pick(now);
    if (other == nullptr) return one;
    per_job* const back = std::less<>{}(one, other) ? other : one;
    oldest_first::enqueue(*back, now);
    return back == one ? other : one;
  }
};
struct newest_of_ties : oldest_first { // lets the second of two go
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* const one = oldest_first::try_pick(now);
    per_job* const other = oldest_first::try_pick(now);
    if (other == nullptr) return one;
    oldest_first::enqueue(*one, now);
    return other;
  }
};
struct allocates : oldest_first {
  void enqueue(per_job& j, time_point now) noexcept {
    kept_ = std::make_unique<int>(1);
    oldest_first::enqueue(j, now);
  }
  std::unique_ptr<int> kept_;
};
struct always_preempts : oldest_first {
  [[nodiscard]] bool wants_preempt(const per_job&, time_point) const noexcept {
    return oldest_first::size() > 0;
  }
};
struct curious : oldest_first { // a question counts
  [[nodiscard]] bool admits(const per_job&, time_point) const noexcept { return ++asked_ % 3 != 0; }
  mutable unsigned asked_ = 0;
};
struct refuses_all : oldest_first {
  [[nodiscard]] bool admits(const per_job&, time_point) const noexcept { return false; }
};

template <class P>
std::vector<std::string_view> broken_by() {
  const conformance::report r = conformance::check_policy<P>({}, {gsched::testing::allocations});
  std::vector<std::string_view> all;
  for (const conformance::failure& f : r.broken) all.push_back(f.clause.substr(0, 2));
  CHECK(r.holds() == all.empty());
  return all;
}

} // namespace

TEST_CASE("the suite names the clause that a policy breaks") {
  using clauses = std::vector<std::string_view>;
  const auto has = [](const clauses& all, std::string_view one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  CHECK(broken_by<oldest_first>() == clauses{});
  CHECK(has(broken_by<miscounts>(), "P1"));
  CHECK(has(broken_by<idles>(), "P2"));
  CHECK(has(broken_by<reads_addresses>(), "P3"));
  CHECK(broken_by<newest_of_ties>() == clauses{"P4"});
  CHECK(broken_by<allocates>() == clauses{"P5"});
  CHECK(broken_by<always_preempts>() == clauses{"P6"});
  CHECK(broken_by<curious>() == clauses{"A1"});
  CHECK(broken_by<refuses_all>() == clauses{});
  const auto a2 = conformance::check_deadline_admission<refuses_all>();
  REQUIRE(a2);
  CHECK(a2->line().find("A2 honest: a refused job could not have been served as the policy "
                        "promises: a refused job would have met its deadline") == 0);
}

TEST_CASE("a report says what was not checked, and takes policies with arguments") {
  conformance::report r = conformance::check_policy<round_robin>(
      [] { return round_robin(std::chrono::microseconds{20}); });
  CHECK(r.holds());
  CHECK(r.text().empty());
  CHECK(r.skipped == std::vector<std::string_view>{"P5 hot path"});
  CHECK(conformance::check_policy<edf>().skipped ==
        std::vector<std::string_view>{"P5 hot path", "A2 honest"});
  r = conformance::check_policy<newest_of_ties>();
  CHECK(r.text().find("P4 ties: equal keys leave in rising job::id: job ") == 0);
}

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
    CHECK(make_policy(wanted).chosen_name() == wanted);
  }
  for (const std::string_view unknown : {"", "FIFO", "rr ", "lottery", "srpt+", "direct", "rr:1"}) {
    try {
      static_cast<void>(make_policy(unknown));
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
  CHECK(make_policy("boost:0.5").chosen_name() == "boost");
  CHECK(factor_of("boost:0.5") == 0.5);
  CHECK(factor_of("boost:1e-3") == 1e-3);
  CHECK(factor_of("boost") == gamma_boost::default_factor);
  for (const char* const bad : {"boost:", "boost:x", "boost:0", "boost:-1", "boost:1e7",
                                "boost:nan", "boost:inf", "boost:1 ", "boost:1:2"}) {
    CAPTURE(bad);
    try {
      static_cast<void>(make_policy(bad));
      FAIL("no error");
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      const std::string factor = std::string(bad).substr(6);
      CHECK(std::string(e.what()) ==
            "policy '" + std::string(bad) + "': factor '" + factor + "', expected 1e-6 to 1e6");
    }
  }
  CHECK_THROWS_AS(static_cast<void>(make_policy("fifo:1")), error);
}
