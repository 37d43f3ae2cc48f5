// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/detail/conformance_rig.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The conformance suite for policies: checks the numbered clauses of gsched::policy,
/// admitting_policy and serves_real_time_first that the compiler cannot check. It needs no test
/// library; gsched's own tests of its policies use it. Not part of gsched.hpp.
///
///   #include <gsched/policy/conformance.hpp>
///   const auto report = gsched::conformance::check_policy<my_policy>();
///   if (!report.holds()) std::cerr << report.text(); // "P4 ties: equal keys leave ...: ..."
///
/// Each check constructs policies, makes up to some 10^5 calls with random jobs of several clients
/// (equal seeds on every machine), and returns what it saw. A policy without default arguments is
/// checked through a function that constructs it: check_policy<P>([] { return P(100us); }).
///
/// Differs  a broken policy can corrupt its own lists before a check sees it; build the program
///          with assertions and sanitizers.
/// Errors   none of its own; a policy that throws in a noexcept function terminates the program.
/// Cost     milliseconds a clause; allocates.
/// Threads  any thread; the checks share no state.
namespace gsched::conformance {

/// A clause that a policy breaks.
struct failure {
  std::string_view clause; ///< number and name: "P4 ties"
  std::string_view text;   ///< the clause
  std::string observed;    ///< what the policy did

  /// The three in one line.
  [[nodiscard]] std::string line() const {
    return std::string(clause) + ": " + std::string(text) + ": " + observed;
  }
};

/// The result of all checks of a policy.
struct report {
  std::vector<failure> broken;           ///< in the order of the clauses
  std::vector<std::string_view> skipped; ///< clauses that were not checked

  [[nodiscard]] bool holds() const noexcept { return broken.empty(); }
  /// One line for each broken clause.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const failure& f : broken) all += f.line() + "\n";
    return all;
  }
};

/// Options of the suite.
struct options {
  /// The number of allocations of the program so far, from a replaced operator new. Null: P5 is
  /// skipped.
  std::size_t (*allocations)() = nullptr;
};

/// Constructs a policy without arguments.
template <class P>
struct default_policy {
  [[nodiscard]] P operator()() const { return P(); }
};

namespace detail {

enum class clause : std::uint8_t { p1, p2, p3, p4, p5, p6, p7, a1, a2, r1, r2 };

struct clause_text {
  std::string_view name;
  std::string_view text;
};
inline constexpr std::array<clause_text, 11> clauses{{
    {"P1 conservation", "each enqueued job leaves once, by try_pick or by erase"},
    {"P2 no idling", "try_pick(now) is null if and only if size() == 0"},
    {"P3 determinism", "results depend on the calls alone: no clock, random source or address"},
    {"P4 ties", "equal keys leave in rising job::id"},
    {"P5 hot path", "no allocation, lock or throw"},
    {"P6 preemption", "if wants_preempt(r, now), then r, enqueued now, is not picked next"},
    {"P7 end", "after its destruction no state of a job or of a client is linked"},
    {"A1 pure", "admits changes nothing"},
    {"A2 honest", "a refused job could not have been served as the policy promises"},
    {"R1 first", "try_pick(now) returns a real-time job while one waits"},
    {"R2 by class", "try_pick(c, now) returns what try_pick(now) would return if only jobs of "
                    "class c waited; it is null if and only if size(c) == 0"},
}};

[[nodiscard]] inline failure broken(clause c, std::string observed) {
  const clause_text& t = clauses[static_cast<std::size_t>(c)];
  return {t.name, t.text, std::move(observed)};
}
[[nodiscard]] inline std::string name_of(const job& j) {
  return "job " + std::to_string(index(j.id));
}

template <class P, class Make>
[[nodiscard]] auto made(Make make) {
  return typename on_jobs<P>::template made<Make>{std::move(make)};
}

/// Random calls, the same for every policy and every layout in memory, until saw(picked, is_in)
/// returns false. It is called for each try_pick, before the picked job is marked as gone.
template <class P, class Saw>
void exercise(on_jobs<P>& p, workload& w, std::uint64_t seed, Saw saw) {
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
      job* const picked = p.try_pick(now);
      if (!saw(picked, is_in)) return;
      if (picked != nullptr) is_in[index(picked->id)] = false;
    }
  }
}

[[nodiscard]] inline std::size_t count(const std::vector<bool>& is_in) {
  return static_cast<std::size_t>(std::count(is_in.begin(), is_in.end(), true));
}

} // namespace detail

