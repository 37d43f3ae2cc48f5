// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace common {

/// Options of the programs that plan partitions, as typed: the table of latencies, the requests
/// and their SLOs, and the GPUs.
struct partition_texts {
  std::string table = shipped("latency_batch_partition.csv").string(),
              solo = shipped("solo_metrics.csv").string(), rates, apps, rate_scale = "1", slo,
              slo_factor = "2", gpus, sms, group;
  bool join_last = false;
};
/// --table, --rates, --app, --rate-scale, --slo and --slo-factor.
void declare_demands(command_line& line, partition_texts& raw);
/// --gpus, --sms, --group and --join-last.
void declare_gpus(command_line& line, partition_texts& raw, const char* gpus_help);
/// --solo.
void declare_solo(command_line& line, partition_texts& raw);
/// Refuses --slo-factor where --slo names all models.
void check_slo_factor(const command_line& line, bool uses_slo_factor);

/// MODEL=NUMBER,... of models in the table.
/// Errors   as in values.hpp.
[[nodiscard]] std::map<std::size_t, double> to_model_numbers(std::string_view option,
                                                             const std::string& list,
                                                             const gsched::latency_table& t,
                                                             const number_range& range);

/// SLOs by model of the table: --slo-factor times what the largest batch, at most 32, takes on all
/// SMs.
[[nodiscard]] std::vector<gsched::duration>
to_slos(const std::string& slo_factor, const gsched::latency_table& t, gsched::sm_count all);

/// Refuses models whose measurements are all on more SMs than a GPU has.
void check_sizes(std::span<const gsched::model_demand> demands, const gsched::latency_table& t,
                 gsched::sm_count all);

/// A GPU of --sms in groups of --group. What is not given is that of the GPU on which the table was
/// measured, by machine.json beside it; without that file, of an H200.
/// Errors   as in values.hpp; those of gsched::load_machine.
[[nodiscard]] gsched::gpu_shape to_shape(const partition_texts& raw);

/// One line that names the table, and which sizes of an H200 to_shape takes for it, as no
/// machine.json is beside it and no option states them. Empty if there are none. Groups matter only
/// to partitions.
[[nodiscard]] std::string assumed_shape(const partition_texts& raw, bool has_partitions = true);

/// The file of a law: one that ships, by its name, or another one. Records it as an input.
/// `expected` is of the error where there is no such file.
[[nodiscard]] std::filesystem::path
to_law_file(std::string_view option, const std::string& text,
            const char* expected = "one that ships, as h200, or a file of coefficients");

/// The coefficients of a file, or of one that ships, by its name; none for "none".
[[nodiscard]] std::optional<gsched::interference_coefficients> to_law(std::string_view option,
                                                                      const std::string& text);

} // namespace common
