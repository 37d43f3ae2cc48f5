// SPDX-License-Identifier: Apache-2.0
//
// Failures that end a device. Each runs in a process of its own, because CUDA's context fails too.
#include "cuda/device/device_child.hpp"
#include "cuda/device/device_driven.hpp"
#include "cuda/device/device_kernels.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gsched::testing {
namespace {

bool has(const std::string& line, const char* part) { return line.find(part) != std::string::npos; }

/// The message of the error that f throws; empty if it throws none.
template <class F>
std::string refusal(F f, errc expected = errc::device_failed) {
  try {
    f();
  } catch (const error& e) {
    return e.code() == expected ? e.what() : "another code";
  }
  return "";
}

int* pinned_flag() {
  void* p = nullptr;
  REQUIRE(cudaHostAlloc(&p, sizeof(int), cudaHostAllocMapped) == cudaSuccess);
  *static_cast<int*>(p) = 0;
  return static_cast<int*>(p);
}

TEST_CASE("device child: illegal access" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program bad = make_faulty("bad");
  cuda::program good = stand_ins("good", 20, kernel_of(66, 128, 20));
  auto d = std::make_unique<driven_cuda>();
  const lane_id a = d->device.open_lane({});
  const lane_id b = d->device.open_lane({});
  d->device.load(bad);
  d->device.load(good);
  v.need(!d->submit(a, good.host()), "a good segment is accepted");
  v.need(d->finish(), "it ends");
  v.need(d->done == 1 && !d->device.failure(), "it ends well");
  v.need(!d->submit(b, good.host()), "accepted beside the bad one");
  // Any of these submissions may see the failure, and is not accepted then.
  const std::error_code refused = d->submit(a, bad.host());
  v.need(!refused || refused == cuda::code_of(cudaErrorIllegalAddress), "the bad one is taken");
  for (int i = 0; i < 5; ++i) static_cast<void>(d->submit(a, good.host()));
  v.need(d->finish(), "all that was accepted is polled");
  v.need(d->failed >= 1 || refused, "the bad one failed");
  v.need(d->done + d->failed == d->accepted, "each once");
  v.need(d->device.failure().has_value(), "there is a reason");
  const std::string line = d->device.failure().value_or("");
  v.say(line);
  v.need(has(line, "illegal memory access") && has(line, "cudaErrorIllegalAddress"),
         "it has CUDA's words");
  v.need(has(line, "bad operations 0 to 0") && has(line, "faulty_kernel"),
         "it names segment and kernel");
  v.need(!has(line, "\n"), "it is one line");
  v.need(d->submit(a, good.host()) == cuda::code_of(cudaErrorIllegalAddress), "submit says why");
  v.need(refusal([&] { d->device.load(good); }) == line, "load says why");
  v.need(refusal([&] { static_cast<void>(d->device.open_lane({})); }) == line,
         "open_lane says why");
  const auto from = std::chrono::steady_clock::now();
  d.reset();
  v.need(seconds_since(from) < 2, "it is soon gone");
  v.leave();
}

TEST_CASE("device child: hung kernel" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program endless = make_endless("endless", pinned_flag());
  cuda::program good = stand_ins("good", 20, kernel_of(66, 128, 20));
  cuda::program behind = stand_ins("behind", 20, kernel_of(66, 128, 20));
  cuda::device_options o;
  o.watchdog = std::chrono::seconds{1};
  auto d = std::make_unique<driven_cuda>(o);
  const lane_id a = d->device.open_lane({});
  const lane_id b = d->device.open_lane({});
  d->device.load(endless);
  d->device.load(good);
  d->device.load(behind);
  void* there = nullptr; // allocated now: after a kernel hangs, this would wait for it
  v.need(cudaMalloc(&there, 64) == cudaSuccess, "memory");
  const auto from = std::chrono::steady_clock::now();
  v.need(!d->submit(a, endless.host()), "accepted");
  for (int i = 0; i < 10; ++i) v.need(!d->submit(b, good.host()), "accepted beside it");
  v.need(!d->submit(a, behind.host()), "accepted behind it");
  std::vector<char> pageable(64);
  const cuda::copy_action down(pageable.data(), there);
  const operation copy = down.as_operation(copy_direction::device_to_host, 64);
  const operation* one = &copy;
  v.need(!d->submit_loose(a, {&one, 1}), "a copy to pageable memory, too");
  v.need(d->finish(), "all is polled");
  const double took = seconds_since(from);
  v.need(took > 0.9 && took < 5, "after the watchdog's second");
  v.need(d->failed == 2, "it failed, and what was queued behind it");
  v.need(d->done == 11, "what ran beside it ended well, and so did the copy that had not started");
  const std::string line = d->device.why_failed();
  v.say(line);
  v.need(has(line, "endless operations 0 to 0") && has(line, "endless_kernel"), "it is named");
  v.need(has(line, "cudaErrorLaunchTimeout") && !has(line, "good"), "and it alone");
  v.need(!d->device.failure(), "the device lives");
  v.need(d->device.hangs(endless.host().id()) && d->device.hangs(behind.host().id()) &&
             !d->device.hangs(good.host().id()),
         "it knows what hangs");
  v.need(d->submit(b, endless.host()) == cuda::code_of(cudaErrorLaunchTimeout), "and refuses it");
  for (const lane_id lane : {a, b}) v.need(!d->submit(lane, good.host()), "all else goes on");
  v.need(d->finish() && d->failed == 2, "on both lanes");
  v.need(d->device.statistics().hung == 2, "and it counts");
  const auto end = std::chrono::steady_clock::now();
  d.reset();
  v.need(seconds_since(end) < 2, "it is left behind");
  v.leave();
}

TEST_CASE("device child: a hung program that waits to run again" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program endless = make_endless_chain("endless", 40, pinned_flag());
  cuda::program good = stand_ins("good", 20, kernel_of(66, 128, 20));
  cuda::device_options o;
  o.watchdog = std::chrono::seconds{1};
  auto d = std::make_unique<driven_cuda>(o);
  const lane_id a = d->device.open_lane({0, {}, true});
  d->device.load(endless);
  d->device.load(good);
  for (int i = 0; i < 2; ++i) v.need(!d->submit(a, endless.host()), "accepted");
  v.need(!d->submit(a, good.host()), "accepted behind them");
  v.need(d->device.statistics().held == 2, "nothing is handed over behind gates");
  v.need(d->finish(5), "all is polled");
  v.need(d->failed == 2 && d->done == 1, "both runs of the program that hangs, and they alone");
  d.reset();
  v.leave();
}

TEST_CASE("device child: a GPU that runs nothing" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  const int* const flag = pinned_flag();
  std::deque<cuda::program> endless; // enough to fill all SMs
  cuda::device_options o;
  o.watchdog = std::chrono::seconds{1};
  auto d = std::make_unique<driven_cuda>(o);
  const lane_id a = d->device.open_lane({});
  endless.push_back(make_endless_everywhere("everywhere", flag));
  cuda::program good = stand_ins("good", 20, kernel_of(66, 128, 20));
  d->device.load(endless.front());
  d->device.load(good);
  const lane_id b = d->device.open_lane({});
  v.need(!d->submit(a, endless.front().host()), "accepted");
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  v.need(!d->submit(b, good.host()), "accepted beside it");
  v.need(d->finish(), "all is polled");
  v.need(d->failed == 2, "as failed");
  v.need(d->device.failure().has_value(), "the device has ended");
  v.say(d->device.failure().value_or(""));
  v.leave();
}

TEST_CASE("device child: starved work" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program urgent = stand_ins("urgent", 1, kernel_of(132 * 8, 256, 100'000));
  cuda::program good = stand_ins("good", 20, kernel_of(132 * 8, 256, 20));
  cuda::device_options o;
  o.watchdog = std::chrono::milliseconds{200};
  auto d = std::make_unique<driven_cuda>(o);
  const lane_id low = d->device.open_lane({});
  const lane_id high = d->device.open_lane({2, {}});
  d->device.load(urgent);
  d->device.load(good);
  for (int i = 0; i < 6; ++i) v.need(!d->submit(high, urgent.host()), "accepted");
  for (int i = 0; i < 40; ++i) v.need(!d->submit(low, good.host()), "accepted");
  v.need(d->finish(), "all is polled");
  v.need(d->failed == 0 && !d->device.failure(), "work that waits for urgent work does not hang");
  v.leave();
}

TEST_CASE("device child: shutdown while a kernel hangs" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program endless = make_endless("endless", pinned_flag());
  cuda::device_options o;
  o.watchdog = std::chrono::seconds{1};
  auto d = std::make_unique<driven_cuda>(o);
  const lane_id a = d->device.open_lane({});
  d->device.load(endless);
  v.need(!d->submit(a, endless.host()), "accepted");
  const auto from = std::chrono::steady_clock::now();
  d.reset();
  const double took = seconds_since(from);
  v.need(took > 0.8 && took < 5, "it waits for the watchdog's second and no longer");
  v.leave();
}

/// The driver's table of streams and executable graphs. When it is full, making another one waits
/// for all work on the GPU.
class driver_table {
public:
  driver_table() : stop_(pinned_flag()), endless_(make_endless("endless", stop_)) {
    graph_ = endless_.make_range(0, 1);
    good_ &= cudaGraphInstantiate(&runs_, graph_, 0) == cudaSuccess;
    good_ &= cudaStreamCreateWithFlags(&on_, cudaStreamNonBlocking) == cudaSuccess;
  }

  /// Leaves space for one to three entries. False if no call waits.
  bool fill() {
    if (!make_until_one_waits()) return false;
    const std::optional<unsigned> more = make_until_one_waits(); // includes the call that waited
    if (!more) return false;
    for (unsigned i = 2; i < *more; ++i) make_one(); // table sizes differ by one
    return good_;
  }

private:
  void make_one() {
    cudaGraphExec_t made = nullptr;
    good_ &= cudaGraphInstantiate(&made, graph_, 0) == cudaSuccess;
  }
  /// The number of entries made while a kernel runs until a call waits for it; that call returns
  /// too.
  std::optional<unsigned> make_until_one_waits() {
    constexpr unsigned most = 200;
    *stop_ = 0;
    good_ &= cudaGraphLaunch(runs_, on_) == cudaSuccess;
    std::atomic<unsigned> made{0};
    std::atomic<bool> ends{false};
    std::thread maker([&] {
      while (!ends && made < most) {
        make_one();
        ++made;
      }
    });
    unsigned seen = 0;
    do {
      seen = made;
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
    } while (made != seen);
    ends = true;
    std::atomic_ref(*stop_).store(1);
    maker.join();
    good_ &= cudaStreamSynchronize(on_) == cudaSuccess;
    return seen < most ? std::optional(seen) : std::nullopt;
  }

  int* stop_;
  cuda::program endless_;
  CUgraph graph_ = nullptr;
  cudaGraphExec_t runs_ = nullptr;
  cudaStream_t on_ = nullptr;
  bool good_ = true;
};

TEST_CASE("device child: kernels that hang while the driver's table is full" * doctest::skip()) {
  if (gpus_here() == 0) return;
  constexpr std::size_t most = 4; // lanes that can be rebuilt
  verdict v;
  driver_table table;
  int* const stop = pinned_flag();
  std::deque<cuda::program> endless;
  for (std::size_t i = 0; i <= most; ++i)
    endless.push_back(make_endless("endless" + std::to_string(i), stop));
  cuda::program good = stand_ins("good", 20, kernel_of(66, 128, 20));
  cuda::program late = stand_ins("late", 20, kernel_of(66, 128, 20));
  void* there = nullptr;
  v.need(cudaMalloc(&there, 4096) == cudaSuccess, "memory");
  cuda::stream_capture captured("captured");
  v.need(cudaMemsetAsync(there, 0, 4, captured.stream()) == cudaSuccess, "capture");
  const CUgraph graph = captured.end();
  cuda::device_options o;
  o.watchdog = std::chrono::milliseconds{400};
  auto d = std::make_unique<driven_cuda>(o);
  const lane_id a = d->device.open_lane({});
  const lane_id b = d->device.open_lane({});
  for (cuda::program& p : endless) d->device.load(p);
  d->device.load(good);
  if (!table.fill()) v.say("the driver has no such table");
  const auto from = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < most; ++i) {
    v.need(!d->submit(a, endless[i].host()) && d->finish() && d->failed == i + 1, "it alone fails");
    for (const lane_id lane : {a, b})
      v.need(!d->submit(lane, good.host()) && d->finish() && d->failed == i + 1, "others go on");
  }
  for (const std::size_t bytes : std::array<std::size_t, 3>{1, 100, 4096}) {
    const cuda::set_action set(there, 7);
    const operation op = set.as_operation(bytes);
    const operation* one = &op;
    v.need(!d->submit_loose(b, {&one, 1}) && d->finish() && d->failed == most, "so do sets");
  }
  const char* const why = "a kernel of this process hangs on GPU 0";
  v.need(has(refusal([&] { d->device.load(late); }), why), "load says why not");
  v.need(has(refusal([&] { static_cast<void>(d->device.build(late.host())); }), why), "build too");
  v.need(has(refusal([&] { static_cast<void>(d->device.open_lane({})); }), why), "open_lane too");
  v.need(has(refusal([&] { cuda::device another(o); }), why), "another device too");
  v.need(has(refusal([&] { cuda::program p(graph, {}); }), why), "a program too");
  v.need(d->submit(a, good.host(), 3, 8) == cuda::code_of(cudaErrorLaunchTimeout),
         "a graph that was not built is refused");
  v.need(!d->device.failure() && seconds_since(from) < 8, "none of it waits");
  v.need(!d->submit(a, endless[most].host()) && d->finish() && d->device.failure(),
         "one more ends the device");
  *stop = 1;
  const auto ended = std::chrono::steady_clock::now();
  bool works = false;
  while (!works && seconds_since(ended) < 2)
    works = refusal([&] { cuda::program p(graph, {}); }).empty();
  v.need(works, "once they have ended, programs are made again");
  v.leave();
}

struct words_listener : silent_listener {
  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    ++failures;
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& e) {
      words = e.what();
    }
  }
  std::uint64_t failures = 0;
  std::string words;
};

