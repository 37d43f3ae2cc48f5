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

template <policy P>
void serve() {
  scheduler s{sim::device{sim::h200()}, P{}, {.lanes = 2}};
  operation kernel; // 264 blocks of 256 threads, 20 us alone on the GPU
  kernel.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  kernel.expected = from_us(20);

  struct tenant {
    model_id model;
    client_id client;
    duration deadline;
    duration latency{}; ///< summed up
    int ended = 0;
    [[nodiscard]] double mean_ms() const { return to_us(latency) / ended / 1e3; }
  };
  const auto add = [&](const char* name, unsigned kernels, double weight, duration deadline) {
    return tenant{s.add_model(name, program(name, std::vector(kernels, kernel))),
                  s.add_client(weight), deadline};
  };
  tenant small = add("short", 10, 3, from_us(5000)), large = add("long", 400, 1, from_us(500'000));
  const auto submit = [&](tenant& t) {
    s.submit(
        t.model,
        {.client = t.client, .deadline = t.deadline, .done = [&t](const job& j, time_point now) {
           t.latency += now - j.arrival;
           ++t.ended;
         }});
  };
  for (int i = 0; i < 20; ++i) submit(large);
  time_point next{};
  for (int i = 0; i < 200; ++i, next += from_us(600)) {
    while (s.now() < next)
      if (!s.step()) s.wait(next);
    submit(small);
  }
  s.run();
  std::printf("%-16s short %8.2f ms   long %8.2f ms\n", std::string(P::name).c_str(),
              small.mean_ms(), large.mean_ms());
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
