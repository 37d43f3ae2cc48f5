// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched.hpp>
#include <gsched/sim.hpp>

#include <cstdio>

int main(int argc, char**) {
  using namespace gsched;
  if (argc > 1) return std::fputs("two_tenants: an argument, expected none\n", stderr), 2;
  operation kernel; // 264 blocks of 256 threads, 20 us alone on the GPU
  kernel.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  kernel.expected = from_us(20);
  scheduler s{sim::device{sim::h200()}, deficit_over<srpt>{}}; // shortest first, and fair
  for (const auto& [name, kernels] : {std::pair("train", 500u), std::pair("infer", 10u)})
    s.submit(s.add_model(name, program(name, std::vector(kernels, kernel))),
             {.client = s.add_client(), .done = [name = name](const job& j, time_point now) {
                std::printf("%8.1f us: %s %s\n", to_us(now.time_since_epoch()), name,
                            to_string(j.state).data());
              }});
  s.run();
  return std::fflush(stdout) == 0 ? 0 : (std::perror("two_tenants: standard output"), 1);
}