TEST_CASE("device child: jobs of a device that ends" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program bad = make_faulty("bad");
  cuda::program good = stand_ins("good", 100, kernel_of(66, 128, 20));
  cuda::device device;
  aggregate_accountant account(device.limits().sm, device.limits().sms);
  fifo order;
  words_listener hears;
  dispatcher<fifo, cuda::device, aggregate_accountant, words_listener> d(device, order, account,
                                                                         hears);
  d.load(bad.host());
  d.load(good.host());
  auto run_bad = [&](job_context& ctx) -> task {
    ctx.launch(bad.host());
    co_await ctx.synchronize();
  };
  auto run_good = [&](job_context& ctx) -> task {
    ctx.launch(good.host());
    co_await ctx.synchronize();
  };
  job_request q;
  q.owner = &d.add_client();
  q.model = d.add_model("good", run_good, &good.host());
  const model_id m = d.add_model("bad", run_bad, &bad.host());
  for (int i = 0; i < 20; ++i) static_cast<void>(d.submit(q));
  q.model = m;
  static_cast<void>(d.submit(q));
  q.model = model_id{0};
  for (int i = 0; i < 20; ++i) static_cast<void>(d.submit(q));
  const time_point until = device.now() + from_us(20e6);
  while (!d.idle() && device.now() < until)
    if (!d.step()) device.wait(until);
  v.need(d.idle(), "every job ends");
  v.need(d.statistics().submitted == 41 && d.statistics().ended() == 41, "once");
  v.need(d.statistics().failed >= 1 && hears.failures == d.statistics().failed, "with a reason");
  v.say(hears.words);
  v.need(has(hears.words, "illegal memory access") && has(hears.words, "faulty_kernel"),
         "CUDA's words and the kernel");
  v.leave();
}

