// SPDX-License-Identifier: Apache-2.0
//
// A million preemptions at random instants, of random programs, with cancels, failures, floors,
// side lanes, padding and reserved SMs: every operation of a finished job has run once and in
// order, and no state remains.
#include "dispatch/rig.hpp"
#include "dispatch/yielding_device.hpp"
#include "sanitized.hpp"

#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/srpt.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

using namespace gsched;

namespace {

using policy_type = gsched::priority<edf, deficit_over<srpt>>;

/// Padded programs, and the co-runner that each carries.
using carried_by = std::map<program_id, std::tuple<program_id, std::uint32_t, std::size_t>>;

struct end_log : silent_listener {
  void on_submit(const job& j, const segment& s, duration, time_point) noexcept {
    const auto lane = index(s.lane);
    if (j.service == service_class::real_time || lane < first_real_time || lane >= first_side)
      return;
    const auto is = carried->find(device->last_submitted());
    const std::tuple what(s.program, s.first, s.operations.size());
    wrong += is == carried->end() || is->second != what;
    rides.emplace(s.id, std::pair(j.id, what));
  }
  void on_segment_end(const job&, segment_id id, time_point) noexcept {
    const auto ride = rides.find(id);
    if (ride == rides.end()) return;
    const auto& [owner, what] = ride->second;
    device->carried(owner, std::get<0>(what), std::get<1>(what), std::get<2>(what));
    rides.erase(ride);
    ++rode;
  }
  void on_arrival(const job& j, void*, time_point) noexcept {
    real_time += j.service == service_class::real_time;
  }
  void on_failure(const job&, std::exception_ptr, time_point) noexcept {} // devices fail here
  void on_end(const job& j, void*, time_point) noexcept {
    ended.push_back({j.id, j.state});
    real_time -= j.service == service_class::real_time;
  }
  struct one {
    job_id id{};
    job_state how{};
  };
  std::vector<one> ended;
  int real_time = 0; ///< active
  yielding_device* device = nullptr;
  const carried_by* carried = nullptr;
  std::uint32_t first_real_time = 0, first_side = 0; ///< lanes
  std::map<segment_id, std::pair<job_id, std::tuple<program_id, std::uint32_t, std::size_t>>>
      rides{};
  std::uint64_t rode = 0, wrong = 0;
};

/// Operations of one preemptibility, or of any.
std::vector<operation> drawn_work(std::mt19937_64& random, int kind) {
  std::vector<operation> ops(1 + random() % 12);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    operation& op = ops[i];
    op.launch.grid = {64, 1, 1};
    op.launch.block = {128, 1, 1};
    op.launch.registers_per_thread = 32;
    op.kernel = kernel_id{static_cast<std::uint32_t>(i % 3)};
    op.expected = duration{static_cast<duration::rep>(500 + random() % 4000)};
    const auto how = kind < 2 ? static_cast<std::uint64_t>(kind) : random() % 2;
    op.preemptible = how == 0 ? preemptibility::never : preemptibility::at_checkpoints;
  }
  return ops;
}

struct counts {
  std::uint64_t yields = 0;
  std::uint64_t preempted = 0;
  std::uint64_t evicted = 0;
  std::uint64_t side = 0;
  std::uint64_t restores = 0;
  std::uint64_t padded = 0;
  std::uint64_t reserved = 0;
};

/// A third of the pairs of p0 to p5 are kept apart.
corun_rule drawn_rule(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<corun_limit> models;
  std::vector<corun_slowdown> pairs;
  for (int i = 0; i < 6; ++i) models.push_back({"p" + std::to_string(i), 1.2});
  for (const corun_limit& a : models)
    for (const corun_limit& b : models)
      pairs.push_back({a.model, b.model, random() % 6 == 0 ? 1.3 : 1.0});
  return corun_rule(models, pairs);
}

