// SPDX-License-Identifier: Apache-2.0
// Serves requests with data by a plan: batches on partitions of a simulated GPU, for three threads.
#include <gsched/server/plan_server.hpp>
#include <gsched/serving/paced_batches.hpp>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

using namespace gsched;

int main(int argc, char**) {
  if (argc > 1) return std::fputs("plan_server: an argument, expected none\n", stderr), 2;
  std::vector<latency_row> measured; // what a batch takes on so many SMs
  for (const std::uint32_t sms : {8u, 16u, 32u})
    for (std::uint32_t batch = 1; batch <= 8; ++batch)
      measured.push_back({"scale", batch, sm_count{sms}, from_us(300 + 400.0 * batch / sms)});
  plan_offer offer{latency_table(measured), {gpu_shape{sm_count{32}, sm_count{8}}}, {}};
  // A request has four bytes of input and as many of output; 1000 a second are expected.
  offer.models.push_back(
      {std::make_unique<planned_model>("scale", std::vector<std::uint64_t>{sizeof(float)},
                                       std::vector<std::uint64_t>{sizeof(float)}),
       std::chrono::milliseconds(500), 1000});
  const auto work = [](std::size_t, std::span<const void* const> in, std::span<void* const> out) {
    float x = 0;
    std::memcpy(&x, in[0], sizeof x);
    x *= 3;
    std::memcpy(out[0], &x, sizeof x);
  };
  plan_server s(std::move(offer),
                [work](const latency_table& table, const interference_function& slow_down) {
                  return paced_batches(table, slow_down, 1, {}, work);
                });
  std::vector<std::thread> users;
  for (int user = 0; user < 3; ++user)
    users.emplace_back([&s, user] {
      std::array<std::array<float, 2>, 16> data{}; // of each request: input, output
      std::vector<ticket> asked;
      for (std::size_t i = 0; i < data.size(); ++i) {
        data[i][0] = static_cast<float>(i) + 100.0F * static_cast<float>(user);
        asked.push_back(s.submit(
            {.model = model_id{0}, .payload = std::as_writable_bytes(std::span(data[i]))}));
      }
      for (std::size_t i = 0; i < data.size(); ++i)
        if (const request_result r = asked[i].wait(); r.status != request_status::finished)
          std::printf("%s\n", r.error.c_str());
        else if (data[i][1] != 3 * data[i][0])
          std::printf("wrong: %g of %g\n", data[i][1], data[i][0]);
    });
  for (std::thread& u : users) u.join();
  s.close();
  const plan_report r = s.report();
  std::printf("%llu requests answered in %llu batches on %zu partitions\n",
              static_cast<unsigned long long>(r.models[0].latency.count()),
              static_cast<unsigned long long>(r.batches), r.plan.gpulets.size());
  return std::fflush(stdout) == 0 ? 0 : (std::perror("plan_server: standard output"), 1);
}
