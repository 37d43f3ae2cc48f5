// SPDX-License-Identifier: Apache-2.0
// Operations that might restore a process, and operations that might prevent the crossing.

#include "cliff/contexts.hpp"
#include "cliff/experiments.hpp"

#include <gsched/cuda/error.hpp>

#include <cstddef>

namespace cliff {

using gsched::cuda::check;

namespace {

void pause(scene& s, double seconds) {
  s.dog().step("idle", seconds + 10);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// One after another in one process; each is marked.
void gentle_cures(scene& s) {
  s.mark("before");
  const std::vector<cudaStream_t> used = s.cross();
  s.mark("after");
  for (const cudaStream_t stream : used) check(cudaStreamDestroy(stream), "stream");
  s.synchronise();
  s.mark("streams_destroyed");
  s.graphs().upload();
  s.mark("upload");
  s.graphs().instantiate();
  s.mark("instantiated_again");
  const cudaStream_t first = s.graphs().stream();
  s.graphs().move_to(s.streams(1).front());
  s.mark("new_stream");
  s.graphs().move_to(s.streams(1, cudaStreamNonBlocking, -5).front());
  s.mark("new_stream_highest");
  s.graphs().move_to(cudaStreamLegacy);
  s.mark("legacy_stream");
  s.graphs().move_to(first);
  check(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
  s.mark("reset_l2");
  s.launch(kernel::same, {first}, 1000);
  s.mark("launches_on_first");
}

void limit_cures(scene& s) {
  s.mark("before");
  s.cross();
  s.mark("after");
  check(cudaDeviceSetLimit(cudaLimitStackSize, 4096), "cudaDeviceSetLimit");
  s.mark("stack_limit_up");
  check(cudaDeviceSetLimit(cudaLimitStackSize, 1024), "cudaDeviceSetLimit");
  s.mark("stack_limit_down");
  check(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0), "cudaDeviceSetLimit");
  s.mark("persisting_l2_limit");
  check(cudaDeviceGraphMemTrim(this_program().gpu), "cudaDeviceGraphMemTrim");
  s.mark("graph_memory_trim");
  s.launch(kernel::cooperative, {s.main()}, 10);
  s.mark("cooperative_launch");
  s.launch(kernel::local, {s.main()}, 1);
  s.mark("local_memory_resize");
}

void reset_cure(scene& s) {
  s.mark("before");
  s.cross();
  s.mark("after");
  s.reset_device();
  s.mark("cudaDeviceReset");
  s.cross();
  s.mark("crossed_again");
}

void green_cure(scene& s) {
  s.mark("before");
  reference green(green_streams(1, 64).front());
  s.mark("green_before", green);
  s.cross();
  s.mark("after");
  s.mark("green_after", green);
  reference later(green_streams(1, 64).front());
  s.mark("green_made_after", later);
  std::swap(s.marks[1], s.marks[2]);
}

void graph_first(scene& s) {
  const std::vector<cudaStream_t> on = s.streams(12); // before the first stream is used
  s.launch(kernel::same, on, 50);
  s.mark("after");
  s.reset_device();
  s.mark("cudaDeviceReset");
}

/// Streams whose queues graphs have already used.
void graphs_on_streams_first(scene& s) {
  s.mark("before");
  const std::vector<cudaStream_t> on = s.streams(8);
  const cudaGraphExec_t one = make_graph(1, 10, s.memory());
  for (int i = 0; i < 20; ++i)
    for (const cudaStream_t stream : on) check(cudaGraphLaunch(one, stream), "graph launch");
  s.synchronise();
  s.launch(kernel::same, on, 50);
  s.mark("after");
}

/// Single launches as graphs of one kernel: an option for a framework.
void one_kernel_graphs_instead(scene& s) {
  s.mark("before");
  const std::vector<cudaStream_t> on = s.streams(8);
  std::vector<cudaGraphExec_t> one;
  for (std::size_t i = 0; i < on.size(); ++i) one.push_back(make_graph(1, 1, s.memory()));
  for (int i = 0; i < 500; ++i)
    for (std::size_t k = 0; k < on.size(); ++k) check(cudaGraphLaunch(one[k], on[k]), "launch");
  s.synchronise();
  s.mark("after");
}

} // namespace

void add_cures(cases& to) {
  to.push_back({"cure.gentle", gentle_cures, {}, 0, 2});
  to.push_back({"cure.limits", limit_cures});
  to.push_back({"cure.reset", reset_cure, {}, 0, 2});
  to.push_back({"cure.green", green_cure});
  to.push_back({"cure.idle_1s", [](scene& s) {
                  s.mark("before");
                  s.cross();
                  s.mark("after");
                  pause(s, 1);
                  s.mark("idle_1s");
                }});
  to.push_back({"avoid.launches_before_any_graph", graph_first, {}, 0, 2});
  to.push_back({"avoid.graphs_on_streams_first", graphs_on_streams_first});
  to.push_back({"avoid.graphs_of_one_kernel.s8.l500", one_kernel_graphs_instead});
  to.push_back({"cure.idle_5s", [](scene& s) {
                  s.mark("before");
                  s.cross();
                  s.mark("after");
                  pause(s, 5);
                  s.mark("idle_5s");
                }});
}

} // namespace cliff
