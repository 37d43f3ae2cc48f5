// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/round_robin.hpp>

#include <doctest/doctest.h>

#include <exception>

using namespace gsched;

namespace {

// A minimal model, and near misses that each violate one requirement.
struct base {
  void on_arrival(const job&, void*, time_point) noexcept {}
  void on_submit(const job&, const segment&, duration, time_point) noexcept {}
  void on_segment_end(const job&, segment_id, time_point) noexcept {}
  void on_almost_finished(const job&, void*, duration, time_point) noexcept {}
  void on_failure(const job&, std::exception_ptr, time_point) noexcept {}
  void on_end(const job&, void*, time_point) noexcept {}
};
static_assert(listener<base> && listener<recording_listener>);

// clang-format off
struct throwing_arrival : base { void on_arrival(const job&, void*, time_point) {} };
struct changing_arrival : base { void on_arrival(job&, void*, time_point) noexcept {} };
struct throwing_submit : base { void on_submit(const job&, const segment&, duration, time_point) {} };
struct blind_submit : base { void on_submit(const job&, duration, time_point) noexcept {} };
struct changing_submit : base { void on_submit(const job&, segment&, duration, time_point) noexcept {} };
struct throwing_segment_end : base { void on_segment_end(const job&, segment_id, time_point) {} };
struct throwing_almost : base { void on_almost_finished(const job&, void*, duration, time_point) {} };
struct throwing_failure : base { void on_failure(const job&, std::exception_ptr, time_point) {} };
struct coded_failure : base { void on_failure(const job&, std::error_code, time_point) noexcept {} };
struct throwing_end : base { void on_end(const job&, void*, time_point) {} };
struct timeless_end : base { void on_end(const job&, void*) noexcept {} };
// clang-format on
static_assert(!listener<throwing_arrival> && !listener<changing_arrival>);
static_assert(!listener<throwing_submit> && !listener<blind_submit> && !listener<changing_submit>);
static_assert(!listener<throwing_segment_end> && !listener<throwing_almost>);
static_assert(!listener<throwing_failure> && !listener<coded_failure>);
static_assert(!listener<throwing_end> && !listener<timeless_end>);

/// The head that a policy was shown for each pick, and the work that was dispatched.
struct head_checker : silent_listener {
  void on_submit(const job& j, const segment&, duration expected, time_point) noexcept {
    ++submits;
    wrong += j.head != expected ? 1 : 0;
    longest = std::max(longest, expected);
  }
  int submits = 0;
  int wrong = 0;
  duration longest{};
};

} // namespace

TEST_CASE("dispatcher: a policy is charged what it gives away, slices shorter than a quantum too") {
  dispatch_options o;
  o.quantum = o.most_quantum = from_us(2000);
  rig<deficit_over<round_robin>, head_checker> r(o);
  program& p = r.make_program("p", 200, from_us(30)); // a slice is 100 us
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& a = r.dispatch.add_client();
  client& b = r.dispatch.add_client();
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(r.dispatch.submit(r.request(m, a)));
    static_cast<void>(r.dispatch.submit(r.request(m, b)));
  }
  r.run();
  CHECK(r.dispatch.statistics().finished == 8);
  CHECK(r.hears.submits > 8);
  CHECK(r.hears.longest < o.quantum);
  CHECK(r.hears.wrong == 0);
}
