// SPDX-License-Identifier: Apache-2.0
#include "two_gpu_tenants/tenant.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/srpt.hpp>

#include <algorithm>
#include <deque>
#include <optional>

namespace two_gpu_tenants {

namespace {

using namespace gsched;

/// What one job needs while it runs: where its result goes, and the copy that takes it there.
struct ticket {
  explicit ticket(std::size_t of, std::size_t bytes) : owner(of) {
    cuda::check(cudaMallocHost(&result, bytes), "pinned memory");
  }
  ~ticket() { cudaFreeHost(result); }
  ticket(const ticket&) = delete;
  ticket& operator=(const ticket&) = delete;

  std::size_t owner;
  void* result = nullptr;
  cuda::copy_action take{nullptr, nullptr};
};

/// A job's body: the tenant's programs on the memory that is this job's, then the copy.
struct work {
  tenant& mine;

  task operator()(job_context& ctx) {
    ticket& t = *static_cast<ticket*>(ctx.user);
    instance& on = mine.instances[ctx.instance];
    for (cuda::program& p : on.programs) ctx.launch(p.host());
    t.take = {t.result, on.result};
    ctx.launch(t.take.as_operation(copy_direction::device_to_host, mine.result_bytes()));
    co_return;
  }
};

struct bookkeeper : silent_listener {
  std::array<tenant, 2>& tenants;
  outcome& result;
  std::array<std::vector<ticket*>, 2> free{};
  std::deque<ticket> tickets{};
  std::array<std::size_t, 2> in_flight{};

  bookkeeper(std::array<tenant, 2>& t, outcome& r) : tenants(t), result(r) {}

  ticket& take(std::size_t of) {
    ++in_flight[of];
    if (free[of].empty()) {
      free[of].push_back(&tickets.emplace_back(of, tenants[of].result_bytes()));
      free[of].reserve(tickets.size()); // so that giving one back does not allocate
    }
    ticket& t = *free[of].back();
    free[of].pop_back();
    return t;
  }
  void on_end(const job& j, void* user, time_point now) noexcept {
    ticket& t = *static_cast<ticket*>(user);
    result.latency[t.owner].record(now - j.arrival);
    const bool right = j.state == job_state::finished && tenants[t.owner].is_right(t.result);
    result.wrong[t.owner] += right ? 0u : 1u;
    --in_flight[t.owner];
    free[t.owner].push_back(&t);
  }
};

} // namespace

outcome run_scheduled(int number, std::array<tenant, 2>& tenants, const arrivals& when) {
  outcome result;
  std::array<work, 2> bodies{work{tenants[0]}, work{tenants[1]}};
  cuda::device_options with;
  with.gpu = number;
  cuda::device gpu(with);
  aggregate_accountant account(gpu.limits().sm, gpu.limits().sms);
  deficit_over<srpt> order;
  bookkeeper hears(tenants, result);
  dispatcher scheduler(gpu, order, account, hears);
  std::array<model_id, 2> models{};
  std::array<client*, 2> clients{};
  for (std::size_t i = 0; i < 2; ++i) {
    for (instance& one : tenants[i].instances)
      for (cuda::program& p : one.programs) scheduler.load(p.host());
    std::vector<const program*> expected;
    for (cuda::program& p : tenants[i].instances[0].programs) expected.push_back(&p.host());
    models[i] = scheduler.add_model(tenants[i].name, bodies[i], expected,
                                    static_cast<std::uint32_t>(tenants[i].instances.size()));
    clients[i] = &scheduler.add_client();
  }
  const time_point start = gpu.now();
  const auto submit = [&](std::size_t of, time_point arrival) {
    job_request r;
    r.model = models[of];
    r.owner = clients[of];
    r.arrival = arrival;
    r.user = &hears.take(of);
    static_cast<void>(scheduler.submit(r));
  };
  for (std::size_t next = 0; next < when.first.size() || !scheduler.idle();) {
    for (; next < when.first.size() && start + when.first[next] <= gpu.now(); ++next)
      submit(0, start + when.first[next]);
    while (next < when.first.size() && hears.in_flight[1] < when.second_in_flight)
      submit(1, gpu.now());
    if (!scheduler.step()) {
      const time_point due = next < when.first.size() ? start + when.first[next] : no_deadline;
      gpu.wait(std::min(due, scheduler.step_by()));
    }
    if (gpu.failure()) throw error(errc::device_failed, *gpu.failure());
  }
  result.seconds = to_s(gpu.now() - start);
  return result;
}

} // namespace two_gpu_tenants
