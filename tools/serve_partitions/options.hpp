// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/device_option.hpp"
#include "common/cli/output_options.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/measured_files.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/shared_sm_slowdowns.hpp>
#include <gsched/serving/plan_service_options.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve_partitions {

/// In place of a planner, without partitions and plans. whole: a GPU runs one batch at a time.
/// streams: each model has a stream on all SMs of each GPU. priorities: that, and the model with
/// the shortest SLO has the most urgent stream.
inline constexpr std::string_view whole_gpu = "whole", streams = "streams",
                                  priorities = "priorities";
[[nodiscard]] constexpr bool has_streams(std::string_view planner) noexcept {
  return planner == streams || planner == priorities;
}
[[nodiscard]] constexpr bool has_plans(std::string_view planner) noexcept {
  return planner != whole_gpu && !has_streams(planner);
}

/// The options, read and checked.
struct options : common::outputs {
  std::string table_name, planner;
  common::device_choice device; ///< a real GPU, the first of them; else simulated ones
  std::optional<gsched::latency_table> table; ///< set: what plans are made with
  std::string assumed; ///< of the GPUs, one line; empty where their sizes are known
  std::optional<gsched::latency_table> as_measured; ///< the same without time added to batches
  std::vector<double> true_slowdown;  ///< by model: batches take so many times the table's time
  std::vector<gsched::duration> slos; ///< by model
  std::vector<gsched::gpu_shape> gpus;
  std::vector<std::uint32_t> batches; ///< sizes with graphs; empty: all
  std::vector<gsched::offered_app> apps;
  gsched::solo_table solo, true_solo; ///< of plans, and of simulated batches
  std::optional<gsched::interference_coefficients> truth, planned; ///< none: no interference
  /// With --share-sms: what truth and plans have for models on the same SMs; else null.
  std::shared_ptr<const gsched::shared_sm_slowdowns> shared_truth, shared_planned;
  double shared_error = 1; ///< simulated slow-downs there are so many times those of `truth`
  gsched::plan_service_options service;
  gsched::duration prepare{}; ///< simulated: time to make the partitions of a plan
  gsched::rate_error error;
  bool uses_slo_factor = true; ///< false: --slo names all that has a rate
  bool carries_data = false;   ///< requests, on a real GPU with graphs that tell their memory
  gsched::duration added{};    ///< to each batch of `table`
  bool max_rates = false;      ///< call scale_to_most first
  std::string only;            ///< the model or app that is served; empty: all
  std::uint64_t seed = 1;
  bool learns = false; ///< interference, from batch times
  std::string solo_file;
  std::vector<gsched::measured_file> measured; ///< what is read; the table only if not `assumed`
  std::filesystem::path batch_log;             ///< for a row of each batch; empty: none
  std::filesystem::path learned; ///< for the metrics with the factors learned; empty: none
};

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

} // namespace serve_partitions