/// P1, with random calls: a picked job was waiting, size() counts the waiting jobs, and each job
/// leaves once. Ends with jobs erased in another order.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_conservation(Make make = {}) {
  using detail::clause;
  workload w(40, true, 5);
  on_jobs<P> p(w, detail::made<P>(make));
  std::optional<failure> f;
  detail::exercise(p, w, 11, [&](job* picked, const std::vector<bool>& is_in) {
    const std::size_t waiting = detail::count(is_in) - (picked != nullptr ? 1 : 0);
    if (picked != nullptr && !is_in[index(picked->id)])
      f = detail::broken(clause::p1, detail::name_of(*picked) + " was picked without waiting");
    else if (picked != nullptr && p.is_linked(*picked))
      f = detail::broken(clause::p1, detail::name_of(*picked) + " is linked after its pick");
    else if (p.size() != waiting)
      f = detail::broken(clause::p1, "size() is " + std::to_string(p.size()) + " with " +
                                         std::to_string(waiting) + " waiting jobs");
    return !f;
  });
  if (f) return f;
  std::vector<std::uint64_t> rest = drain(p);
  std::sort(rest.begin(), rest.end());
  if (std::adjacent_find(rest.begin(), rest.end()) != rest.end())
    return detail::broken(clause::p1, "a job was picked twice");
  if (p.size() != 0)
    return detail::broken(clause::p1,
                          std::to_string(p.size()) + " jobs were left when try_pick was null");
  for (std::size_t i = 0; i < w.size(); ++i) p.enqueue(w[i], time_point{});
  for (std::size_t i = 0; i < w.size(); ++i) p.erase(w[(i * 7) % w.size()]); // in another order
  if (p.size() != 0 || !drain(p).empty())
    return detail::broken(clause::p1, "jobs were left after all were erased");
  return {};
}

/// P2, with random calls.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_no_idling(Make make = {}) {
  using detail::clause;
  workload w(12, true, 3);
  on_jobs<P> p(w, detail::made<P>(make));
  std::optional<failure> f;
  if (p.try_pick(time_point{}) != nullptr)
    return detail::broken(clause::p2, "a new policy returned a job");
  bool was_empty = false, was_full = false;
  detail::exercise(p, w, 12, [&](job* picked, const std::vector<bool>& is_in) {
    const std::size_t waiting = detail::count(is_in);
    if (picked == nullptr && waiting > 0)
      f = detail::broken(clause::p2,
                         "try_pick was null with " + std::to_string(waiting) + " waiting jobs");
    if (picked != nullptr && waiting == 0)
      f = detail::broken(clause::p2, "try_pick returned a job, and none waited");
    was_empty |= picked == nullptr;
    was_full |= waiting > 5;
    return !f;
  });
  if (f) return f;
  assert(was_empty && was_full); // the random calls reach both
  drain(p, time_point::max());
  if (p.size() != 0)
    return detail::broken(clause::p2,
                          "try_pick was null with size() == " + std::to_string(p.size()));
  return {};
}

/// P3: the same random calls on three policies, with different addresses of the jobs.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_determinism(Make make = {}) {
  std::array<std::vector<std::uint64_t>, 3> picks;
  for (std::size_t run = 0; run < picks.size(); ++run) {
    workload w(40, run == 1, 5);
    on_jobs<P> p(w, detail::made<P>(make));
    detail::exercise(p, w, 13, [&](job* picked, const std::vector<bool>&) {
      picks[run].push_back(picked == nullptr ? ~std::uint64_t{0} : index(picked->id));
      return true;
    });
  }
  assert(picks[0].size() > 100);
  for (std::size_t run = 1; run < picks.size(); ++run) {
    const auto [a, b] =
        std::mismatch(picks[0].begin(), picks[0].end(), picks[run].begin(), picks[run].end());
    if (a == picks[0].end() && b == picks[run].end()) continue;
    return detail::broken(detail::clause::p3,
                          "pick " + std::to_string(a - picks[0].begin()) +
                              " differs between equal calls" +
                              (run == 1 ? ", with jobs in another order of addresses" : ""));
  }
  return {};
}

/// P4: jobs with equal facts, enqueued against the order of their ids.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_ties(Make make = {}) {
  workload w(30, true); // address order opposes id order
  on_jobs<P> p(w, detail::made<P>(make));
  for (job* j : w.by_address()) p.enqueue(*j, time_point{});
  const std::vector<std::uint64_t> ids = drain(p);
  const auto at = std::is_sorted_until(ids.begin(), ids.end());
  if (at != ids.end())
    return detail::broken(detail::clause::p4, "job " + std::to_string(*at) + " left after job " +
                                                  std::to_string(*(at - 1)));
  if (ids.size() != w.size())
    return detail::broken(detail::clause::p4, std::to_string(ids.size()) + " of " +
                                                  std::to_string(w.size()) + " jobs left");
  return {};
}