/// Allocates all free memory, in blocks of decreasing size.
std::vector<void*> hoard() {
  std::vector<void*> all;
  for (std::size_t bytes = std::size_t{1} << 33; bytes >= 4096; bytes /= 2) {
    void* p = nullptr;
    while (cudaMalloc(&p, bytes) == cudaSuccess) all.push_back(p);
    static_cast<void>(cudaGetLastError());
  }
  return all;
}

TEST_CASE("device child: out of memory" * doctest::skip()) {
  if (gpus_here() == 0) return;
  verdict v;
  cuda::program small = stand_ins("small", 4, kernel_of(66, 128, 20));
  std::deque<cuda::program> many;
  for (int i = 0; i < 12; ++i) many.push_back(stand_ins("many", 300, kernel_of(66, 128, 10)));
  cuda::device_options o;
  o.copies = 8;
  o.grain = std::chrono::microseconds{20};
  driven_cuda d(o);
  const lane_id lane = d.device.open_lane({});
  d.device.load(small);
  v.need(!d.submit(lane, small.host()) && d.finish(), "it works");
  const std::vector<void*> taken = hoard();
  std::string line;
  for (cuda::program& p : many) {
    line = refusal([&] { d.device.load(p); }, errc::out_of_memory);
    if (!line.empty()) break;
  }
  v.say(line.empty() ? "nothing was refused" : line);
  v.need(line.empty() || has(line, "out of memory"), "in CUDA's words");
  for (void* p : taken) v.need(cudaFree(p) == cudaSuccess, "the context lives");
  v.need(!d.device.failure(), "the device lives");
  v.need(!d.submit(lane, small.host()) && d.finish(), "it works on");
  v.need(refusal([&] { d.device.load(many.front()); }).empty(), "and loads what fits now");
  v.need(!d.submit(lane, many.front().host()) && d.finish() && d.failed == 0, "which runs");
  v.leave();
}

