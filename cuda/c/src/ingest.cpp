// SPDX-License-Identifier: Apache-2.0
#include "ingest.hpp"
#include "refusal.hpp"
#include "relaxed_capture.hpp"
#include "structs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched::abi {

namespace {

[[nodiscard]] std::shared_ptr<void> pinned(std::uint64_t bytes) {
  const cuda::relaxed_capture here;
  void* p = nullptr;
  cuda::check(cudaHostAlloc(&p, bytes, cudaHostAllocPortable), "pinned memory for a model");
  return {p, [](void* memory) {
            const cuda::relaxed_capture there;
            static_cast<void>(cudaFreeHost(memory));
          }};
}

[[nodiscard]] std::vector<buffer> buffers_of(const gsched_buffer* all, std::uint32_t count) {
  std::vector<buffer> out;
  for (std::uint32_t i = 0; i < count; ++i)
    out.push_back({all[i].device, all[i].bytes, pinned(all[i].bytes)});
  return out;
}

[[nodiscard]] std::vector<duration> given_durations(const gsched_model& m) {
  std::vector<duration> all;
  for (std::uint32_t i = 0; i < m.durations_count; ++i) all.push_back(from_us(m.durations_us[i]));
  return all;
}

[[nodiscard]] std::vector<duration> durations_of(const gsched::program& p) {
  std::vector<duration> all;
  for (const operation& op : p.operations()) all.push_back(op.expected);
  return all;
}

/// Another instance of the same model: the same operations, so that what was learned of one holds
/// for all.
void refuse_other_shape(const gsched::program& first, const gsched::program& other,
                        const std::string& whose) {
  if (first.size() != other.size())
    throw refusal(GSCHED_BAD_GRAPH, whose + ": " + std::to_string(other.size()) +
                                        " operations, expected " + std::to_string(first.size()) +
                                        " as in the first instance");
  for (std::size_t i = 0; i < first.size(); ++i)
    if (first.operations()[i].kind != other.operations()[i].kind)
      throw refusal(GSCHED_BAD_GRAPH, whose + ": operation " + std::to_string(i) +
                                          " is of another kind than in the first instance");
}

/// `like_first`: what to call an instance whose times are those of the first.
[[nodiscard]] std::shared_ptr<cuda::program>
program_of(void* graph, const cuda::program_options& how, const std::string& like_first) {
  try {
    return std::make_shared<cuda::program>(static_cast<CUgraph>(graph), how);
  } catch (const error& e) {
    if (like_first.empty() || e.code() != errc::bad_option) throw;
    throw refusal(GSCHED_BAD_GRAPH, like_first + ": not as the first instance: " + e.what());
  }
}

} // namespace

std::unique_ptr<model> ingest(const gsched_model& what, int gpu) {
  const auto start = std::chrono::steady_clock::now();
  const cuda::current_gpu on(gpu);
  auto m = std::make_unique<model>(what.name, std::vector<model_instance>());
  cuda::program_options how;
  how.name = m->name;
  how.durations = given_durations(what);
  how.measure = what.unmeasured == 0;
  for (std::uint32_t i = 0; i < what.instances_count; ++i) {
    const std::string whose = m->name + ": instance " + std::to_string(i);
    const gsched_instance one = instance_of(what, i);
    model_instance& made = m->instances.emplace_back();
    auto p = program_of(one.graph, how, i == 0 ? std::string() : whose);
    made.program = &p->host();
    if (i == 0) {
      if (p->graph_replay()) m->graph_replay_us = to_us(*p->graph_replay());
      how.durations = durations_of(*made.program);
    } else {
      refuse_other_shape(*m->instances.front().program, *made.program, whose);
    }
    made.keep = std::move(p);
    // After the graph was measured: to free pinned memory waits for a kernel of it that hangs.
    m->buffers.push_back(
        {buffers_of(one.inputs, what.inputs), buffers_of(one.outputs, what.outputs)});
  }
  m->exclusive = what.exclusive != 0;
  m->measure_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return m;
}

} // namespace gsched::abi