counts storm(std::uint64_t seed, std::uint64_t rounds) {
  std::mt19937_64 random(seed);
  dispatch_options o;
  o.lanes = 1 + static_cast<std::uint32_t>(random() % 3);
  o.segments_per_job = 1 + static_cast<std::uint32_t>(random() % 3);
  o.quantum = duration{static_cast<duration::rep>(1000 + random() % 9000)};
  o.most_quantum = o.quantum * 2;
  o.low_mark = o.quantum / 2;
  o.high_mark = o.quantum * 2;
  o.max_segments = 4 + random() % 60;
  o.use = random() % 4 ? lane_use::shared : random() % 2 ? lane_use::own : lane_use::client;
  o.evict_on_preempt = random() % 4 == 0;
  o.preemption.real_time_lanes = 1 + static_cast<std::uint32_t>(random() % 2);
  if (random() % 2) o.preemption.floor = 0.2;
  o.preemption.floor_window = from_us(200);
  if (random() % 5 == 0) o.preemption.side = {sm_count{32}, sm_count{64}};
  o.preemption.pads = random() % 2;
  o.preemption.tolerance = 0.5;
  o.preemption.long_operation = from_us(3);
  o.preemption.one_long = random() % 4 == 0;
  if (o.use == lane_use::shared && random() % 2)
    o.preemption.reserve = {sm_count{8}, sm_count{40}, sm_count{100}};
  o.preemption.reserve_learns = random() % 4 != 0;
  const auto rule = std::make_shared<const corun_rule>(drawn_rule(seed));
  if (seed % 2 == 1) o.corun = {rule, o.quantum * static_cast<int>(seed % 5)};
  yielding_device::options d;
  d.seed = seed;
  d.fails_one_in = random() % 2 ? 500 : 0;
  d.takes_back = random() % 4 != 0;
  d.most_latency = duration{static_cast<duration::rep>(random() % 8000)};
  const auto sizes = static_cast<std::uint32_t>(o.preemption.reserve.size());
  yielding_device device((1 + sizes) * o.lanes + 5, d);

  accountant_options room;
  room.max_outstanding = 2 + random() % 100;
  room.overshoot_fill = 4;
  aggregate_accountant account(device.limits().sm, device.limits().sms, room);
  policy_type order;
  end_log hears;
  const test::shared_dispatcher made(device, order, account, hears, o);
  test::any_dispatcher& dispatch = *made;
  carried_by carried;
  hears.device = &device;
  hears.carried = &carried;
  hears.first_real_time = o.lanes;
  hears.first_side = o.lanes + o.preemption.real_time_lanes;
  std::deque<program> programs;
  std::deque<program> padded;
  std::deque<std::function<task(job_context&)>> bodies;
  std::vector<model_id> models;
  for (int i = 0; i < 6; ++i) {
    program& p = programs.emplace_back("p" + std::to_string(i), drawn_work(random, i % 3));
    dispatch.load(p);
    if (random() % 2)
      bodies.emplace_back([&p](job_context& ctx) -> task {
        ctx.launch(p);
        ctx.launch(p);
        co_return;
      });
    else
      bodies.emplace_back([&p](job_context& ctx) -> task {
        const stream_id s = ctx.create_stream();
        ctx.launch(s, p);
        co_await ctx.synchronize(s);
        ctx.launch(p);
      });
    models.push_back(dispatch.add_model(p.name(), bodies.back(), &p, 1));
  }
  for (const program& r : programs)
    for (const program& g : programs)
      for (std::uint32_t from = 0; o.preemption.pads && from < g.size(); ++from) {
        if (random() % 4 == 0) continue;
        const auto to = from + 1 + static_cast<std::uint32_t>(random() % (g.size() - from));
        std::vector<operation> ops(r.operations().begin(), r.operations().end());
        ops[random() % ops.size()].expected += duration{10};
        program& p = padded.emplace_back("padded", std::move(ops));
        p.keep_whole();
        dispatch.load(p);
        dispatch.add_padded(r, g, from, to, p);
        carried[p.id()] = {g.id(), from, to - from};
      }
  std::vector<client*> clients{&dispatch.add_client(), &dispatch.add_client(2.0)};
  std::vector<std::uint64_t> expected; // operations, by job
  std::uint64_t operations = 0;

  const auto submit = [&](service_class of) {
    const std::size_t m = random() % models.size();
    job_request q;
    q.model = models[m];
    q.owner = clients[random() % 2];
    q.service = of;
    q.arrival = device.now();
    expected.push_back(2 * programs[m].size());
    return dispatch.submit(q);
  };
  // If draining in-flight work gains, few lanes yield.
  while (device.yields < rounds && expected.size() < 2 * rounds) {
    while (dispatch.statistics().active < 5) static_cast<void>(submit(service_class::best_effort));
    if (hears.real_time < 1 + static_cast<int>(random() % 8 == 0))
      static_cast<void>(submit(service_class::real_time));
    if (random() % 32 == 0)
      static_cast<void>(
          dispatch.cancel(job_id{expected.size() - 1 - random() % 5 % expected.size()}));
    const time_point until = device.now() + duration{static_cast<duration::rep>(random() % 30000)};
    while (device.now() < until)
      if (!dispatch.step()) device.wait(until);
  }
  for (int idle = 0; !dispatch.idle(); ++idle) {
    REQUIRE(idle < 100000);
    if (!dispatch.step()) {
      REQUIRE_FALSE(dispatch.nothing_in_flight());
      device.wait(no_deadline);
    }
  }
  const dispatch_statistics& s = dispatch.statistics();
  CHECK(s.submitted == expected.size());
  CHECK(s.ended() == expected.size());
  CHECK(s.rejected == 0);
  CHECK(s.unknown_events == 0);
  CHECK(hears.ended.size() == expected.size());
  std::uint64_t wrong = 0;
  for (const auto& e : hears.ended) {
    const std::uint64_t ran = device.ran(e.id);
    wrong +=
        e.how == job_state::finished ? ran != expected[index(e.id)] : ran > expected[index(e.id)];
    operations += ran;
  }
  CHECK(wrong == 0);
  CHECK(s.operations == operations);
  CHECK(device.breaches() == 0);
  CHECK(device.nothing_left());
  CHECK(order.size() == 0);
  CHECK(account.outstanding() == 0);
  CHECK(account.violations().total() == 0);
  const preemption_statistics& p = dispatch.preemption();
  CHECK(p.preempted_segments == device.preempted);
  CHECK(p.preemptions.count == p.preemptions.latency.count());
  CHECK(hears.wrong == 0);
  CHECK(hears.rode <= p.padded_segments);
  return {device.yields,    device.preempted, s.evicted_segments, p.side_segments,
          p.restores.count, hears.rode,       p.reserved_segments};
}

constexpr std::uint64_t enough = testing::sanitized ? 20'000 : 1'000'000;

} // namespace

TEST_CASE("preemption: nothing is lost or run twice over a million random preemptions") {
  counts all;
  for (std::uint64_t seed = 0; all.yields < enough; ++seed) {
    CAPTURE(seed);
    REQUIRE(seed < 2000);
    const counts c = storm(seed, 2000);
    all.yields += c.yields;
    all.preempted += c.preempted;
    all.evicted += c.evicted;
    all.side += c.side;
    all.restores += c.restores;
    all.padded += c.padded;
    all.reserved += c.reserved;
  }
  CHECK(all.preempted > enough / 10);
  CHECK(all.evicted > enough / 1000);
  CHECK(all.side > enough / 1000);
  CHECK(all.restores > enough / 10);
  CHECK(all.padded > enough / 1000);
  CHECK(all.reserved > enough / 10);
}
