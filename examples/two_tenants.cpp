// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched.hpp>
#include <gsched/sim.hpp>

#include <cstdio>

int main(int argc, char**) {
  using namespace gsched;
  if (argc > 1) return std::fprintf(stderr, "two_tenants: an argument, expected none\n"), 2;
  sim::device gpu(sim::h200());
  aggregate_accountant account(gpu.limits().sm, gpu.limits().sms);
  deficit_over<srpt> order; // shortest remaining job first, but nobody starves
  silent_listener nobody;
  dispatcher scheduler(gpu, order, account, nobody);

  operation kernel; // 264 blocks of 256 threads, 20 us alone on the GPU
  kernel.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  kernel.expected = from_us(20);
  program train("train", std::vector(500, kernel)), infer("infer", std::vector(10, kernel));
  scheduler.load(train);
  scheduler.load(infer);

  auto job = [&](job_context& ctx) -> task { // ordinary CUDA-like code, run as a coroutine
    ctx.launch(*static_cast<program*>(ctx.user));
    co_await ctx.copy(copy_direction::device_to_host, byte_count{4096});
    std::printf("%8.1f us: %s\n", to_us(gpu.now().time_since_epoch()),
                static_cast<program*>(ctx.user)->name().c_str());
  };
  for (program* p : {&train, &infer}) // each for a tenant of its own
    scheduler.submit({.model = scheduler.add_model(p->name(), job, p),
                      .owner = &scheduler.add_client(),
                      .user = p});
  while (!scheduler.idle())
    if (!scheduler.step()) gpu.wait(scheduler.step_by());
  if (std::fflush(stdout) == 0) return 0;
  std::perror("two_tenants: standard output");
  return 1;
}
