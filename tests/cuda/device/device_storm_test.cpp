// SPDX-License-Identifier: Apache-2.0
//
// Random jobs, cancelled at random, on a real GPU under every policy: each ends once, the counts
// add up, and nothing leaks.
#include "cuda/device/device_driven.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <gsched/policy/names.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

struct end_counter : silent_listener {
  std::map<job_id, int> ends;
  std::uint64_t failures = 0;
  std::string words;
  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    ++failures;
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& e) {
      if (words.empty() && std::string(e.what()) != "drawn") words = e.what();
    }
  }
  void on_end(const job& j, void*, time_point) noexcept { ++ends[j.id]; }
};

/// Programs that all jobs share, and the memory that they copy and set.
struct material {
  static constexpr std::size_t bytes = 1 << 16;

  material() {
    std::mt19937_64 random(7);
    for (const std::size_t n : {3u, 40u, 150u}) {
      std::vector<operation> ops;
      for (std::size_t i = 0; i < n; ++i) {
        ops.push_back(kernel_of(static_cast<std::uint32_t>(1 + random() % 300),
                                static_cast<std::uint32_t>(32 * (1 + random() % 8)),
                                static_cast<double>(2 + random() % 15)));
        ops.back().kernel = kernel_id{static_cast<std::uint32_t>(i % 7)};
      }
      programs.push_back(
          cuda::make_stand_in(gsched::program("p" + std::to_string(n), std::move(ops))));
    }
    REQUIRE(cudaMalloc(&on_gpu, bytes) == cudaSuccess);
    REQUIRE(cudaHostAlloc(&pinned, bytes, cudaHostAllocDefault) == cudaSuccess);
    up = std::make_unique<cuda::copy_action>(on_gpu, pinned);
    down = std::make_unique<cuda::copy_action>(pinned, on_gpu);
    set = std::make_unique<cuda::set_action>(on_gpu, 3);
  }
  ~material() {
    cudaFree(on_gpu);
    cudaFreeHost(pinned);
  }
  material(const material&) = delete;
  material& operator=(const material&) = delete;

  std::deque<cuda::program> programs;
  void* on_gpu = nullptr;
  void* pinned = nullptr;
  std::unique_ptr<cuda::copy_action> up;
  std::unique_ptr<cuda::copy_action> down;
  std::unique_ptr<cuda::set_action> set;
};

task draw_and_run(job_context& ctx, const material& with) {
  std::mt19937_64 random(*static_cast<const std::uint64_t*>(ctx.user));
  std::array<stream_id, 3> streams{ctx.default_stream(), ctx.create_stream(),
                                   ctx.create_stream(stream_kind::non_blocking)};
  const event_id e = ctx.create_event();
  const auto any = [&] { return streams[random() % streams.size()]; };
  const auto size = [&] { return std::size_t{1} + random() % material::bytes; };
  for (std::uint64_t step = random() % 12; step > 0; --step) {
    switch (random() % 8) {
    case 0: ctx.launch(any(), with.up->as_operation(copy_direction::host_to_device, size())); break;
    case 1:
      ctx.launch(any(), with.down->as_operation(copy_direction::device_to_host, size()));
      break;
    case 2: ctx.launch(any(), with.set->as_operation(size())); break;
    case 3: ctx.record(e, any()); break;
    case 4: ctx.wait(any(), e); break;
    case 5: co_await ctx.synchronize(any()); break;
    default: ctx.launch(any(), with.programs[random() % with.programs.size()].host());
    }
    if (random() % 300 == 0) throw std::runtime_error("drawn");
  }
  co_await ctx.synchronize();
}

dispatch_options drawn_options(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  dispatch_options o;
  o.lanes = 1 + static_cast<std::uint32_t>(random() % 6);
  o.segments_per_job = 1 + static_cast<std::uint32_t>(random() % 3);
  o.quantum = from_us(static_cast<double>(20 + random() % 200));
  o.most_quantum = o.quantum * static_cast<int>(1 + random() % 4);
  o.low_mark = from_us(static_cast<double>(random() % 100));
  o.high_mark = o.low_mark + from_us(static_cast<double>(1 + random() % 300));
  o.use = random() % 4 != 0 ? lane_use::shared : lane_use::own;
  o.evict_on_preempt = random() % 2 == 0;
  o.max_segments = 64;
  o.reserved_jobs = 1 + random() % 4;
  o.reserved_entries = 16;
  return o;
}