/// P5: no member function allocates. `allocations` returns the number of allocations so far.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_hot_path(std::size_t (*allocations)(), Make make = {}) {
  workload w(200, true, 7);
  std::mt19937_64 random(15);
  for (std::size_t i = 0; i < w.size(); ++i) draw_facts(w[i], random, time_point{});
  on_jobs<P> p(w, detail::made<P>(make)); // creates the states
  const std::size_t before = allocations();
  std::size_t answers = 0;
  for (int round = 0; round < 20; ++round) {
    const time_point now{duration{round}};
    for (std::size_t i = 0; i < w.size(); ++i) {
      if constexpr (admitting_policy<P>) answers += p.admits(w[i], now);
      answers += p.wants_preempt(w[i], now);
      p.enqueue(w[i], now);
    }
    for (std::size_t i = 0; i < w.size() / 2; ++i)
      if (job* const j = p.try_pick(now)) p.enqueue(*j, now);
    for (std::size_t i = 0; i < w.size(); i += 2) p.erase(w[i]);
    while (p.try_pick(now) != nullptr) ++answers;
    if (p.size() != 0) return {}; // the other checks report it
  }
  const std::size_t made = allocations() - before;
  if (made > 0)
    return detail::broken(detail::clause::p5, std::to_string(made) + " allocations in " +
                                                  std::to_string(20 * w.size()) + " enqueues and " +
                                                  std::to_string(answers) +
                                                  " picks and preemptions");
  return {};
}

/// P6, in random situations. `wanted`, if not null, receives the number of situations in which the
/// policy wanted to preempt.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_preemption(Make make = {}, int* wanted = nullptr) {
  int preemptions = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    workload w(8, true, 3);
    on_jobs<P> p(w, detail::made<P>(make));
    const time_point now{duration{100}};
    for (std::size_t i = 0; i < w.size(); ++i) draw_facts(w[i], random, now);
    for (std::size_t i = 1; i < w.size(); ++i) p.enqueue(w[i], now);
    for (std::uint64_t picks = random() % 12; picks > 0; --picks) {
      job* const j = p.try_pick(now);
      if (j != nullptr && random() % 4 != 0) p.enqueue(*j, now);
    }
    job& running = w[0];
    if (!p.wants_preempt(running, now)) continue;
    ++preemptions;
    p.enqueue(running, now);
    if (p.try_pick(now) == &running)
      return detail::broken(detail::clause::p6, "the job to preempt was picked next (situation " +
                                                    std::to_string(seed) + ")");
  }
  if (wanted != nullptr) *wanted = preemptions;
  return {};
}

/// P7: the states of jobs and clients outlive two policies with waiting jobs, and serve a third.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_end(Make make = {}) {
  using detail::clause;
  workload w(24, true, 4);
  std::vector<per_client_t<P>> clients(w.clients());
  std::vector<typename P::per_job> jobs(w.size());
  for (std::size_t c = 0; c < w.clients(); ++c) clients[c].bind(w.owner(c));
  for (std::size_t k = 0; k < w.size(); ++k) jobs[k].bind(w[k], clients[index(w[k].owner->id)]);
  for (int round = 0; round < 2; ++round) {
    {
      P p = make();
      for (auto& j : jobs) p.enqueue(j, time_point{});
      for (int k = 0; k < 7; ++k)
        if (p.try_pick(time_point{}) == nullptr)
          return detail::broken(clause::p7, "waiting jobs were not picked");
    }
    for (auto& j : jobs)
      if constexpr (requires { j.order_hook; })
        if (j.order_hook.is_linked())
          return detail::broken(clause::p7, detail::name_of(*j) + " is linked");
  }
  P next = make();
  for (auto& j : jobs) next.enqueue(j, time_point{}); // asserts if a hook is still linked
  std::size_t picked = 0;
  while (next.try_pick(time_point{}) != nullptr) ++picked;
  if (picked != jobs.size())
    return detail::broken(clause::p7, "a later policy returned " + std::to_string(picked) + " of " +
                                          std::to_string(jobs.size()) + " jobs");
  return {};
}

/// A1: the same random calls with and without questions in between.
template <admitting_policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_pure_admission(Make make = {}) {
  using detail::clause;
  std::array<std::vector<std::uint64_t>, 2> picks;
  std::optional<failure> f;
  for (std::size_t asks = 0; asks < picks.size(); ++asks) {
    workload w(40, true, 5);
    on_jobs<P> p(w, detail::made<P>(make));
    detail::exercise(p, w, 16, [&](job* picked, const std::vector<bool>& is_in) {
      picks[asks].push_back(picked == nullptr ? ~std::uint64_t{0} : index(picked->id));
      for (std::size_t i = 0; asks == 1 && i < w.size(); ++i) {
        if (is_in[i] && (picked == nullptr || index(picked->id) != i)) continue;
        const bool answer = p.admits(w[i], time_point{duration{500}});
        if (p.admits(w[i], time_point{duration{500}}) != answer)
          f = detail::broken(clause::a1, "two equal questions had different answers");
      }
      return !f;
    });
  }
  if (f) return f;
  if (picks[0] != picks[1]) return detail::broken(clause::a1, "a question changed later picks");
  return {};
}

