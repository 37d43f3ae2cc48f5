// SPDX-License-Identifier: Apache-2.0
//
// The client channel beside requests from within the process: round trips of a request on a device
// that takes no time, with a payload of 600 kB in place, also through futures; the latency and the
// CPU time of a client that waits in each of the three ways for a request of 1 ms; and requests a
// second of many clients. Every request has to finish; otherwise the program ends with 1.
#include <gsched/channel.hpp>
#include <gsched/device/device.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/server.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <benchmark/benchmark.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace gsched;
using clock_type = std::chrono::steady_clock;

std::atomic<bool> all_right{true};

/// Segments end as soon as they are polled; its time is the real one.
class instant_device {
public:
  lane_id open_lane(const lane_options& how) {
    static_cast<void>(how.checked());
    return lane_id{lanes_++};
  }
  void load(program& p) { p.set_id(program_id{programs_++}); }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    ended_.push_back(s.id);
    return {};
  }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    std::size_t n = 0;
    for (; n < out.size() && !ended_.empty(); ended_.pop_front()) {
      out[n] = device_event{};
      out[n++].segment = ended_.front();
    }
    return n;
  }
  [[nodiscard]] std::size_t evict(lane_id) noexcept { return 0; }
  void wait(time_point) noexcept {}
  [[nodiscard]] time_point now() const noexcept { return time_point{clock_type::now() - start_}; }
  [[nodiscard]] const device_limits& limits() const noexcept { return limits_; }

private:
  device_limits limits_ = sim::paced_device(sim::h200()).limits();
  std::deque<segment_id> ended_;
  std::uint32_t lanes_ = 0, programs_ = 0;
  clock_type::time_point start_ = clock_type::now();
};

[[nodiscard]] program kernels(std::size_t count, duration each) {
  operation k;
  k.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  k.expected = each;
  return program("kernels", std::vector<operation>(count, k));
}

constexpr std::size_t payload = 600 * 1024;

template <class Device>
struct hosted {
  template <class Make>
  hosted(Make make, program p, std::size_t bytes)
      : it(make, [] { return fifo(); }), model(it.add_model("model", std::move(p))),
        owner(it.add_client()), host(it, {.socket = socket}) {
    host.offer(model, "model", bytes, 0);
  }
  std::string socket = "@gsched-bench-" + std::to_string(::getpid());
  server it;
  model_id model;
  client_id owner;
  channel::host host;
};

[[nodiscard]] double thread_cpu_us() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

/// Calls `request` once an iteration; p50, p99 and the share of a core that the client used.
template <class F>
void measure(benchmark::State& state, F request) {
  for (int n = 0; n < 200; ++n) request();
  std::vector<double> us;
  const double cpu = thread_cpu_us();
  const auto begin = clock_type::now();
  for (auto _ : state) {
    const auto start = clock_type::now();
    request();
    us.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - start).count());
  }
  const double wall = std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
  state.counters["cpu_percent"] = 100 * (thread_cpu_us() - cpu) / wall;
  std::sort(us.begin(), us.end());
  if (us.empty()) return;
  state.counters["p50_us"] = us[us.size() / 2];
  state.counters["p99_us"] = us[us.size() * 99 / 100];
}

template <class Hosted>
void through_channel(benchmark::State& state, Hosted& h, channel::wait_by by, std::size_t bytes) {
  channel::client c(h.socket, {.arena_bytes = 1 << 20, .wait = by});
  const channel::model_entry m = c.model("model");
  const std::span<std::byte> io = c.allocate(bytes);
  measure(state, [&] {
    c.predict(m, io);
    if (c.read_result().how != channel::outcome::finished) all_right = false;
  });
}

[[nodiscard]] hosted<instant_device> instant() {
  return {[] { return instant_device(); }, kernels(1, std::chrono::microseconds(10)), payload};
}

void in_process(benchmark::State& state) {
  hosted<instant_device> h = instant();
  measure(state, [&] {
    ticket t = h.it.submit({.model = h.model, .client = h.owner});
    while (!t.was_ended()) {
    }
    if (t.result().status != request_status::finished) all_right = false;
  });
}
void in_channel(benchmark::State& state, channel::wait_by by) {
  hosted<instant_device> h = instant();
  through_channel(state, h, by, payload);
}

