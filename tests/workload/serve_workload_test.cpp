// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/workload/arrivals.hpp>
#include <gsched/workload/serve_workload.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

using namespace gsched;

namespace {

/// Passes replies to the source, and records arrival and end times.
struct reply_recorder : silent_listener {
  std::function<void(time_point)> reply;
  std::vector<time_point> submitted;
  std::vector<time_point> ended;
  std::size_t outstanding = 0;
  std::size_t most_outstanding = 0;
  void on_arrival(const job&, void*, time_point now) noexcept {
    submitted.push_back(now);
    most_outstanding = std::max(most_outstanding, ++outstanding);
  }
  void on_end(const job&, void*, time_point now) noexcept {
    ended.push_back(now);
    --outstanding;
    reply(now);
  }
};

/// Serves requests of one model on one lane.
template <policy P, arrival_source Source>
dispatch_statistics serve_all(Source source, std::uint64_t requests, reply_recorder& heard,
                              duration allowed = run_to_completion) {
  dispatch_options o = rig<P>::even();
  o.lanes = 1;
  rig<P, reply_recorder> r(o);
  program& p = r.make_program("p", 200, from_us(10));
  auto body = [&p](job_context& ctx) -> task {
    ctx.launch(p);
    co_return;
  };
  const model_id m = r.dispatch.add_model("p", body, &p);
  client& c = r.dispatch.add_client();
  r.hears.reply = [&](time_point now) { source.on_reply(client_id{0}, now); };
  std::uint64_t ticks = 0;
  serve_workload(
      r.dispatch, r.device, source, requests,
      [&](const arrival& q) {
        job_request j = r.request(m, c);
        j.arrival = q.at;
        if (allowed != run_to_completion) j.deadline = q.at + allowed;
        static_cast<void>(r.dispatch.submit(j));
      },
      [&] { ++ticks; });
  CHECK(ticks > 0);
  CHECK(r.dispatch.idle());
  CHECK(r.dispatch.nothing_in_flight());
  heard = r.hears;
  return r.dispatch.statistics();
}

/// An open loop of requests at given times.
struct listed {
  std::vector<time_point> times;
  std::size_t given = 0;
  std::optional<arrival> next() {
    if (given == times.size()) return std::nullopt;
    return arrival{times[given++], 0, client_id{0}};
  }
  void on_reply(client_id, time_point) {}
};

const request_mix only_model(std::vector<double>{1.0}, 1u);

} // namespace

TEST_CASE("serve: open-loop requests are submitted at their arrival times") {
  std::vector<time_point> times;
  for (int i = 0; i < 20; ++i) times.push_back(time_point{from_us(100.0 * i)});
  reply_recorder heard;
  CHECK(serve_all<fifo>(listed{times}, 20, heard).finished == 20);
  REQUIRE(heard.submitted.size() == 20);
  CHECK(heard.most_outstanding > 10); // no request waits for a reply
  for (std::size_t i = 0; i < 20; ++i) CHECK(heard.submitted[i] == times[i]);
}

TEST_CASE("serve: it waits through a pause between requests") {
  const time_point late{from_us(1e6)};
  reply_recorder heard;
  CHECK(serve_all<fifo>(listed{{time_point{}, late}}, 2, heard).finished == 2);
  CHECK(heard.most_outstanding == 1);
  CHECK(heard.submitted[1] == late);
}

TEST_CASE("serve: it ends with the source, or after its number of requests") {
  reply_recorder heard;
  CHECK(serve_all<fifo>(listed{{time_point{}, time_point{}}}, 100, heard).submitted == 2);
  CHECK(serve_all<fifo>(listed{std::vector<time_point>(5)}, 3, heard).submitted == 3);
}

TEST_CASE("serve: a closed loop keeps its number of requests outstanding to the last one") {
  for (const std::uint32_t outstanding : {1u, 3u, 50u}) {
    reply_recorder heard;
    const closed_arrivals source(outstanding, from_us(500), only_model, 1);
    CHECK(serve_all<fifo>(source, 20, heard).finished == 20);
    CHECK(heard.most_outstanding == std::min(outstanding, 20u));
  }
}

TEST_CASE("serve: rejected requests count, and it ends") {
  reply_recorder heard;
  const closed_arrivals source(2, from_us(500), only_model, 1);
  const dispatch_statistics s = serve_all<edf>(source, 20, heard, from_us(3000));
  CHECK(s.submitted == 20);
  CHECK(s.rejected > 0);
  CHECK(s.finished > 0);
  CHECK(s.finished + s.rejected == 20);
}