/// The numbers of jobs that a check of admission saw.
struct admissions {
  int admitted = 0;
  int refused = 0;
};

/// A2 for a policy that promises that admitted jobs meet their deadlines: on a device that runs one
/// job at a time, a job that was refused is late if it is enqueued nevertheless. `seen`, if not
/// null, receives the numbers of jobs.
template <admitting_policy P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_deadline_admission(Make make = {},
                                                              admissions* seen = nullptr) {
  admissions a;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    workload w(10, true, 3);
    on_jobs<P> p(w, detail::made<P>(make));
    time_point now{duration{static_cast<std::int64_t>(random() % 1000)}};
    for (std::size_t i = 0; i < w.size(); ++i) {
      draw_facts(w[i], random, now);
      w[i].remaining += duration{50};
      w[i].head = std::min(w[i].remaining, duration{50});
    }
    for (std::size_t i = 0; i + 1 < w.size(); ++i) p.enqueue(w[i], now);
    job& last = w[w.size() - 1];
    if (p.admits(last, now)) {
      ++a.admitted;
      continue;
    }
    ++a.refused;
    p.enqueue(last, now);
    while (last.remaining > duration::zero()) {
      job* const j = p.try_pick(now);
      if (j == nullptr) return detail::broken(detail::clause::a2, "a waiting job was not picked");
      now += j->head;
      j->remaining -= j->head;
      j->head = std::min(j->remaining, j->head);
      if (j->remaining > duration::zero()) p.enqueue(*j, now);
    }
    if (now <= last.deadline)
      return detail::broken(detail::clause::a2,
                            "a refused job would have met its deadline (situation " +
                                std::to_string(seed) + ")");
  }
  if (seen != nullptr) *seen = a;
  return {};
}

/// R1 and R2, in random situations: the second policy has only the jobs of one class.
template <serves_real_time_first P, class Make = default_policy<P>>
[[nodiscard]] std::optional<failure> check_classes(Make make = {}) {
  using detail::clause;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    workload w(10, true, 3);
    const time_point now{duration{100}};
    for (std::size_t i = 0; i < w.size(); ++i) draw_facts(w[i], random, now);
    for (const service_class of : {service_class::real_time, service_class::best_effort}) {
      on_jobs<P> p(w, detail::made<P>(make));
      on_jobs<P> alone(w, detail::made<P>(make));
      std::size_t n = 0;
      for (std::size_t i = 0; i < w.size(); ++i) {
        p.enqueue(w[i], now);
        if (w[i].service != of) continue;
        alone.enqueue(w[i], now);
        ++n;
      }
      if (p.policy().size(of) != n)
        return detail::broken(clause::r2, "size(c) is " + std::to_string(p.policy().size(of)) +
                                              " with " + std::to_string(n) + " jobs of c");
      job* const picked = p.try_pick(of, now);
      if (picked != alone.try_pick(now))
        return detail::broken(clause::r2,
                              "another job was picked (situation " + std::to_string(seed) + ")");
      if (picked != nullptr) p.enqueue(*picked, now);
      bool best_effort = false;
      while (job* const j = p.try_pick(now)) {
        if (best_effort && j->service == service_class::real_time)
          return detail::broken(clause::r1, detail::name_of(*j) + " left after a best-effort job");
        best_effort |= j->service == service_class::best_effort;
      }
    }
  }
  return {};
}

/// Runs the checks of all clauses that apply to P: P1 to P7; A1 for an admitting_policy; R1 and R2
/// for one that serves_real_time_first. A2 depends on what a policy promises: see
/// check_deadline_admission.
template <policy P, class Make = default_policy<P>>
[[nodiscard]] report check_policy(Make make = {}, const options& o = {}) {
  report r;
  const auto add = [&](std::optional<failure> f) {
    if (f) r.broken.push_back(std::move(*f));
  };
  add(check_conservation<P>(make));
  add(check_no_idling<P>(make));
  add(check_determinism<P>(make));
  add(check_ties<P>(make));
  if (o.allocations != nullptr)
    add(check_hot_path<P>(o.allocations, make));
  else
    r.skipped.push_back(detail::clauses[static_cast<std::size_t>(detail::clause::p5)].name);
  add(check_preemption<P>(make));
  add(check_end<P>(make));
  if constexpr (admitting_policy<P>) {
    add(check_pure_admission<P>(make));
    r.skipped.push_back(detail::clauses[static_cast<std::size_t>(detail::clause::a2)].name);
  }
  if constexpr (serves_real_time_first<P>) add(check_classes<P>(make));
  return r;
}

} // namespace gsched::conformance
