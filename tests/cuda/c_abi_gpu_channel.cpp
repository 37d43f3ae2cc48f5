// SPDX-License-Identifier: Apache-2.0
// Clients of the channel on a GPU: it reads inputs and writes outputs in the clients' memory.
#include "cuda/c_abi_gpu_model.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/gsched_c.h>

#include <gsched/channel/client.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace gsched::testing;
namespace channel = gsched::channel;

TEST_CASE("c abi: clients of the channel get their own results from a GPU, and come and go") {
  GSCHED_NEEDS_GPU();
  captured_model small(4096, 3, 10, 2), large(150'000, 12, 300, 2);
  open_server server("srpt+deficit");
  small.add_to(server.it, "small");
  large.add_to(server.it, "large");
  const std::string socket = "@gsched-gpu-" + std::to_string(::getpid());
  gsched_channel* host = nullptr;
  ok(gsched_channel_open(server.it, socket.c_str(), nullptr, &host));
  ok(gsched_channel_offer(host, small.id, nullptr));
  ok(gsched_channel_offer(host, large.id, "big"));
  gsched_channel* second = nullptr;
  CHECK(gsched_channel_open(server.it, socket.c_str(), nullptr, &second) == GSCHED_IO);

  std::atomic<std::size_t> wrong{0}, finished{0};
  const auto serve = [&](std::uint32_t seed) {
    for (int visit = 0; visit < 3; ++visit) {
      channel::client c(socket, {.arena_bytes = std::uint64_t{16} << 20});
      const channel::model_entry entries[] = {c.model("small"), c.model("big")};
      const captured_model* const models[] = {&small, &large};
      std::vector<std::span<std::byte>> pieces;
      for (std::uint32_t k = 0; k < 8; ++k) {
        const captured_model& m = *models[k % 2];
        pieces.push_back(c.allocate(entries[k % 2].payload_bytes()));
        std::vector<std::uint32_t> in(m.words);
        for (std::uint32_t i = 0; i < m.words; ++i) in[i] = seed + 1000 * k + i;
        std::memcpy(pieces.back().data(), in.data(), m.bytes());
        c.predict(entries[k % 2], pieces.back());
      }
      for (int left = 8; left > 0; --left) {
        const channel::reply r = c.read_result();
        finished += r.how == channel::outcome::finished;
        const captured_model& m = *models[r.id % 2];
        std::vector<std::uint32_t> out(m.words);
        std::memcpy(out.data(), pieces[r.id].data() + entries[r.id % 2].input_bytes, m.bytes());
        for (std::uint32_t i = 0; i < m.words; ++i)
          wrong += out[i] != m.expected(seed + 1000 * static_cast<std::uint32_t>(r.id) + i);
      }
    }
  };
  std::vector<std::thread> clients;
  for (std::uint32_t t = 0; t < 4; ++t) clients.emplace_back(serve, 100'000 * t);
  for (std::thread& t : clients) t.join();
  CHECK(finished == 4 * 3 * 8);
  CHECK(wrong == 0);
  CHECK(server.statistics().finished == 4 * 3 * 8);
  ok(gsched_channel_close(host));
}
