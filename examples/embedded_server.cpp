// SPDX-License-Identifier: Apache-2.0
// Requests from several threads, to a server within the program. On a GPU, cuda::device takes the
// place of sim::paced_device.
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/server.hpp>
#include <gsched/sim.hpp>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

using namespace gsched;

int main(int argc, char**) {
  if (argc > 1) return std::fputs("embedded_server: an argument, expected none\n", stderr), 2;
  operation kernel; // 264 blocks of 256 threads, 20 us alone on the GPU
  kernel.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  kernel.expected = from_us(20);

  server_options how;
  how.dispatch.preemption.real_time_lanes = 1; // real-time requests preempt the others
  server s([] { return sim::paced_device(sim::h200()); },
           [] { return priority<edf, deficit_over<srpt>>(); }, how);
  const model_id train = s.add_model("train", program("train", std::vector(20000, kernel)));
  const model_id infer = s.add_model("infer", program("infer", std::vector(10, kernel)));

  ticket background = s.submit({.model = train, .client = s.add_client()});
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user)
    users.emplace_back([&] {
      const client_id me = s.add_client();
      for (int i = 0; i < 5; ++i) {
        ticket t = s.submit({.model = infer,
                             .client = me,
                             .service = service_class::real_time,
                             .deadline = std::chrono::milliseconds(100)});
        const request_result r = t.wait();
        std::printf("infer %s after %.1f ms\n", std::string(to_string(r.status)).c_str(),
                    to_us(r.latency) * 1e-3);
      }
    });
  for (std::thread& u : users) u.join();
  background.cancel();
  s.close(); // waits for what is left
  std::printf("%llu requests, %llu finished\n",
              static_cast<unsigned long long>(s.statistics().requests.submitted),
              static_cast<unsigned long long>(s.statistics().requests.finished));
  return std::fflush(stdout) == 0 ? 0 : (std::perror("embedded_server: standard output"), 1);
}
