// SPDX-License-Identifier: Apache-2.0
//
// Lanes that take work only while the GPU is not full.
#include "dispatch/shared/any_dispatcher.hpp"

#include <gsched/device/null_device.hpp>
#include <gsched/job/task.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <gsched/policy/fifo.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using namespace gsched;

namespace {

constexpr duration kernel_time = from_us(50);
constexpr std::uint32_t most = 128; ///< lanes of a GPU

/// The time of that many jobs of one kernel, if a lane runs one at a time.
template <class Accountant>
duration served(std::uint32_t blocks, int jobs, const dispatch_options& how) {
  null_device device({limits_for(9, 0), sm_count{132}, how.lanes + how.spares(most)}, kernel_time);
  accountant_options wide;
  wide.overshoot_fill = 1000; // only the lanes limit the queue
  wide.overshoot_blocks = 1u << 20;
  Accountant account(device.limits().sm, device.limits().sms, wide);
  fifo order;
  silent_listener hears;
  const test::shared_dispatcher made(device, order, account, hears, how);
  test::any_dispatcher& dispatch = *made;
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {1024, 1, 1};
  op.expected = kernel_time;
  program p("p", {op});
  dispatch.load(p);
  const std::function<task(job_context&)> body = [&](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  job_request q;
  q.model = dispatch.add_model("p", body, &p);
  q.owner = &dispatch.add_client();
  for (int i = 0; i < jobs; ++i) static_cast<void>(dispatch.submit(q));
  while (!dispatch.idle())
    if (!dispatch.step()) device.wait(dispatch.step_by());
  CHECK(dispatch.statistics().finished == static_cast<std::uint64_t>(jobs));
  CHECK(account.outstanding() == 0);
  return device.now().time_since_epoch();
}

dispatch_options with_spares(std::uint32_t spares) {
  dispatch_options o;
  o.lanes = 8;
  o.spare_lanes = spares;
  o.low_mark = o.high_mark = from_us(1); // a segment a lane
  return o;
}

} // namespace

TEST_CASE_TEMPLATE("spare lanes: small jobs run on them side by side", A, aggregate_accountant,
                   per_sm_accountant) {
  CHECK(served<A>(1, 32, with_spares(0)) == 4 * kernel_time);
  CHECK(served<A>(1, 32, with_spares(24)) == kernel_time);
  CHECK(served<A>(1, 40, with_spares(24)) == 2 * kernel_time);
}

TEST_CASE_TEMPLATE("spare lanes: they stay empty while the GPU is full", A, aggregate_accountant,
                   per_sm_accountant) {
  const std::uint32_t half = 132; // an SM holds two
  CHECK(served<A>(2 * half, 32, with_spares(24)) == served<A>(2 * half, 32, with_spares(0)));
  // Two fill it: the 8 lanes are enough.
  CHECK(served<A>(half, 32, with_spares(24)) == 4 * kernel_time);
}

TEST_CASE(
    "spare lanes: a dispatcher's defaults run as many small jobs at once as a GPU has grids") {
  dispatch_options o;
  o.low_mark = o.high_mark = from_us(1);
  CHECK(served<aggregate_accountant>(1, 128, o) == kernel_time);
  CHECK(served<aggregate_accountant>(1, 129, o) == 2 * kernel_time);
  CHECK(o.spares(most) == 120);
  CHECK(o.spares(1024) == 120);
  CHECK(o.spares(10) == 2);
  CHECK(o.spares(8) == 0);
  CHECK(o.spares(4) == 0); // too few for the lanes
}

TEST_CASE("spare lanes: who asks for a number of lanes gets no more") {
  dispatch_options o;
  o.lanes = 1;
  o.low_mark = o.high_mark = from_us(1);
  CHECK(o.spares(most) == 0);
  CHECK(served<aggregate_accountant>(1, 4, o) == 4 * kernel_time);
  dispatch_options own;
  own.use = lane_use::own;
  CHECK(own.spares(most) == 0);
  dispatch_options classes;
  classes.preemption.real_time_lanes = 1;
  CHECK(classes.spares(most) == 0);
}

TEST_CASE("spare lanes: they are for lanes that jobs share") {
  const auto refused = [](dispatch_options o) {
    o.spare_lanes = 1;
    CHECK_THROWS_WITH_AS(static_cast<void>(o.checked()),
                         doctest::Contains("spare_lanes: expected lane_use::shared"), error);
  };
  dispatch_options own;
  own.use = lane_use::own;
  refused(own);
  dispatch_options classes;
  classes.preemption.real_time_lanes = 1;
  refused(classes);
}
