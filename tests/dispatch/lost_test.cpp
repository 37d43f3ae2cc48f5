// SPDX-License-Identifier: Apache-2.0
//
// Completions that a device never reports, and requests beyond the limit of jobs.
#include "dispatch/rig.hpp"

#include <gsched/policy/fifo.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

using namespace gsched;

namespace {

/// A device that withholds the ends of some segments.
struct forgetful_device : null_device {
  using null_device::null_device;
  std::size_t poll(std::span<device_event> out) noexcept {
    const std::size_t n = null_device::poll(out);
    const auto end = std::remove_if(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n),
                                    [&](const device_event& e) { return forgets(e.segment); });
    std::size_t left = static_cast<std::size_t>(end - out.begin());
    for (; !late.empty() && left < out.size(); late.pop_back()) {
      out[left] = device_event{};
      out[left++].segment = late.back();
    }
    return left;
  }
  bool forgets(segment_id id) {
    if (count++ != forget_at && !forget_all) return false;
    forgotten.push_back(id);
    return true;
  }
  std::size_t count = 0;
  std::size_t forget_at = ~std::size_t{0};
  bool forget_all = false;
  std::vector<segment_id> forgotten;
  std::vector<segment_id> late; ///< reported at the next poll
};

struct lost_listener : recording_listener {
  std::vector<std::string> words;
  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& e) {
      words.emplace_back(e.what());
    }
  }
};

struct lost_rig {
  explicit lost_rig(const dispatch_options& o, std::uint32_t instances = instance_pool::unlimited)
      : device({limits_for(9, 0), sm_count{132}, o.lanes}, from_us(50)),
        account(device.limits().sm, device.limits().sms, {}),
        made(device, order, account, hears, o) {
    operation op;
    op.launch.grid = {132, 1, 1};
    op.launch.block = {128, 1, 1};
    op.expected = from_us(10);
    programs.emplace_back("p", std::vector<operation>(40, op));
    dispatch.load(programs.back());
    body = [this](job_context& ctx) -> task {
      ctx.launch(programs.back());
      co_return;
    };
    model = dispatch.add_model("p", body, &programs.back(), instances);
    owner = &dispatch.add_client();
  }
  job_id submit() {
    job_request q;
    q.model = model;
    q.owner = owner;
    q.arrival = device.now();
    return dispatch.submit(q);
  }
  /// Drives the dispatcher like its owner. False if the remaining jobs wait for nothing.
  bool run() {
    while (!dispatch.idle()) {
      if (dispatch.step()) continue;
      if (dispatch.step_by() == no_deadline) return false;
      device.wait(dispatch.step_by());
    }
    return true;
  }

  forgetful_device device;
  srpt order;
  aggregate_accountant account;
  lost_listener hears;
  test::shared_dispatcher made;
  test::any_dispatcher& dispatch = *made;
  std::deque<program> programs;
  std::function<task(job_context&)> body;
  model_id model{};
  client* owner = nullptr;
};

dispatch_options with_limit(std::uint32_t lanes) {
  dispatch_options o;
  o.lanes = lanes;
  o.most_quantum = o.quantum;
  o.segment_limit = from_us(10000);
  o.limit_factor = 20;
  return o;
}

} // namespace

TEST_CASE("lost: a segment that is never reported fails its job, and the others finish") {
  for (const std::uint32_t lanes : {2u, 8u}) {
    CAPTURE(lanes);
    lost_rig r(with_limit(lanes));
    r.device.forget_at = 5;
    for (int i = 0; i < 20; ++i) static_cast<void>(r.submit());
    REQUIRE(r.run());
    const dispatch_statistics& s = r.dispatch.statistics();
    CHECK(s.failed >= 1);
    // the segments that the device had started behind it are not reported either
    CHECK(s.failed <= 2);
    CHECK(s.finished + s.failed == 20);
    CHECK(s.lost_segments >= 1);
    REQUIRE(!r.hears.words.empty());
    CHECK(r.hears.words.front().find("not reported after") != std::string::npos);
    CHECK(r.account.outstanding() == 0);
    CHECK(r.dispatch.nothing_in_flight());
  }
}

TEST_CASE("lost: the limit follows the expected time") {
  dispatch_options o = with_limit(1);
  o.segment_limit = from_us(100);
  o.limit_factor = 100;
  lost_rig r(o);
  r.device.forget_at = 0;
  static_cast<void>(r.submit());
  r.run();
  CHECK(r.dispatch.statistics().failed == 1);
  CHECK(r.device.now() >= time_point{from_us(100 * 100)});
  CHECK(r.device.now() < time_point{from_us(300 * 100)});
}

TEST_CASE("lost: a job can be cancelled while the device says nothing of it") {
  lost_rig r(with_limit(2));
  r.device.forget_at = 0;
  const job_id id = r.submit();
  while (r.dispatch.step()) {
  }
  r.device.wait(time_point{from_us(200)});
  while (r.dispatch.step()) {
  }
  CHECK(r.dispatch.cancel(id));
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().cancelled == 1);
  CHECK(r.dispatch.statistics().failed == 0);
}

TEST_CASE("lost: a lane that has lost a segment is used again once that is reported") {
  lost_rig r(with_limit(1));
  r.device.forget_at = 0;
  static_cast<void>(r.submit());
  static_cast<void>(r.run());
  CHECK(r.dispatch.statistics().failed == 1);
  static_cast<void>(r.submit()); // the only lane is lost
  static_cast<void>(r.run());
  CHECK(r.dispatch.statistics().failed == 2);
  r.device.late = r.device.forgotten;
  static_cast<void>(r.dispatch.step());
  static_cast<void>(r.submit());
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().finished == 1);
  CHECK(r.dispatch.statistics().unknown_events == 0);
}

TEST_CASE("lost: a device that reports nothing fails all jobs, and none waits for ever") {
  lost_rig r(with_limit(4));
  r.device.forget_all = true;
  for (int i = 0; i < 50; ++i) static_cast<void>(r.submit());
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().failed == 50);
  CHECK(r.hears.ends.size() == 50);
}

TEST_CASE("lost: an instance of what was lost is not used again, and without any jobs fail") {
  lost_rig r(with_limit(4), 2);
  r.device.forget_at = 0;
  for (int i = 0; i < 10; ++i) static_cast<void>(r.submit());
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().failed == 1);
  CHECK(r.dispatch.statistics().finished == 9); // by the other instance
  r.device.forget_at = r.device.count;
  for (int i = 0; i < 5; ++i) static_cast<void>(r.submit());
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().failed == 6);
  CHECK(r.dispatch.statistics().finished == 9);
  REQUIRE(r.hears.words.size() == 6);
  CHECK(r.hears.words.back().find("all instances of its model") != std::string::npos);
  const std::uint64_t before = r.dispatch.statistics().segments;
  static_cast<void>(r.submit());
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().segments == before);
  CHECK(r.dispatch.statistics().failed == 7);
}

TEST_CASE("limits: a job beyond max_jobs is rejected, counted, and the listener hears why") {
  dispatch_options o;
  o.max_jobs = 3;
  lost_rig r(o);
  for (int i = 0; i < 5; ++i) static_cast<void>(r.submit());
  CHECK(r.dispatch.statistics().rejected == 2);
  CHECK(r.dispatch.statistics().over_limit == 2);
  REQUIRE(r.hears.words.size() == 2);
  CHECK(r.hears.words.front().find("max_jobs") != std::string::npos);
  REQUIRE(r.run());
  CHECK(r.dispatch.statistics().finished == 3);
}
