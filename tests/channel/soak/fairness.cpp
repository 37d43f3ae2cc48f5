// SPDX-License-Identifier: Apache-2.0
//
// Three clients of weights 1, 2 and 4 that always have requests in flight, of different lengths:
// what each gets of a simulated device's time.
#include "commands.hpp"
#include "processes.hpp"

#include <gsched/channel.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace gsched::soak {

namespace {

constexpr std::size_t contenders = 3;
constexpr std::array<double, contenders> weights{1, 2, 4};
/// Kernels of each one's requests, of 100 us and of the whole device.
constexpr std::array<std::size_t, contenders> lengths{12, 5, 2};
constexpr std::uint32_t whole_device = 132 * 8; ///< blocks
/// Of each model: as many of its requests are in the order of the policy. With one, the device
/// takes what all clients offer, and there is nothing to choose.
constexpr std::size_t instances = 8;

struct contest {
  std::array<std::atomic<int>, contenders> pids{};
  std::array<std::atomic<std::uint64_t>, contenders> finished{};
  std::atomic<std::uint32_t> ready{0};
};

void serve_contest(const std::string& socket, contest& all, duration threshold) {
  server s([] { return sim::paced_device(sim::h200()); },
           [=] { return deficit_over<srpt>(threshold); });
  channel::host_options how;
  how.socket = socket;
  how.limits = [&](const channel::peer& of) {
    channel::client_limits l;
    for (std::size_t i = 0; i < contenders; ++i)
      if (all.pids[i].load() == of.pid) l.weight = weights[i];
    return l;
  };
  channel::host h(s, how);
  for (std::size_t i = 0; i < contenders; ++i) {
    const std::string name = "model" + std::to_string(i);
    h.offer(add_calling(
                s, kernels{name.c_str(), lengths[i], std::chrono::microseconds{100}, whole_device},
                instances, [&all, i](request_record&) { all.finished[i].fetch_add(1); }),
            name, 0, 0);
  }
  all.ready.store(1);
  for (;;) std::this_thread::sleep_for(1s);
}

void contend(const std::string& socket, contest& all, std::size_t i) {
  all.pids[i].store(::getpid());
  channel::client_options how;
  how.slots = 16;
  how.arena_bytes = 4096;
  how.wait = channel::wait_by::waiting;
  channel::client c(socket, how);
  const channel::model_entry m = c.model("model" + std::to_string(i));
  all.ready.fetch_add(1);
  for (;;) {
    while (c.try_predict(m.id, c.arena().first(0))) {
    }
    if (c.read_result().how != channel::outcome::finished)
      throw std::runtime_error("a request has not finished");
  }
}

} // namespace

int fairness(const fairness_options& how) {
  shared_array<contest> state(1);
  contest& all = state[0];
  const std::string socket = socket_name();
  const duration threshold{static_cast<std::int64_t>(how.threshold_ms * 1e6)};
  std::array<pid_t, contenders + 1> processes;
  processes[0] = spawn([&] { serve_contest(socket, all, threshold); });
  const bool serves = wait_until([&] { return all.ready.load() != 0; }, 20s);
  for (std::size_t i = 0; i < contenders; ++i)
    processes[i + 1] = spawn([&, i] { contend(socket, all, i); });
  const bool ready = serves && wait_until([&] { return all.ready.load() == 1 + contenders; }, 20s);
  std::this_thread::sleep_for(200ms);
  std::array<double, contenders> busy{};
  const auto begin = clock::now();
  for (std::size_t i = 0; i < contenders; ++i) busy[i] = -double(all.finished[i].load());
  std::this_thread::sleep_for(std::chrono::duration<double>(how.seconds));
  for (std::size_t i = 0; i < contenders; ++i) busy[i] += double(all.finished[i].load());
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  for (const pid_t p : processes) kill_and_join(p);
  double total = 0, weight = 0;
  for (std::size_t i = 0; i < contenders; ++i) {
    total += busy[i] *= 1e-4 * double(lengths[i]);
    weight += weights[i];
  }
  bool fair = ready && total > 0;
  nlohmann::json clients = nlohmann::json::array();
  std::printf("%6s %10s %9s %9s %9s\n", "weight", "request_us", "share", "expected", "ratio");
  for (std::size_t i = 0; i < contenders; ++i) {
    const double share = busy[i] / total, expected = weights[i] / weight;
    fair = fair && std::abs(share / expected - 1) <= how.tolerance;
    std::printf("%6.0f %10zu %9.4f %9.4f %9.4f\n", weights[i], lengths[i] * 100, share, expected,
                share / expected);
    clients.push_back({{"weight", weights[i]},
                       {"request_us", lengths[i] * 100},
                       {"device_seconds", busy[i]},
                       {"share", share},
                       {"expected", expected}});
  }
  std::printf("device busy %.2f of %.2f s: %s\n", total, seconds, fair ? "fair" : "NOT FAIR");
  save(how.json, {{"command", "fairness"},
                  {"policy", "deficit_over<srpt>"},
                  {"threshold_ms", how.threshold_ms},
                  {"seconds", seconds},
                  {"device_seconds", total},
                  {"clients", clients},
                  {"tolerance", how.tolerance},
                  {"ok", fair}});
  return fair ? 0 : 1;
}

} // namespace gsched::soak