template <class P, class Account = aggregate_accountant>
void storm(const material& with, const dispatch_options& how, std::uint64_t seed) {
  CAPTURE(seed);
  cuda::device_options on;
  on.instrumented = how.instrumented;
  on.ring_slots = seed % 2 == 0 ? std::size_t{1} << 16 : std::size_t{1} << 13;
  on.watchdog = std::chrono::seconds{5};
  cuda::device device(on);
  Account account(device.limits().sm, device.limits().sms);
  P order;
  end_counter hears;
  dispatcher<P, cuda::device, Account, end_counter> d(device, order, account, hears, how);
  for (const cuda::program& p : with.programs) d.load(const_cast<cuda::program&>(p).host());
  auto body = [&with](job_context& ctx) -> task { return draw_and_run(ctx, with); };
  const model_id m = d.add_model("drawn", body, &with.programs[1].host());
  std::vector<client*> clients{&d.add_client(), &d.add_client(3.0), &d.add_client(0.5)};
  std::mt19937_64 random(seed);
  std::deque<std::uint64_t> seeds;
  std::vector<job_id> ids;
  const time_point end = device.now() + from_us(20e6);
  for (int round = 0; round < 600; ++round) {
    if (random() % 3 == 0) {
      job_request q;
      q.model = m;
      q.owner = clients[random() % clients.size()];
      q.service = random() % 4 != 0 ? service_class::best_effort : service_class::real_time;
      q.arrival = device.now();
      if (random() % 2 == 0)
        q.deadline = device.now() + from_us(static_cast<double>(random() % 5000));
      q.user = &seeds.emplace_back(random());
      ids.push_back(d.submit(q));
    }
    if (!ids.empty() && random() % 10 == 0) static_cast<void>(d.cancel(ids[random() % ids.size()]));
    if (!d.step()) device.wait(device.now() + from_us(static_cast<double>(random() % 100)));
    const dispatch_statistics& s = d.statistics();
    REQUIRE(s.submitted == s.active + s.ended());
  }
  while (!d.idle() && device.now() < end) {
    if (d.step()) continue;
    REQUIRE_FALSE(d.nothing_in_flight());
    device.wait(end);
  }
  REQUIRE(d.idle()); // else it hangs
  const dispatch_statistics& s = d.statistics();
  CHECK(hears.words == "");
  CHECK(s.submitted == ids.size());
  CHECK(s.ended() == ids.size());
  CHECK(s.finished > 0);
  CHECK(s.failed == hears.failures);
  CHECK(s.unknown_events == 0);
  CHECK(order.size() == 0);
  CHECK(account.outstanding() == 0);
  CHECK(account.load() == 0.0);
  CHECK(account.violations().total() == 0);
  CHECK(device.statistics().direct_launches == 0);
  CHECK(device.statistics().lost_words == 0);
  CHECK(device.statistics().unknown_words == 0);
  for (const job_id id : ids) CHECK(hears.ends[id] == 1);
}

TEST_CASE("storm on a GPU: random jobs under every policy end once each") {
  GSCHED_NEEDS_GPU();
  const material with;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const dispatch_options o = drawn_options(seed);
    storm<fifo>(with, o, seed);
    storm<round_robin>(with, o, seed);
    storm<sjf>(with, o, seed);
    storm<srpt>(with, o, seed);
    storm<edf>(with, o, seed);
    storm<deficit>(with, o, seed);
    storm<deficit_over<srpt>>(with, o, seed);
  }
}

TEST_CASE("storm on a GPU: instrumented segments and the per-SM accountant agree") {
  GSCHED_NEEDS_GPU();
  const material with;
  for (std::uint64_t seed = 100; seed < 106; ++seed) {
    dispatch_options o = drawn_options(seed);
    o.instrumented = true;
    storm<deficit_over<srpt>, per_sm_accountant>(with, o, seed);
  }
}

} // namespace
} // namespace gsched::testing