/// The same by futures, whose client reads on a thread of its own.
void in_futures(benchmark::State& state, channel::wait_by by) {
  hosted<instant_device> h = instant();
  channel::future_client c(h.socket, {.arena_bytes = 1 << 20, .wait = by});
  const channel::model_entry m = c.model("model");
  channel::payload io = c.allocate(m);
  measure(state, [&] {
    channel::answer a = c.submit(m, std::move(io)).get();
    if (!a.has_finished()) all_right = false;
    io = std::move(a.io);
  });
}

/// A request of 1 ms in ten segments.
void of_1_ms(benchmark::State& state, channel::wait_by by) {
  hosted<sim::paced_device> h([] { return sim::paced_device(sim::h200()); },
                              kernels(10, std::chrono::microseconds(100)), 0);
  through_channel(state, h, by, 64);
}

/// The processors of this process: the dispatcher's one, and the others, or all if it is alone.
struct processors {
  processors() {
    CPU_ZERO(&dispatcher);
    ::sched_getaffinity(0, sizeof clients, &clients);
    for (std::size_t n = CPU_SETSIZE; n-- > 0;) { // the first one has the most interrupts
      if (CPU_COUNT(&clients) < 2 || !CPU_ISSET(n, &clients)) continue;
      CPU_CLR(n, &clients);
      CPU_SET(n, &dispatcher);
      return;
    }
    dispatcher = clients;
  }
  static void run_on(const cpu_set_t& these) { ::sched_setaffinity(0, sizeof these, &these); }

  cpu_set_t dispatcher{}, clients{};
};

/// So many clients, each with up to 64 requests in flight, and a thread for each. The dispatcher
/// has a processor of its own, or not.
void throughput(benchmark::State& state) {
  const processors of;
  hosted<instant_device> h(
      [&] {
        if (state.range(1) != 0) processors::run_on(of.dispatcher); // on the server's thread
        return instant_device();
      },
      kernels(1, std::chrono::microseconds(10)), 0);
  const auto clients = static_cast<std::uint64_t>(state.range(0));
  constexpr std::uint64_t batch = 65536;
  for (auto _ : state) {
    std::vector<std::thread> all;
    std::atomic<std::uint64_t> ready{0};
    std::atomic<bool> go{false};
    for (std::uint64_t k = 0; k < clients; ++k)
      all.emplace_back([&] {
        if (state.range(1) != 0) processors::run_on(of.clients);
        channel::client c(h.socket, {.slots = 64, .arena_bytes = 4096});
        const channel::model_entry m = c.model("model");
        ++ready;
        while (!go) std::this_thread::yield();
        for (std::uint64_t sent = 0, got = 0; got < batch / clients;) {
          while (sent < batch / clients && c.try_predict(m.id, c.arena().first(0))) ++sent;
          const std::uint64_t before = got;
          while (std::optional<channel::reply> r = c.try_read_result()) {
            if (r->how != channel::outcome::finished) all_right = false;
            ++got;
          }
          if (got == before) std::this_thread::yield(); // there may be more threads than cores
        }
      });
    while (ready < clients) std::this_thread::yield();
    const auto begin = clock_type::now();
    go = true;
    for (std::thread& t : all) t.join();
    state.SetIterationTime(std::chrono::duration<double>(clock_type::now() - begin).count());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(batch) * state.iterations());
}

BENCHMARK(in_process)->UseRealTime();
BENCHMARK_CAPTURE(in_channel, polling, channel::wait_by::polling)->UseRealTime();
BENCHMARK_CAPTURE(in_channel, hybrid, channel::wait_by::hybrid)->UseRealTime();
BENCHMARK_CAPTURE(in_channel, waiting, channel::wait_by::waiting)->UseRealTime();
BENCHMARK_CAPTURE(in_futures, polling, channel::wait_by::polling)->UseRealTime();
BENCHMARK_CAPTURE(in_futures, hybrid, channel::wait_by::hybrid)->UseRealTime();
BENCHMARK_CAPTURE(in_futures, waiting, channel::wait_by::waiting)->UseRealTime();
BENCHMARK_CAPTURE(of_1_ms, polling, channel::wait_by::polling)->UseRealTime();
BENCHMARK_CAPTURE(of_1_ms, hybrid, channel::wait_by::hybrid)->UseRealTime();
BENCHMARK_CAPTURE(of_1_ms, waiting, channel::wait_by::waiting)->UseRealTime();
BENCHMARK(throughput)
    ->ArgNames({"clients", "own_core"})
    ->ArgsProduct({{1, 4, 16, 64}, {0, 1}})
    ->UseManualTime();

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return all_right ? 0 : 1;
}
