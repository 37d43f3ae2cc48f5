// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include "drawn_numbers.hpp"

#include <gsched/job/estimate.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;
using gsched::testing::below;

namespace {

using generator = std::mt19937_64;

operation kernel(std::uint32_t id, int expected_ns) {
  operation op;
  op.kernel = kernel_id{id};
  op.expected = duration{expected_ns};
  return op;
}

operation copy(copy_direction d, int expected_ns) {
  operation op;
  op.kind = operation_kind::memcpy;
  op.direction = d;
  op.expected = duration{expected_ns};
  return op;
}

program random_program(generator& r, std::uint32_t id, std::size_t size) {
  std::vector<operation> ops;
  for (std::size_t i = 0; i < size; ++i) {
    const int time = static_cast<int>(below(r, 5000)); // some times are unknown
    switch (below(r, 8)) {
    case 0: ops.push_back(copy(copy_direction::device_to_device, time)); break;
    case 1:
      ops.push_back({});
      ops.back().kind = operation_kind::memset;
      break;
    case 2: // a kernel without an id
      ops.push_back(kernel(0, time));
      ops.back().kernel = no_kernel;
      break;
    default: ops.push_back(kernel(static_cast<std::uint32_t>(below(r, 6)), time));
    }
  }
  program p("p" + std::to_string(id), std::move(ops));
  p.set_id(program_id{id});
  return p;
}

/// The formula as in the paper, from counts of single operations.
struct brute {
  const estimator& e;
  std::vector<std::uint32_t> counts;

  explicit brute(const estimator& of) : e(of), counts(of.means().slots()) {}

  /// Slots by the rule in the comment of estimate_means, without its tables.
  static std::size_t slot(const operation& op, std::size_t base, std::size_t kernels) {
    if (op.kind == operation_kind::memcpy)
      return base + kernels + static_cast<std::size_t>(op.direction);
    if (op.kind == operation_kind::memset) return base + kernels + 4;
    return base +
           (op.kernel == no_kernel || index(op.kernel) >= kernels ? kernels + 5 : index(op.kernel));
  }
  [[nodiscard]] double remaining_ns() const {
    double sum = 0.0;
    for (std::size_t i = 0; i < counts.size(); ++i)
      sum += std::max(0.0, e.means().mean_count(i) - counts[i]) * e.means().mean_time_ns(i);
    return sum;
  }
};

double ns(duration d) { return static_cast<double>(d.count()); }

} // namespace

TEST_CASE("a program's own times are the prior, kernel by kernel") {
  const std::vector<operation> ops{copy(copy_direction::host_to_device, 100), kernel(0, 1000),
                                   kernel(1, 300), kernel(0, 2000),
                                   copy(copy_direction::device_to_host, 50)};
  program p("p", ops);
  p.set_id(program_id{0});
  estimator e;
  e.add(p);
  job_progress& j = e.begin();
  CHECK(e.total() == p.expected());
  CHECK(e.remaining(j) == duration{3450});
  e.dispatched(j, p.id(), 0, p.range(0, 2));
  CHECK(e.remaining(j) == duration{300 + 1500 + 50}); // kernel 0 takes 1500 on average
  e.dispatched(j, p.id(), 2, p.range(2, 5));
  CHECK(e.remaining(j) == duration{0});
  e.undone(j, p.id(), 3, p.range(3, 5));
  CHECK(e.remaining(j) == duration{1550});
  e.end(j, false);
}

