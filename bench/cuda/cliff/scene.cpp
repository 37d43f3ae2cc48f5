// SPDX-License-Identifier: Apache-2.0
#include "cliff/scene.hpp"

#include <gsched/cuda/error.hpp>

namespace cliff {

using experiment::median;
using experiment::seconds_now;
using gsched::cuda::check;

namespace {

constexpr std::size_t floats = 128;
constexpr std::size_t large_kernels = 700;
constexpr std::size_t small_kernels = 100;

cudaGraphNode_t add(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after, unsigned threads,
                    float* memory) {
  void* arguments[] = {&memory};
  cudaKernelNodeParams how{};
  how.func = const_cast<void*>(graph_kernel());
  how.gridDim = dim3(1);
  how.blockDim = dim3(threads);
  how.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &how), "graph kernel");
  return node;
}

} // namespace

cudaGraphExec_t make_graph(std::size_t width, std::size_t depth, float* memory, unsigned flags) {
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "graph");
  std::vector<cudaGraphNode_t> start;
  if (width > 1) start.push_back(add(graph, {}, 32, memory));
  std::vector<cudaGraphNode_t> ends;
  for (std::size_t w = 0; w < width; ++w) {
    std::vector<cudaGraphNode_t> last = start;
    for (std::size_t d = 0; d < depth; ++d)
      last = {add(graph, last, static_cast<unsigned>(32 * (1 + d % 4)), memory)};
    ends.push_back(last.front());
  }
  if (width > 1) add(graph, ends, 32, memory);
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph, flags), "graph instantiation");
  check(cudaGraphDestroy(graph), "graph");
  return ready;
}

reference::reference(cudaStream_t stream, std::size_t width, unsigned flags)
    : stream_(stream), width_(width), flags_(flags) {
  check(cudaMalloc(reinterpret_cast<void**>(&memory_), floats * sizeof(float)), "memory");
  check(cudaEventCreate(&before_), "event");
  check(cudaEventCreate(&after_), "event");
  instantiate();
}

void reference::instantiate() {
  large_ = make_graph(width_, large_kernels / width_, memory_, flags_);
  small_ = make_graph(width_, small_kernels / width_, memory_, flags_);
}

void reference::upload() {
  check(cudaGraphUpload(large_, stream_), "graph upload");
  check(cudaGraphUpload(small_, stream_), "graph upload");
  check(cudaStreamSynchronize(stream_), "graph upload");
}

double reference::once(cudaGraphExec_t graph) {
  check(cudaEventRecord(before_, stream_), "event");
  check(cudaGraphLaunch(graph, stream_), "graph launch");
  check(cudaEventRecord(after_, stream_), "event");
  check(cudaStreamSynchronize(stream_), "graph replay");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, before_, after_), "event");
  return 1e3 * static_cast<double>(ms);
}

figures reference::measure(int runs, int warm) {
  for (int i = 0; i < warm; ++i) static_cast<void>(once(large_));
  std::vector<double> large, small, wall;
  for (int i = 0; i < runs; ++i) {
    large.push_back(once(large_));
    small.push_back(once(small_));
    const double start = seconds_now();
    check(cudaGraphLaunch(large_, stream_), "graph launch");
    check(cudaStreamSynchronize(stream_), "graph replay");
    wall.push_back(1e6 * (seconds_now() - start));
  }
  return {median(large), median(small), median(wall)};
}

scene::scene(experiment::watchdog& dog) : dog_(dog) { make(); }

void scene::make() {
  check(cudaStreamCreateWithFlags(&main_, cudaStreamNonBlocking), "stream");
  check(cudaMalloc(reinterpret_cast<void**>(&memory_), floats * sizeof(float)), "memory");
  reference_ = new reference(main_); // never freed, like everything in a scene
}

void scene::mark(const std::string& label) { mark(label, *reference_); }

void scene::mark(const std::string& label, reference& what) {
  dog_.step("replay (" + label + ")", 20);
  marks.emplace_back(label, what.measure(30, marks.empty() ? 60 : 20)); // clocks rise at first
}

std::vector<cudaStream_t> scene::streams(std::size_t n, unsigned flags, int priority) {
  std::vector<cudaStream_t> made(n);
  for (cudaStream_t& s : made) check(cudaStreamCreateWithPriority(&s, flags, priority), "stream");
  return made;
}

void scene::launch(kernel which, const std::vector<cudaStream_t>& on, int each, bool wait_each) {
  for (int i = 0; i < each; ++i)
    for (cudaStream_t s : on) {
      check(cliff::launch(which, memory_, s), "kernel launch");
      if (wait_each) check(cudaStreamSynchronize(s), "kernel");
    }
  synchronise();
}

std::vector<cudaStream_t> scene::cross() {
  std::vector<cudaStream_t> used = streams(8);
  launch(kernel::same, used, 50);
  return used;
}

void scene::synchronise() { check(cudaDeviceSynchronize(), "device"); }

double scene::direct_us(cudaStream_t on) {
  constexpr int kernels = 200;
  cudaEvent_t before = nullptr;
  cudaEvent_t after = nullptr;
  check(cudaEventCreate(&before), "event");
  check(cudaEventCreate(&after), "event");
  std::vector<double> each;
  for (int run = 0; run < 15; ++run) {
    // The GPU is busy until everything is submitted, so the host's time is not included.
    for (int i = 0; i < 20; ++i)
      check(cliff::launch(kernel::lasting, memory_, on), "kernel launch");
    check(cudaEventRecord(before, on), "event");
    for (int i = 0; i < kernels; ++i)
      check(cliff::launch(kernel::same, memory_, on), "kernel launch");
    check(cudaEventRecord(after, on), "event");
    check(cudaStreamSynchronize(on), "kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, before, after), "event");
    each.push_back(1e3 * static_cast<double>(ms) / kernels);
  }
  check(cudaEventDestroy(before), "event");
  check(cudaEventDestroy(after), "event");
  return median(each);
}

void scene::reset_device() {
  dog_.step("cudaDeviceReset", 20);
  check(cudaDeviceReset(), "cudaDeviceReset");
  make();
}

} // namespace cliff
