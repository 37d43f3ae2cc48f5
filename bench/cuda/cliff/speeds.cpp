// SPDX-License-Identifier: Apache-2.0
// How much slower replays become; and the initial replay time, which differs between processes.

#include "cliff/contexts.hpp"
#include "cliff/experiments.hpp"
#include "cliff/sequence.hpp"

namespace cliff {

using gsched::cuda::check;

namespace {

void cross_here(scene& s) {
  play(s, "8AB");
  s.synchronise();
}

/// The second mark is the time of `how` after the crossing, the first before.
experiment_case graphs_of(const std::string& name, std::size_t width, unsigned flags) {
  return {"speed." + name, [=](scene& s) {
            reference other(s.main(), width, flags);
            if (flags != 0) other.upload();
            s.mark("before", other);
            cross_here(s);
            s.mark("after", other);
          }};
}

void direct(scene& s) {
  s.mark("before");
  s.extras["direct_us"] = s.direct_us(s.main());
  s.mark("after_direct");
  play(s, "15M_1A"); // with those above, on two streams
  cross_here(s);
  s.extras["direct_crossed_us"] = s.direct_us(s.main());
  s.mark("after");
  std::swap(s.marks[1], s.marks[2]);
}

/// Crosses in the primary context, then creates a second one, whose graphs are measured throughout.
void second(scene& s) {
  s.mark("before");
  const CUcontext context = second_context();
  reference* there = nullptr;
  const auto mark = [&](const std::string& label) {
    in_context(context, [&] { s.mark(label, *there); });
  };
  in_context(context, [&] { there = new reference(s.streams(1).front()); });
  mark("second_fresh");
  cross_here(s);
  s.mark("after");
  mark("second_beside_crossed_primary");
  in_context(context, [&] {
    float* memory = nullptr;
    check(cudaMalloc(reinterpret_cast<void**>(&memory), 512), "memory");
    const std::vector<cudaStream_t> on = s.streams(2);
    for (int i = 0; i < 8; ++i)
      for (const cudaStream_t stream : on) check(launch(kernel::same, memory, stream), "launch");
    s.synchronise();
  });
  mark("second_crossed");
  std::swap(s.marks[1], s.marks[2]);
}

/// Graphs in a second context that is created only after the primary one has crossed.
void second_made_late(scene& s) {
  s.mark("before");
  cross_here(s);
  s.mark("after");
  in_context(second_context(), [&] {
    reference there(s.streams(1).front());
    s.mark("in_second_context", there);
  });
}

/// Differences from here on are not the cliff.
void mark_twice(scene& s) {
  s.mark("before");
  s.mark("after");
}

void resets(scene& s) {
  mark_twice(s);
  for (int i = 1; i <= 6; ++i) {
    s.reset_device();
    s.mark("reset_" + std::to_string(i));
  }
}

void contexts(scene& s) {
  mark_twice(s);
  for (int i = 1; i <= 6; ++i)
    in_context(second_context(), [&] {
      reference there(s.streams(1).front());
      s.mark("context_" + std::to_string(i), there);
    });
}

/// Allocates device memory before a context loads any code, so that the code is at other addresses.
void memory_first(scene& s, std::size_t mib) {
  mark_twice(s);
  check(cudaDeviceReset(), "cudaDeviceReset");
  void* taken = nullptr;
  check(cudaMalloc(&taken, mib << 20), "memory");
  // The reset invalidated the scene's handles: uses its own reference and stream.
  reference other(s.streams(1).front());
  s.mark("moved", other);
}

} // namespace

void add_speeds(cases& to) {
  to.push_back(graphs_of("one_chain", 1, 0));
  for (const unsigned width : {2U, 4U, 10U})
    to.push_back(graphs_of("fork" + std::to_string(width), width, 0));
  to.push_back(graphs_of("device_launch_flag", 1, cudaGraphInstantiateFlagDeviceLaunch));
  to.push_back(graphs_of("node_priority_flag", 1, cudaGraphInstantiateFlagUseNodePriority));
  to.push_back({"speed.direct", direct});
  to.push_back({"cure.second_context", second});
  to.push_back({"cure.second_context_made_late", second_made_late});
}

void add_bases(cases& to) {
  for (int i = 0; i < 10; ++i) to.push_back({"base.process" + std::to_string(i), mark_twice});
  to.push_back({"base.resets", resets});
  to.push_back({"base.contexts", contexts});
  for (const unsigned mib : {1U, 2U, 16U, 64U})
    to.push_back({"base.memory_first." + std::to_string(mib) + "MiB",
                  [mib](scene& s) { memory_first(s, mib); }});
  for (int i = 0; i < 3; ++i)
    to.push_back(
        {"base.eager" + std::to_string(i), mark_twice, {{"CUDA_MODULE_LOADING", "EAGER"}}});
}

} // namespace cliff
