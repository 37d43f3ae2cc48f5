// SPDX-License-Identifier: Apache-2.0
//
// The host time of the dispatcher for each segment, end to end, on a device that takes no time:
// pick, cut, submit, account, notify, learn, enqueue. Allocations are counted: there must be none.
#include <gsched/device/null_device.hpp>
#include <gsched/dispatch/corun_rule.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/names.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {
std::atomic<std::uint64_t> allocations{0};
}

void* operator new(std::size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(n != 0 ? n : 1)) return p;
  throw std::bad_alloc();
}
// Out of line: g++ 12 warns of a mismatch if it sees free() beside a new expression.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace gsched;

program make_program() {
  operation op;
  op.launch.grid = {132, 1, 1};
  op.launch.block = {128, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(2.5);
  std::vector<operation> all(400, op);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].kernel = kernel_id{static_cast<std::uint32_t>(i % 40)};
  return program("p", std::move(all));
}

enum class rule_kind { none, allows, refuses };

/// Eight models of which the first two run beside each other, the others, or not.
corun_rule rule_of(rule_kind kind) {
  std::vector<corun_limit> models;
  std::vector<corun_slowdown> pairs;
  for (int i = 0; i < 8; ++i) models.push_back({std::string("p") + std::to_string(i), 1.2});
  for (const corun_limit& a : models)
    for (const corun_limit& b : models)
      if (a.model != b.model)
        pairs.push_back({a.model, b.model, kind == rule_kind::refuses ? 1.3 : 1.01});
  return corun_rule(models, pairs);
}

/// The argument is the number of active jobs: each job that ends is followed by another. With a
/// rule they are of two models in turn.
template <policy P, rule_kind Kind = rule_kind::none>
void segments(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(0));
  dispatch_options o;
  if (Kind != rule_kind::none) o.corun.rule = std::make_shared<const corun_rule>(rule_of(Kind));
  o.lanes = 4;
  o.reserved_jobs = jobs;
  o.reserved_entries = 4 * jobs;
  null_device device({limits_for(9, 0), sm_count{132}, o.lanes});
  accountant_options room;
  room.overshoot_fill = 16; // the marks alone limit the queue
  aggregate_accountant account(device.limits().sm, device.limits().sms, room);
  P order;
  silent_listener hears;
  dispatcher<P, null_device, aggregate_accountant> d(device, order, account, hears, o);
  program graph = make_program();
  d.load(graph);
  auto body = [&graph](job_context& ctx) -> task {
    ctx.launch(graph);
    co_return;
  };
  std::vector<model_id> models;
  for (int i = 0; i < (Kind == rule_kind::none ? 1 : 2); ++i)
    models.push_back(d.add_model(std::string("p") + std::to_string(i), body, &graph));
  std::vector<client*> clients;
  for (int i = 0; i < 16; ++i) clients.push_back(&d.add_client());
  std::size_t turn = 0;
  const auto refill = [&] {
    while (d.statistics().active < jobs) {
      job_request r;
      r.model = models[turn % models.size()];
      r.owner = clients[turn++ % clients.size()];
      r.arrival = device.now();
      r.deadline = no_deadline;
      static_cast<void>(d.submit(r));
    }
  };
  const auto round = [&] {
    refill();
    if (!d.step()) device.wait(device.now() + from_us(1));
  };
  while (d.statistics().finished < 3 * jobs + 1000) round(); // until everything was in use once
  const std::uint64_t allocations_before = allocations.load(std::memory_order_relaxed);
  const std::uint64_t before = d.statistics().segments;
  for (auto _ : state) {
    const std::uint64_t until = d.statistics().segments + 1000;
    while (d.statistics().segments < until) round();
  }
  const std::uint64_t allocated = allocations.load(std::memory_order_relaxed) - allocations_before;
  const std::uint64_t done = d.statistics().segments - before;
  state.SetItemsProcessed(static_cast<std::int64_t>(done));
  state.counters["ns_per_segment"] = benchmark::Counter(
      static_cast<double>(done) * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["allocations"] = static_cast<double>(allocated);
  d.cancel_all();
  while (!d.idle())
    if (!d.step()) device.wait(device.now() + from_us(1));
  const dispatch_statistics& s = d.statistics();
  if (s.submitted != s.ended() || account.outstanding() != 0)
    state.SkipWithError("jobs or segments were lost");
  if (allocated != 0) state.SkipWithError("allocations in steady state");
}

BENCHMARK_TEMPLATE(segments, fifo)
    ->Name("dispatcher/segment/wall{policy=fifo}")
    ->ArgName("jobs")
    ->Arg(10)
    ->Arg(1000)
    ->Arg(100000);
BENCHMARK_TEMPLATE(segments, srpt)
    ->Name("dispatcher/segment/wall{policy=srpt}")
    ->ArgName("jobs")
    ->Arg(10)
    ->Arg(1000)
    ->Arg(100000);
BENCHMARK_TEMPLATE(segments, srpt, rule_kind::allows)
    ->Name("dispatcher/segment/wall{policy=srpt,corun_rule=allows}")
    ->ArgName("jobs")
    ->Arg(10)
    ->Arg(1000)
    ->Arg(100000);
BENCHMARK_TEMPLATE(segments, srpt, rule_kind::refuses)
    ->Name("dispatcher/segment/wall{policy=srpt,corun_rule=refuses}")
    ->ArgName("jobs")
    ->Arg(10)
    ->Arg(1000)
    ->Arg(100000);
BENCHMARK_TEMPLATE(segments, edf)
    ->Name("dispatcher/segment/wall{policy=edf}")
    ->ArgName("jobs")
    ->Arg(10)
    ->Arg(1000)
    ->Arg(100000);
BENCHMARK_TEMPLATE(segments, deficit_over<srpt>)
    ->Name("dispatcher/segment/wall{policy=srpt+deficit}")
    ->ArgName("jobs")
    ->Arg(10)
    ->Arg(1000)
    ->Arg(100000);

} // namespace

BENCHMARK_MAIN();