TEST_CASE("remaining agrees with the formula after every step of random jobs") {
  generator r(11);
  for (int round = 0; round < 60; ++round) {
    const program a = random_program(r, 0, 1 + below(r, 60));
    const program b = random_program(r, 1, 1 + below(r, 20));
    const std::array programs{&a, &b};
    constexpr std::size_t loose_kernels = 3;
    estimator e(loose_kernels, {.prior = 4.0, .most = 64.0});
    e.add(a, 1.0 + 0.25 * static_cast<double>(below(r, 4)));
    e.add(b, 0.5);
    e.expect(kernel(1, 700), 2.0);
    e.expect(copy(copy_direction::host_to_device, 400));
    const std::array bases{loose_kernels + 6, loose_kernels + 6 + a.kernel_count() + 6};

    struct done {
      program_id id;
      std::uint32_t first;
      std::vector<const operation*> operations;
    };
    for (int job = 0; job < 20; ++job) {
      job_progress& j = e.begin();
      brute model(e);
      std::vector<done> undoable;
      std::array<std::uint32_t, 2> position{};
      std::array<operation, 3> loose{kernel(1, 700), kernel(9, 10),
                                     copy(copy_direction::host_to_device, 400)};
      const auto step_counts = [&](const done& d, int by) {
        for (std::size_t k = 0; k < d.operations.size(); ++k) {
          const bool is_loose = d.id == no_program;
          const std::size_t which = is_loose ? 0 : index(d.id);
          const std::size_t slot = is_loose ? brute::slot(*d.operations[k], 0, loose_kernels)
                                            : brute::slot(*d.operations[k], bases[which],
                                                          programs[which]->kernel_count());
          model.counts[slot] += static_cast<std::uint32_t>(by);
        }
      };
      for (int step = 0; step < 40; ++step) {
        switch (below(r, 5)) {
        case 0:
        case 1:
        case 2: { // a segment, usually the next of the program, sometimes a second run
          const std::size_t which = below(r, 2);
          const program& p = *programs[which];
          if (position[which] == p.size()) position[which] = 0;
          const std::uint32_t first = position[which];
          const auto last = first + 1 + static_cast<std::uint32_t>(below(r, p.size() - first));
          const auto range = p.range(first, last);
          undoable.push_back({p.id(), first, {range.begin(), range.end()}});
          position[which] = last;
          e.dispatched(j, p.id(), first, range);
          step_counts(undoable.back(), 1);
          if (below(r, 3) > 0)
            e.observe_segment(p.id(), first, range, duration{static_cast<int>(below(r, 30000))});
          break;
        }
        case 3: {
          const operation* const op = &loose[below(r, loose.size())];
          undoable.push_back({no_program, 0, {op}});
          e.dispatched(j, no_program, 0, undoable.back().operations);
          step_counts(undoable.back(), 1);
          e.observe(*op, duration{static_cast<int>(below(r, 3000))});
          break;
        }
        default:
          if (undoable.empty()) break;
          const done d = undoable.back();
          undoable.pop_back();
          e.undone(j, d.id, d.first, d.operations);
          step_counts(d, -1);
          if (d.id != no_program) position[index(d.id)] = d.first;
        }
        const double expected = model.remaining_ns();
        const double slack = 0.5 * static_cast<double>(model.counts.size()) + 1e-9 * expected;
        REQUIRE(e.remaining(j) >= duration::zero());
        REQUIRE(std::abs(ns(e.remaining(j)) - expected) <= slack);
      }
      e.end(j, below(r, 4) > 0);
    }
  }
}

TEST_CASE("rounding does not add up: a job that is dispatched and undone is as it was") {
  generator r(5);
  const program p = random_program(r, 0, 200);
  estimator e;
  e.add(p);
  e.observe_segment(p.id(), 0, p.range(0, 200), duration{777777});
  e.publish();
  job_progress& j = e.begin();
  const duration whole = e.remaining(j);
  for (int i = 0; i < 20000; ++i) {
    const auto first = static_cast<std::uint32_t>(below(r, 199));
    const auto last = first + 1 + static_cast<std::uint32_t>(below(r, 199 - first));
    e.dispatched(j, p.id(), first, p.range(first, last));
    e.undone(j, p.id(), first, p.range(first, last));
  }
  CHECK(e.remaining(j) == whole);
  e.end(j, false);
}

TEST_CASE("mean times are the running average of what was measured, with the prior's weight") {
  generator r(3);
  program p("p", {kernel(0, 1000), kernel(1, 3000)});
  p.set_id(program_id{0});
  estimator e(0, {.prior = 2.0, .most = 1e9});
  e.add(p);
  const std::size_t first = e.means().first_slot(0);
  double sum0 = 2.0 * 1000, n0 = 2.0, sum1 = 2.0 * 3000, n1 = 2.0;
  for (int i = 0; i < 500; ++i) {
    const auto took = static_cast<int>(2000 + below(r, 6000));
    const double t0 = e.means().mean_time_ns(first), t1 = e.means().mean_time_ns(first + 1);
    if (i % 2 == 0) { // both at once: in proportion to their means
      e.observe_segment(p.id(), 0, p.range(0, 2), duration{took});
      sum0 += took * t0 / (t0 + t1);
      sum1 += took * t1 / (t0 + t1);
      n0 += 1.0;
      n1 += 1.0;
    } else {
      e.observe_segment(p.id(), 1, p.range(1, 2), duration{took});
      sum1 += took;
      n1 += 1.0;
    }
    e.publish();
    REQUIRE(e.means().mean_time_ns(first) == doctest::Approx(sum0 / n0).epsilon(1e-9));
    REQUIRE(e.means().mean_time_ns(first + 1) == doctest::Approx(sum1 / n1).epsilon(1e-9));
  }
}

TEST_CASE("mean counts follow what jobs did to their end, and not those that were cancelled") {
  program p("p", {kernel(0, 1000), kernel(1, 500), kernel(0, 1000)});
  p.set_id(program_id{0});
  estimator e(1, {.prior = 4.0, .most = 1e9});
  e.add(p);
  const operation extra = kernel(0, 100);
  const operation* const loose = &extra;
  double jobs = 4.0, runs = 4.0, extras = 0.0, finished = 0.0;
  for (int i = 0; i < 100; ++i) {
    job_progress& j = e.begin();
    const int times = i % 4; // none, once, or twice
    for (int k = 0; k < std::min(times, 2); ++k) e.dispatched(j, p.id(), 0, p.range(0, 3));
    if (i % 2 == 0) e.dispatched(j, no_program, 0, {&loose, 1});
    const bool completed = i % 5 != 0;
    e.end(j, completed);
    if (!completed) continue;
    jobs += 1.0;
    finished += 1.0;
    runs += std::min(times, 2);
    extras += i % 2 == 0 ? 1.0 : 0.0;
  }
  e.publish();
  const std::size_t first = e.means().first_slot(0);
  CHECK(e.means().mean_count(first) == doctest::Approx(2.0 * runs / jobs));
  CHECK(e.means().mean_count(first + 1) == doctest::Approx(runs / jobs));
  CHECK(e.means().mean_count(0) == doctest::Approx(extras / finished)); // had no prior
}

