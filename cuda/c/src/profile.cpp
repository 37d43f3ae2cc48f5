// SPDX-License-Identifier: Apache-2.0
#include "profile.hpp"
#include "refusal.hpp"
#include "relaxed_capture.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/profiling.hpp>
#include <gsched/io/profile_json.hpp>

#include <filesystem>

namespace gsched::abi {

void write_profile_of(void* graph, const gsched_profile_options& how, const char* path) {
  if (graph == nullptr) throw refusal(GSCHED_BAD_ARGUMENT, "graph: NULL");
  if (path == nullptr || *path == '\0') throw refusal(GSCHED_BAD_ARGUMENT, "path: expected one");
  if (how.model == nullptr) throw refusal(GSCHED_BAD_ARGUMENT, "model: NULL, expected a name");
  if (how.batch == 0) throw refusal(GSCHED_BAD_ARGUMENT, "batch: 0, expected at least 1");
  if (how.runs > 1000) throw refusal(GSCHED_BAD_ARGUMENT, "runs: expected at most 1000");
  cuda::profiling_options o;
  o.model = how.model;
  o.batch = how.batch;
  o.dtype = how.dtype != nullptr ? how.dtype : "fp32";
  o.input = byte_count{how.input_bytes};
  o.output = byte_count{how.output_bytes};
  if (how.runs > 0) o.replays = static_cast<int>(how.runs);
  static_cast<void>(cuda::find_gpu(how.gpu));
  const cuda::current_gpu on(how.gpu);
  const cuda::relaxed_capture apart;
  write_profile(std::filesystem::path(path), cuda::profile_graph(static_cast<CUgraph>(graph), o));
}

} // namespace gsched::abi
