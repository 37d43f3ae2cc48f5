// SPDX-License-Identifier: Apache-2.0
#include "common/input/table_options.hpp"

#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/machine_json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

namespace common {

void declare_demands(command_line& line, partition_texts& raw) {
  line.group("Requests");
  line.option("--table", raw.table, "FILE",
              "Latencies by batch and SMs, as CSV:\nmodel,batch,sms,latency_us");
  line.option("--rates", raw.rates, "MODEL=R,...", "Requests a second");
  line.option("--app", raw.apps, "APP=R,...", "The same of apps: game, traffic or a file");
  line.option("--rate-scale", raw.rate_scale, "X", "Multiplies all rates");
  line.option("--slo", raw.slo, "NAME=MS,...",
              "Latency that no request of a model, or app, may exceed");
  line.option("--slo-factor", raw.slo_factor, "X",
              "SLO of models without --slo: times the latency of a batch\nof 32 on all SMs");
}

void declare_gpus(command_line& line, partition_texts& raw, const char* gpus_help) {
  line.group("GPUs");
  line.option("--gpus", raw.gpus, "N", gpus_help);
  line.option("--sms", raw.sms, "N",
              "SMs of a GPU; default, as of --group: what machine.json\nbeside the table says, or, "
              "without it, an H200's");
  line.option("--group", raw.group, "N", "SMs of a group: partitions are of whole groups");
  line.flag(
      "--join-last", raw.join_last,
      "The last group, which has the SMs that are left over, is\nonly in partitions with other "
      "groups: kernels in clusters of\nmore than two blocks need that. A real GPU is always "
      "planned so");
}

void declare_solo(command_line& line, partition_texts& raw) {
  line.option("--solo", raw.solo, "FILE", "L2 and DRAM throughput of each model, for interference");
}

void check_slo_factor(const command_line& line, bool uses_slo_factor) {
  line.refuse_unused(uses_slo_factor, {"--slo-factor"},
                     "where --slo names every model that has a rate", "one of both");
}

using gsched::duration;
using gsched::errc;
using gsched::latency_table;

std::map<std::size_t, double> to_model_numbers(std::string_view option, const std::string& list,
                                               const latency_table& t, const number_range& range) {
  std::map<std::size_t, double> numbers;
  for (const std::string& item : to_list(option, list)) {
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string name = item.substr(0, equals);
    const auto model = t.find(name);
    if (!model)
      refuse(option, "no rows of " + in_quotes(name), "a model of the table", errc::unknown_name);
    if (equals == item.size()) refuse(option, in_quotes(item), "MODEL=NUMBER");
    const double n = to_number(option, item.substr(equals + 1), range);
    if (!numbers.emplace(*model, n).second) refuse(option, name + " twice", "each model once");
  }
  return numbers;
}

std::vector<duration> to_slos(const std::string& slo_factor, const latency_table& t,
                              gsched::sm_count all) {
  constexpr double most_us = 1e12; // so that sums of them stay far from the largest number
  const double factor = to_number("--slo-factor", slo_factor, {0, 1e6, true, "times"});
  std::vector<duration> slos;
  for (std::size_t m = 0; m < t.size(); ++m) {
    const auto of = t.batches(m);
    const auto above = std::upper_bound(of.begin(), of.end(), 32u);
    const std::uint32_t batch = above == of.begin() ? of.front() : *(above - 1);
    const auto sms = std::max(all, t.sizes(m).front());
    const double us = gsched::to_us(t.latency(m, batch, sms)) * factor;
    slos.push_back(std::max(duration{1}, gsched::from_us(std::min(us, most_us))));
  }
  return slos;
}

gsched::gpu_shape to_shape(const partition_texts& raw) {
  const auto count = [](const char* option, const std::string& text, gsched::sm_count usual) {
    return text.empty() ? usual : gsched::sm_count{to_small_count(option, text, 1, 100000)};
  };
  const std::optional<gsched::machine> measured = gsched::machine_of(raw.table);
  const gsched::gpu_shape usual = measured ? measured->shape() : gsched::gpu_shape{};
  gsched::gpu_shape shape{count("--sms", raw.sms, usual.sms),
                          count("--group", raw.group, usual.group)};
  if (shape.group > shape.sms)
    refuse("--group",
           std::to_string(shape.group.count()) + " SMs, of a GPU of " +
               std::to_string(shape.sms.count()),
           "at most as many as --sms");
  if (raw.join_last && (shape.remainder().count() == 0 || shape.groups() == 1))
    refuse("--join-last", "no SMs left over by groups of " + std::to_string(shape.group.count()),
           "a GPU with several groups and such SMs");
  shape.last_alone = !raw.join_last;
  return shape;
}

std::string assumed_shape(const partition_texts& raw, bool has_partitions) {
  const bool sms = raw.sms.empty();
  const bool group = has_partitions && raw.group.empty();
  if ((!sms && !group) || gsched::machine_of(raw.table)) return {};
  const gsched::gpu_shape assumed;
  const std::string what =
      !group ? fmt::format("{} SMs", assumed.sms.count())
      : sms  ? fmt::format("{} SMs in groups of {}", assumed.sms.count(), assumed.group.count())
             : fmt::format("groups of {} SMs", assumed.group.count());
  const char* const options = !group ? "--sms states"
                              : sms  ? "--sms and --group state"
                                     : "--group states";
  return fmt::format("{}: no machine.json beside it, so {} are assumed, as of an H200; {} others",
                     raw.table, what, options);
}

void check_sizes(std::span<const gsched::model_demand> demands, const latency_table& t,
                 gsched::sm_count all) {
  for (const gsched::model_demand& d : demands)
    if (const gsched::sm_count least = t.sizes(d.model).front(); d.rate > 0 && least > all)
      refuse("--sms",
             std::to_string(all.count()) + " SMs, without measurements of " + t.name(d.model),
             std::to_string(least.count()) + " or more");
}

std::filesystem::path to_law_file(std::string_view option, const std::string& text,
                                  const char* expected) {
  const auto ships = shipped("interference") / (text + ".json");
  std::error_code ignored;
  const auto file =
      std::filesystem::exists(ships, ignored) ? ships : to_file(option, text, expected);
  record_input(option, file);
  return file;
}

std::optional<gsched::interference_coefficients> to_law(std::string_view option,
                                                        const std::string& text) {
  if (text == "none") return std::nullopt;
  return gsched::load_coefficients(
      to_law_file(option, text, "none, one that ships, as h200, or a file of coefficients"));
}

} // namespace common