TEST_CASE("an illegal access ends the device with CUDA's message, and no job is lost") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: illegal access", 60) == "");
}
TEST_CASE("a kernel that never ends fails only its segment, and is named") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: hung kernel", 60) == "");
}
TEST_CASE("a GPU that runs nothing ends the device") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: a GPU that runs nothing", 60) == "");
}
TEST_CASE("a hung program that waits to run again is refused") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: a hung program that waits to run again", 60) == "");
}
TEST_CASE("kernels hang while making a stream or a graph would wait for them") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: kernels that hang while the driver's table is full", 60) == "");
}
TEST_CASE("work that is starved by more urgent work does not count as hung") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: starved work", 60) == "");
}
TEST_CASE("a device is destroyed although a kernel hangs") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: shutdown while a kernel hangs", 60) == "");
}
TEST_CASE("each job of a failed device ends, with the reason") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: jobs of a device that ends", 60) == "");
}
TEST_CASE("a program without enough memory is refused, and the device continues") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("device child: out of memory", 120) == "");
}

TEST_CASE("a child that fails, hangs or crashes is distinguished from one that passes") {
  CHECK(run_child("a test that does not exist", 30) == "");
  CHECK(run_child("device child: bad verdict", 30) == "exit 2");
  CHECK(run_child("device child: crash", 30).rfind("signal", 0) == 0);
  // On a busy machine it may not even sleep yet.
  CHECK(run_child("device child: endless loop", 1).rfind("it hung for 1 s, state ", 0) == 0);
}
TEST_CASE("device child: bad verdict" * doctest::skip()) {
  verdict v;
  v.need(false, "anything (as it should be)");
  v.leave();
}
TEST_CASE("device child: crash" * doctest::skip()) {
  signal(SIGABRT, SIG_DFL);
  kill(getpid(), SIGKILL);
}
TEST_CASE("device child: endless loop" * doctest::skip()) {
  for (;;) std::this_thread::sleep_for(std::chrono::hours{1});
}

} // namespace
} // namespace gsched::testing
