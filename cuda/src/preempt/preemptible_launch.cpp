// SPDX-License-Identifier: Apache-2.0
#include "relaxed_capture.hpp"

#include <gsched/cuda/preempt/preemptible_launch.hpp>

#include "graph/measure/replay.hpp"
#include "graph/preemption_parameter.hpp"
#include "graph/program_node.hpp"
#include "owners.hpp"
#include "preempt/preemption_marker.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

namespace gsched::cuda {

namespace {

struct freed {
  void operator()(std::uint64_t* p) const noexcept { cudaFreeHost(p); }
};

/// The only kernel of a graph.
struct kernel_of_graph {
  program_node node{};
  operation op{};
  preemption_parameter how{};

  kernel_of_graph(CUgraph graph, const std::string& where) {
    std::size_t n = 1;
    check(driver().cuGraphGetNodes(graph, nullptr, &n), where.c_str());
    if (n == 1) {
      check(driver().cuGraphGetNodes(graph, &node.node, &n), where.c_str());
      check(driver().cuGraphNodeGetType(node.node, &node.type), where.c_str());
    }
    if (n != 1 || node.type != CU_GRAPH_NODE_TYPE_KERNEL)
      throw error(errc::bad_graph,
                  where + ": " + std::to_string(n) + " nodes, expected one, a kernel");
    node_facts facts;
    attribute_reader attributes;
    int gpu = 0;
    check(cudaGetDevice(&gpu), where.c_str());
    node.read(where, gpu, attributes, op, facts);
    const auto found = find_preemption(where, node.function, node.arguments,
                                       std::span(node.attributes.data(), node.attribute_count),
                                       op.launch.blocks(), op.launch.cluster_blocks);
    if (!found)
      throw error(errc::bad_graph, where + ": not preemptible, expected a kernel with a preemption "
                                           "parameter, between_blocks() or at_checkpoints()");
    how = *found;
  }

  void set(CUgraphNode in_clone, const preemption& p, const std::string& where) const {
    std::vector<void*> with = node.arguments;
    with[how.argument] = const_cast<preemption*>(&p);
    CUDA_KERNEL_NODE_PARAMS k = node.kernel;
    k.kernelParams = with.data();
    k.extra = nullptr;
    check(driver().cuGraphKernelNodeSetParams(in_clone, &k), where.c_str());
  }
};

} // namespace

tenant::tenant() {
  constexpr const char* what = "flag of a tenant";
  static_cast<void>(driver()); // throws one line where the driver or a function is missing
  const relaxed_capture here;
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), what);
  stream_owner stream = make_stream(what, greatest);
  event_owner written = make_event(what, false);
  device_memory<std::uint32_t> flag = make_device_memory<std::uint32_t>(1, what);
  check(
      driver().cuStreamWriteValue32(stream.get(), reinterpret_cast<CUdeviceptr>(flag.get()), 0, 0),
      what);
  check(cudaStreamSynchronize(stream.get()), what);
  stream_ = stream.release();
  written_ = written.release();
  flag_ = flag.release();
}

tenant::~tenant() {
  cudaStreamSynchronize(stream_);
  cudaFree(flag_);
  cudaEventDestroy(written_);
  cudaStreamDestroy(stream_);
}

std::error_code tenant::preempt() noexcept {
  return code_of(
      driver().cuStreamWriteValue32(stream_, reinterpret_cast<CUdeviceptr>(flag_), 1, 0));
}

std::error_code tenant::let_run(CUstream then) noexcept {
  const CUresult r =
      driver().cuStreamWriteValue32(stream_, reinterpret_cast<CUdeviceptr>(flag_), 0, 0);
  if (r != CUDA_SUCCESS) return code_of(r);
  cudaError_t e = cudaEventRecord(written_, stream_);
  if (e == cudaSuccess) e = cudaStreamWaitEvent(then, written_, 0);
  return code_of(e);
}

struct preemptible_launch::state {
  std::string where;
  std::optional<preemption_slots> slots;
  std::unique_ptr<std::uint64_t, freed> word; ///< [M1], in preemption_marker.cu
  exec_owner whole{};
  exec_owner rest{};
  CUstream last = nullptr;

  [[nodiscard]] exec_owner build(CUgraph graph, const kernel_of_graph& kernel, const tenant& of,
                                 bool resumes) const {
    const driver_functions& cu = driver();
    cudaGraph_t made = nullptr;
    check(cu.cuGraphClone(&made, graph), where.c_str());
    const graph_owner clone(made);
    CUgraphNode node = nullptr;
    check(cu.cuGraphNodeFindInClone(&node, kernel.node.node, made), where.c_str());
    kernel.set(node, slots->fill(kernel.how.captured, 0, of.flag(), resumes), where);
    end_word to;
    void* seen = nullptr;
    check(cudaHostGetDevicePointer(&seen, word.get(), 0), where.c_str());
    to.word = reinterpret_cast<CUdeviceptr>(seen);
    add_preemption_marker(cu, made, marker::publishes, to, *slots, 0, 1, nullptr);
    return instantiate(made);
  }

  std::error_code launch(CUgraphExec exec, CUstream stream) noexcept {
    // release: the store must not be delayed past the launch.
    std::atomic_ref(*word).store(0, std::memory_order_release);
    last = stream;
    return code_of(driver().cuGraphLaunch(exec, stream));
  }
};

preemptible_launch::preemptible_launch(const tenant& of, const std::string& name,
                                       CUgraph one_kernel)
    : state_(std::make_unique<state>()) {
  state& s = *state_;
  s.where = "kernel " + name;
  const kernel_of_graph kernel(one_kernel, s.where);
  const relaxed_capture here;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sync::cache_line, cudaHostAllocMapped), s.where.c_str());
  s.word.reset(static_cast<std::uint64_t*>(memory));
  *s.word = 1;
  const std::uint64_t blocks = kernel.op.launch.blocks();
  s.slots.emplace(std::span(&blocks, 1));
  s.whole = s.build(one_kernel, kernel, of, false);
  s.rest = s.build(one_kernel, kernel, of, true);
}

preemptible_launch::~preemptible_launch() {
  // Waits for the device, because the stream may no longer exist.
  if (state_ != nullptr && poll().what == preemption_end::kind::running) cudaDeviceSynchronize();
}
preemptible_launch::preemptible_launch(preemptible_launch&&) noexcept = default;
preemptible_launch& preemptible_launch::operator=(preemptible_launch&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

std::error_code preemptible_launch::start(CUstream stream) noexcept {
  return state_->launch(state_->whole.get(), stream);
}

std::error_code preemptible_launch::resume(CUstream stream) noexcept {
  return state_->launch(state_->rest.get(), stream);
}

preemption_end preemptible_launch::poll() const noexcept {
  return preemption_end::of(std::atomic_ref(*state_->word).load(std::memory_order_acquire)); // [M1]
}

preemption_end preemptible_launch::wait() const {
  // A query of CUDA takes about as long as a preemption. It only detects failures, so it is rare.
  constexpr std::chrono::milliseconds between{1};
  using clock = std::chrono::steady_clock;
  auto then = clock::now() + between;
  for (unsigned turn = 1;; ++turn) {
    const preemption_end e = poll();
    if (e.what != preemption_end::kind::running) return e;
    if (turn % 64 != 0 || clock::now() < then) continue;
    then = clock::now() + between;
    const cudaError_t now = cudaStreamQuery(state_->last);
    if (now != cudaErrorNotReady) check(now, state_->where.c_str());
    std::this_thread::yield();
  }
}

std::uint64_t preemptible_launch::reset() { return state_->slots->reset(); }

} // namespace gsched::cuda
