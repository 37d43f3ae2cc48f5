// SPDX-License-Identifier: Apache-2.0
// The environment, the device's flags, and other processes on the GPU.

#include "cliff/experiments.hpp"
#include "process.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <cstdio>
#include <memory>

namespace cliff {

using gsched::cuda::check;

namespace {

void weak(scene& s) {
  s.mark("before");
  s.launch(kernel::same, s.streams(7), 2);
  s.mark("after");
}

void strong(scene& s) {
  s.mark("before");
  s.cross();
  s.mark("after");
}

std::unique_ptr<experiment::process> helper(const std::string& kind) {
  auto child = std::make_unique<experiment::process>(
      std::vector<std::string>{this_program().path, "--helper", kind, "--gpu",
                               std::to_string(this_program().gpu)},
      experiment::process::variables{});
  std::string line;
  if (!child->read(line, 10, true))
    throw gsched::error(gsched::errc::device_failed,
                        "helper process " + kind + ": no answer, expected one");
  return child;
}

/// This process does not cross while another one is in that state, and after it has ended.
experiment_case beside(const std::string& kind) {
  return {"process.beside_" + kind, [kind](scene& s) {
            s.mark("before");
            const auto other = helper(kind);
            s.mark("after");
            other->close_input();
            other->wait(5);
            s.mark("other_ended");
            s.cross();
            s.mark("crossed_itself");
          }};
}

/// This process has crossed; another one creates a context, optionally works, and ends.
experiment_case other_process(const std::string& kind) {
  return {"cure.other_process_" + kind, [kind](scene& s) {
            s.mark("before");
            s.cross();
            s.mark("after");
            const auto other = helper(kind);
            s.mark("beside_other");
            s.cross();
            s.mark("crossed_again");
            other->close_input();
            other->wait(5);
            s.mark("other_ended");
          }};
}

} // namespace

int run_helper(const std::string& kind, int gpu) {
  check(cudaSetDevice(gpu), "GPU");
  experiment::watchdog dog("gsched.gpu.cliff --helper " + kind);
  dog.step("helper", 25);
  scene s(dog);
  s.graphs().upload();
  if (kind == "crossed") s.cross();
  if (kind == "streams")
    for (const cudaStream_t on : s.streams(64)) {
      s.graphs().move_to(on);
      static_cast<void>(s.graphs().measure(1, 0));
    }
  s.synchronise();
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

self& this_program() {
  static self it;
  return it;
}

void add_surroundings(cases& to) {
  const auto with = [&](const std::string& name, const std::string& value) {
    to.push_back({"env." + name + "=" + value + ".weak", weak, {{name, value}}});
    to.push_back({"env." + name + "=" + value + ".strong", strong, {{name, value}}});
  };
  for (const char* n : {"1", "2", "4", "8", "16", "32"}) with("CUDA_DEVICE_MAX_CONNECTIONS", n);
  with("CUDA_MODULE_LOADING", "EAGER");
  with("CUDA_MODULE_LOADING", "LAZY");
  for (const char* scale : {"0.25x", "4x"}) with("CUDA_SCALE_LAUNCH_QUEUES", scale);
  with("CUDA_LAUNCH_BLOCKING", "1");
  with("CUDA_FORCE_PTX_JIT", "1");
  with("CUDA_DISABLE_PERF_BOOST", "1");
  const std::pair<const char*, unsigned> flags[] = {
      {"spin", cudaDeviceScheduleSpin},
      {"yield", cudaDeviceScheduleYield},
      {"blocking", cudaDeviceScheduleBlockingSync},
      {"local_memory_kept", cudaDeviceLmemResizeToMax},
      {"sync_memops", cudaDeviceSyncMemops}};
  for (const auto& [name, flag] : flags) {
    to.push_back({std::string("flags.") + name + ".weak", weak, {}, flag});
    to.push_back({std::string("flags.") + name + ".strong", strong, {}, flag});
  }
  for (const char* kind : {"context", "crossed", "streams"}) to.push_back(beside(kind));
  for (const char* kind : {"context", "crossed", "streams"}) to.push_back(other_process(kind));
  to.push_back({"process.after_a_warm_up", [](scene& s) {
                  {
                    const auto other = helper("crossed");
                    other->close_input();
                    other->wait(5);
                  }
                  s.mark("before");
                  s.launch(kernel::same, s.streams(7), 5);
                  s.mark("after");
                }});
}

} // namespace cliff
