// SPDX-License-Identifier: Apache-2.0
#include "padding/timeline.hpp"

#include "padding/owned.hpp"

#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace padding {

namespace {

void check(cudaError_t e) { gsched::cuda::check(e, "padding: timeline"); }

using owned_exec = owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using owned_event = owned<cudaEvent_t, cudaEventDestroy>;

owned_exec instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  return owned_exec(exec);
}

owned_event make_event() {
  cudaEvent_t made = nullptr;
  check(cudaEventCreate(&made));
  return owned_event(made);
}

double trimmed_mean(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const auto cut = static_cast<std::ptrdiff_t>(v.size() / 5);
  const auto n = static_cast<double>(v.size()) - 2 * static_cast<double>(cut);
  return std::accumulate(v.begin() + cut, v.end() - cut, 0.0) / n;
}

} // namespace

timeline::timeline() {
  void* made = nullptr;
  check(cudaMalloc(&made, most * sizeof(stamps)));
  device_ = static_cast<stamps*>(made);
  check(cudaHostAlloc(&made, most * sizeof(stamps), cudaHostAllocDefault));
  host_ = static_cast<stamps*>(made);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

timeline::~timeline() {
  cudaStreamDestroy(stream_);
  cudaFree(device_);
  cudaFreeHost(host_);
}

std::vector<figures> timeline::run(std::span<const adder> kernels, unsigned rounds,
                                   unsigned seed) const {
  constexpr unsigned warm = 2;
  const std::size_t n = kernels.size();
  const std::size_t all = n * (rounds + warm) + 1; // the last kernel ends the one before it
  if (all > most)
    throw gsched::error(gsched::errc::bad_option, "padding: " + std::to_string(all) +
                                                      " kernels in a timeline, expected at most " +
                                                      std::to_string(most));
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0));
  const owned_graph graph(made);
  cudaMemsetParams zero{};
  zero.dst = device_;
  zero.elementSize = 4;
  zero.width = all * sizeof(stamps) / 4;
  zero.height = 1;
  cudaGraphNode_t before = nullptr;
  check(cudaGraphAddMemsetNode(&before, made, nullptr, 0, &zero));
  std::mt19937 random(seed);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::size_t> ran;
  while (ran.size() < all) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t k : order) {
      if (ran.size() == all) break;
      before = kernels[k](made, {&before, 1}, device_ + ran.size());
      ran.push_back(k);
    }
  }
  const owned_exec exec = instantiate(made);
  check(cudaGraphLaunch(exec.get(), stream_));
  check(cudaMemcpyAsync(host_, device_, all * sizeof(stamps), cudaMemcpyDeviceToHost, stream_));
  check(cudaStreamSynchronize(stream_));

  std::vector<std::vector<double>> part(n), whole(n);
  for (std::size_t i = warm * n; i + 1 < all; ++i) {
    part[ran[i]].push_back(1e-3 * static_cast<double>(host_[i].end - host_[i].start));
    whole[ran[i]].push_back(1e-3 * static_cast<double>(host_[i + 1].start - host_[i].start));
  }
  std::vector<figures> out;
  for (std::size_t k = 0; k < n; ++k)
    out.push_back({trimmed_mean(part[k]), trimmed_mean(whole[k])});
  return out;
}

std::vector<double> time_in_turn(std::span<const cudaGraph_t> graphs, unsigned rounds,
                                 cudaStream_t stream) {
  std::vector<owned_exec> execs;
  for (const cudaGraph_t g : graphs) execs.push_back(instantiate(g));
  const owned_event from = make_event(), to = make_event();
  std::vector<std::vector<double>> us(graphs.size());
  constexpr unsigned warm = 2;
  for (unsigned r = 0; r < rounds + warm; ++r)
    for (std::size_t i = 0; i < execs.size(); ++i) {
      check(cudaGraphLaunch(execs[i].get(), stream)); // the host is ahead of the measured work
      check(cudaEventRecord(from.get(), stream));
      check(cudaGraphLaunch(execs[i].get(), stream));
      check(cudaEventRecord(to.get(), stream));
      check(cudaStreamSynchronize(stream));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, from.get(), to.get()));
      if (r >= warm) us[i].push_back(1e3 * static_cast<double>(ms));
    }
  std::vector<double> medians;
  for (const std::vector<double>& v : us) medians.push_back(experiment::median(v));
  return medians;
}

} // namespace padding
