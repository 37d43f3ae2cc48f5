// SPDX-License-Identifier: Apache-2.0
// Runs three policies of the user and three of the library: 200 short jobs arrive while 20 long
// ones are served, on a simulated H200.
#include "feedback_queue.hpp"
#include "least_slack.hpp"
#include "lottery.hpp"

#include <gsched/gsched.hpp>
#include <gsched/sim.hpp>

#include <cstdio>

namespace {

using namespace gsched;

/// Mean latencies by model.
struct latencies : silent_listener {
  duration sum[2]{};
  int ended[2]{};
  void on_end(const job& j, void* user, time_point now) noexcept {
    const auto which = static_cast<std::size_t>(*static_cast<const int*>(user));
    sum[which] += now - j.arrival;
    ++ended[which];
  }
};

template <policy P>
void serve() {
  sim::device gpu(sim::h200());
  aggregate_accountant account(gpu.limits().sm, gpu.limits().sms);
  P order;
  latencies times;
  dispatcher scheduler(gpu, order, account, times, {.lanes = 2});

  operation kernel; // 264 blocks of 256 threads, 20 us alone on the GPU
  kernel.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  kernel.expected = from_us(20);
  program programs[]{{"short", std::vector(10, kernel)}, {"long", std::vector(400, kernel)}};
  for (program& p : programs) scheduler.load(p);
  const int which[]{0, 1};
  auto body = [&](job_context& ctx) -> task {
    ctx.launch(programs[*static_cast<const int*>(ctx.user)]);
    co_return;
  };
  const model_id models[]{scheduler.add_model("short", body, &programs[0]),
                          scheduler.add_model("long", body, &programs[1])};
  client* const tenants[]{&scheduler.add_client(3), &scheduler.add_client(1)};
  const auto submit = [&](int w) {
    scheduler.submit({.model = models[w],
                      .owner = tenants[w],
                      .deadline = gpu.now() + (w == 0 ? from_us(5000) : from_us(500'000)),
                      .user = const_cast<int*>(&which[w])});
  };
  for (int i = 0; i < 20; ++i) submit(1);
  time_point next{};
  for (int left = 200; left > 0 || !scheduler.idle();) {
    if (left > 0 && gpu.now() >= next) {
      submit(0);
      next += from_us(600);
      --left;
    }
    if (!scheduler.step()) gpu.wait(left > 0 ? next : scheduler.step_by());
  }
  std::printf("%-16s short %8.2f ms   long %8.2f ms\n", std::string(P::name).c_str(),
              to_us(times.sum[0]) / times.ended[0] / 1e3,
              to_us(times.sum[1]) / times.ended[1] / 1e3);
}

} // namespace

int main(int argc, char**) {
  if (argc > 1) return std::fprintf(stderr, "own_policy: an argument, expected none\n"), 2;
  serve<fifo>();
  serve<srpt>();
  serve<lottery>();
  serve<least_slack>();
  serve<feedback_queue>();
  if (std::fflush(stdout) == 0) return 0;
  std::perror("own_policy: standard output");
  return 1;
}
