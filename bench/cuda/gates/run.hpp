// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"

#include <gsched/cuda/program.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace gates {

using nlohmann::ordered_json;

struct run_options {
  std::filesystem::path profiles;
  std::vector<std::string> models{"resnet50_b8", "vgg16_b8", "bert_base_b8"};
  std::string real_time = "resnet18_b1";
  std::vector<unsigned> every{1, 2, 4};
  unsigned runs = 60;
  unsigned yields = 1000;
  unsigned requests = 250;
  std::string json;
  int gpu = 0;
};

/// Prints tables progressively.
void run(const run_options& o);

/// The time of a whole graph with and without gates, replayed alternately; microseconds.
[[nodiscard]] ordered_json measure_cost(const std::string& name, const gsched::cuda::program& p,
                                        const run_options& o);
/// The time from yield until the lane has yielded, and from resume until it has resumed, at random
/// instants of a program that always runs.
[[nodiscard]] ordered_json measure_latency(const std::string& name, gsched::cuda::program& p,
                                           const run_options& o);
/// Real-time requests, one after another with pauses, beside a best-effort program.
[[nodiscard]] ordered_json measure_beside(const std::string& name, gsched::cuda::program& work,
                                          gsched::cuda::program& real_time, const run_options& o);

[[nodiscard]] ordered_json summary(const std::vector<double>& us);

} // namespace gates