TEST_CASE("a load that changes is followed, since old observations fade") {
  program p("p", {kernel(0, 1000)});
  p.set_id(program_id{0});
  estimator e(0, {.prior = 16.0, .most = 256.0});
  e.add(p);
  for (int i = 0; i < 100000; ++i) e.observe_segment(p.id(), 0, p.range(0, 1), duration{1000});
  for (int i = 0; i < 3000; ++i) e.observe_segment(p.id(), 0, p.range(0, 1), duration{2000});
  e.publish();
  CHECK(ns(e.total()) == doctest::Approx(2000.0).epsilon(0.01));
}

TEST_CASE("unknown, zero and huge times do no harm") {
  program p("p", {kernel(0, 0), kernel(1, 0)});
  p.set_id(program_id{0});
  estimator e;
  e.add(p);
  CHECK(e.total() > duration::zero());
  for (int i = 0; i < 100000; ++i) e.observe_segment(p.id(), 0, p.range(0, 2), duration::zero());
  CHECK(e.total() > duration::zero()); // a share of zero would remain zero
  for (int i = 0; i < 20000; ++i)
    e.observe_segment(p.id(), 0, p.range(0, 2), std::chrono::hours(1));
  CHECK(e.total() > std::chrono::minutes(30));
  CHECK(e.total() <= std::chrono::hours(1) + std::chrono::seconds(1));
  operation strange = kernel(12345, 5);
  const operation* const loose = &strange;
  e.observe_segment(no_program, 0, {&loose, 1}, duration{50});
  e.observe_segment(program_id{77}, 0, {&loose, 1}, duration{50}); // not a program of these jobs
  e.observe_segment(no_program, 0, {}, duration{50});
  job_progress& j = e.begin();
  const duration before = e.remaining(j);
  e.dispatched(j, program_id{77}, 0, {&loose, 1});
  CHECK(e.remaining(j) == before);
  e.end(j, true);
}

TEST_CASE("jobs under way feel what others teach, and nothing allocates") {
  generator r(2);
  const program p = random_program(r, 0, 300);
  estimator e;
  e.add(p);
  e.reserve(100);
  const std::size_t before = gsched::testing::allocations();
  std::array<job_progress*, 100> jobs{};
  for (job_progress*& j : jobs) j = &e.begin();
  const duration whole = e.remaining(*jobs[7]);
  for (int run = 0; run < 2000; ++run)
    for (std::uint32_t k = 0; k < 300; k += 30)
      e.observe_segment(p.id(), k, p.range(k, k + 30), 2 * p.expected(k, k + 30));
  CHECK(e.remaining(*jobs[7]) > whole + whole / 2);
  for (job_progress* j : jobs) {
    e.dispatched(*j, p.id(), 0, p.range(0, 300));
    CHECK(e.remaining(*j) < duration{100});
    e.end(*j, true);
  }
  CHECK(gsched::testing::allocations() == before);
}

TEST_CASE("what is left and learned of a replica is as of the program that was added") {
  generator r(3);
  program p = random_program(r, 0, 60);
  program replica("replica", {p.operations().begin(), p.operations().end()});
  replica.set_id(program_id{9});
  estimator e;
  e.add(p);
  e.add_replica(replica, p);
  const duration whole = e.total();
  CHECK(whole > duration::zero());
  job_progress& on_p = e.begin();
  job_progress& on_replica = e.begin();
  for (std::uint32_t k = 0; k < 60; k += 20) {
    e.dispatched(on_p, p.id(), k, p.range(k, k + 20));
    e.dispatched(on_replica, replica.id(), k, replica.range(k, k + 20));
    CHECK(e.remaining(on_replica) == e.remaining(on_p));
  }
  CHECK(e.remaining(on_replica) == duration::zero());
  e.undone(on_replica, replica.id(), 40, replica.range(40, 60));
  CHECK(e.remaining(on_replica) > duration::zero());
  e.dispatched(on_replica, replica.id(), 40, replica.range(40, 60));
  e.end(on_p, true);
  e.end(on_replica, true);
  for (int i = 0; i < 500; ++i) { // jobs on either program, which take twice their expected time
    const program& ran = i % 2 == 0 ? p : replica;
    job_progress& j = e.begin();
    e.dispatched(j, ran.id(), 0, ran.range(0, 60));
    e.observe_segment(ran.id(), 0, ran.range(0, 60), 2 * whole);
    e.end(j, true);
  }
  e.publish();
  CHECK(e.total() > whole + whole * 9 / 10); // neither mean is halved by jobs of the other program
  CHECK(e.total() < whole * 2 + whole / 10); // nor counted twice
}
