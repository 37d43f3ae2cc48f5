// SPDX-License-Identifier: Apache-2.0
// Possible triggers of the cliff: the number of launches, their kind, and their streams.

#include "cliff/contexts.hpp"
#include "cliff/experiments.hpp"

#include <gsched/cuda/error.hpp>

#include <algorithm>

namespace cliff {

using gsched::cuda::check;

namespace {

/// The first mark, the trigger, the second.
template <class Trigger>
std::function<void(scene&)> around(Trigger trigger) {
  return [trigger](scene& s) {
    s.mark("before");
    s.dog().step("the trigger", 20);
    trigger(s);
    s.synchronise();
    s.mark("after");
  };
}

/// One launch at a time, with replays in between, until replays have become slower.
void step_until_crossed(scene& s, std::size_t n) {
  s.mark("before");
  const double before = s.marks.front().second.large_us;
  const std::vector<cudaStream_t> on = s.streams(n);
  int launches = 0;
  int slow = 0;
  while (launches < 240 && slow < 2) {
    s.dog().step("stepping", 20);
    s.launch(kernel::same, {on[static_cast<std::size_t>(launches) % n]}, 1);
    ++launches;
    slow = s.graphs().measure(3, 0).large_us > 1.05 * before ? slow + 1 : 0;
  }
  if (slow == 2) s.extras["crossed_at_launch"] = launches - 1;
  s.mark("after");
}

/// Direct launches in a second context: effect on the primary one and on the second.
void cross_second_context(scene& s) {
  s.mark("before");
  in_context(second_context(), [&] {
    float* memory = nullptr;
    check(cudaMalloc(reinterpret_cast<void**>(&memory), 512), "memory");
    for (cudaStream_t on : s.streams(7))
      for (int i = 0; i < 5; ++i) check(launch(kernel::same, memory, on), "kernel launch");
    s.synchronise();
    reference there(s.streams(1).front());
    s.mark("second_context_itself", there);
  });
  s.mark("after");
  std::swap(s.marks[1], s.marks.back());
}

/// The stream of the direct launches was created first, and graphs are replayed on the second.
void graphs_on_second_stream(scene& s) {
  s.graphs().move_to(s.streams(1).front());
  s.mark("before");
  s.launch(kernel::same, {s.main()}, 200);
  s.mark("after");
}

} // namespace

experiment_case count_case(std::size_t streams, int launches) {
  return {"count.s" + std::to_string(streams) + ".l" + std::to_string(launches),
          around([=](scene& s) { s.launch(kernel::same, s.streams(streams), launches); })};
}

void add_controls(cases& to) {
  to.push_back({"control.nothing", around([](scene&) {}), {}, 0, 2});
  to.push_back({"control.crossed", around([](scene& s) { s.cross(); }), {}, 0, 2});
  for (const int n : {1, 50, 1000})
    to.push_back({"first_stream.l" + std::to_string(n),
                  around([n](scene& s) { s.launch(kernel::same, {s.main()}, n); })});
  to.push_back({"streams_unused.64", around([](scene& s) { static_cast<void>(s.streams(64)); })});
  to.push_back({"first_stream.graphs_on_second.l200", graphs_on_second_stream});
  to.push_back({"direct.speed", [](scene& s) {
                  s.mark("before");
                  s.extras["first_stream_us"] = s.direct_us(s.main());
                  s.mark("after_first");
                  s.extras["second_stream_us"] = s.direct_us(s.streams(1).front());
                  s.mark("after_second");
                  s.cross();
                  s.extras["first_stream_crossed_us"] = s.direct_us(s.main());
                  s.extras["second_stream_crossed_us"] = s.direct_us(s.streams(1).front());
                  s.mark("after");
                }});
}

void add_counts(cases& to) {
  for (const unsigned streams : {1U, 2U, 3U, 4U, 6U, 7U, 8U, 12U})
    for (const int launches : {1, 5, 10, 25, 50, 100, 200}) {
      to.push_back(count_case(streams, launches));
      if ((streams == 7 && launches == 1) || (streams == 1 && launches == 50))
        to.back().repeats = 2;
    }
  for (const unsigned n : {1U, 2U, 3U, 4U, 6U, 7U, 8U, 12U})
    to.push_back({"step.s" + std::to_string(n), [n](scene& s) { step_until_crossed(s, n); }});
}

void add_kernels(cases& to) {
  const std::pair<const char*, kernel> kinds[] = {
      {"empty", kernel::empty},     {"other_module", kernel::other_module},
      {"wide", kernel::wide},       {"lasting", kernel::lasting},
      {"local", kernel::local},     {"shared", kernel::shared},
      {"cluster", kernel::cluster}, {"cooperative", kernel::cooperative},
      {"print", kernel::print},     {"allocate", kernel::allocate}};
  for (const auto& [name, kind] : kinds) {
    const std::string start = std::string("kernel.") + name;
    const kernel k = kind;
    to.push_back({start + ".s7.l1", around([k](scene& s) { s.launch(k, s.streams(7), 1); })});
    to.push_back({start + ".s1.l50", around([k](scene& s) { s.launch(k, s.streams(1), 50); })});
    to.push_back(
        {start + ".first_stream.l50", around([k](scene& s) { s.launch(k, {s.main()}, 50); })});
  }
}

void add_streams(cases& to) {
  const auto both = [&](const std::string& name, unsigned flags, int priority) {
    to.push_back({name + ".s7.l2", around([=](scene& s) {
                    s.launch(kernel::same, s.streams(7, flags, priority), 2);
                  })});
    to.push_back({name + ".s1.l100", around([=](scene& s) {
                    s.launch(kernel::same, s.streams(1, flags, priority), 100);
                  })});
  };
  both("stream.blocking", cudaStreamDefault, 0);
  both("stream.highest", cudaStreamNonBlocking, -5);
  both("stream.high", cudaStreamNonBlocking, -1);
  to.push_back({"stream.legacy_default.l200",
                around([](scene& s) { s.launch(kernel::same, {cudaStreamLegacy}, 200); })});
  to.push_back({"stream.per_thread_default.l200",
                around([](scene& s) { s.launch(kernel::same, {cudaStreamPerThread}, 200); })});
  for (const bool wait : {false, true}) {
    const std::string how = wait ? "order.synchronised_each" : "order.back_to_back";
    to.push_back({how + ".s7.l5",
                  around([wait](scene& s) { s.launch(kernel::same, s.streams(7), 5, wait); })});
    to.push_back({how + ".s1.l100",
                  around([wait](scene& s) { s.launch(kernel::same, s.streams(1), 100, wait); })});
  }
  to.push_back({"order.concurrent.s8.l10",
                around([](scene& s) { s.launch(kernel::lasting, s.streams(8), 10); })});
  to.push_back({"order.beside_a_replay.s7.l5", around([](scene& s) {
                  s.graphs().upload();
                  const cudaGraphExec_t other = make_graph(1, 500, s.memory());
                  check(cudaGraphLaunch(other, s.main()), "graph launch");
                  s.launch(kernel::same, s.streams(7), 5);
                })});
  to.push_back({"order.streams_destroyed_each.l100", around([](scene& s) {
                  for (int i = 0; i < 100; ++i) {
                    const cudaStream_t on = s.streams(1).front();
                    s.launch(kernel::same, {on}, 1);
                    check(cudaStreamDestroy(on), "stream");
                  }
                })});
  to.push_back(
      {"green.s7.l2", around([](scene& s) { s.launch(kernel::same, green_streams(7, 8), 2); })});
  to.push_back({"green.s12.l50",
                around([](scene& s) { s.launch(kernel::same, green_streams(12, 8), 50); })});
  to.push_back({"green.all_sms.l100",
                around([](scene& s) { s.launch(kernel::same, green_streams(1, 0), 100); })});
  to.push_back(
      {"green.unused.s12", around([](scene&) { static_cast<void>(green_streams(12, 8)); })});
  to.push_back({"context.second.s7.l5", cross_second_context});
}

} // namespace cliff
