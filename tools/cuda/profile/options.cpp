// SPDX-License-Identifier: Apache-2.0
#include "profile/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/cuda/built_in_graphs.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/profile_json.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace profile_example {

namespace {

constexpr const char* details =
    R"(A profile lists the operations of a captured CUDA graph and the time of each of them alone. gsched
runs profiles on a simulated GPU, or with stand-in kernels on a real one.

Examples
  profile --graph sort
      the library's sort and sum of a million keys, to the screen
  profile --graph saxpy --elements 4194304 --partitions 8,16,32,64 --out saxpy.json
      a chain of kernels between two copies, also on partitions of the GPU
  profile --replay tools/data/profiles/resnet18_b1.json --out replayed.json
      stand-ins of a model's kernels, to compare with the model itself

Exit code: 0; 1 for a failure, a missing GPU among them; 2 for a usage or input error; 3 where the
GPU did not answer within --limit.)";

} // namespace

std::optional<options> parse(int argc, const char* const* argv) {
  options o;
  bool no_cupti = false;
  std::string limit = "120", sizes, elements = std::to_string(o.elements), replay, out,
              replays = std::to_string(o.how.replays), batch = std::to_string(o.how.batch);
  common::command_line line(
      "profile", "Writes the profile of a captured graph, measured on the GPU.", details);
  line.option("--graph", o.graph, "NAME", "saxpy, sort or ticks; default: saxpy");
  line.option("--replay", replay, "FILE", "In place of --graph: a profile's stand-ins");
  line.option("--elements", elements, "N", "Of the built-in graphs' data");
  common::device_option device({.simulated = false, .preset = false});
  device.declare(line, false, "cuda:0");
  line.option("--replays", replays, "N", "Each time is the median of that many");
  line.option("--partitions", sizes, "N,...", "Also measure on green contexts of that many SMs");
  line.option("--model", o.how.model, "NAME", "The profile's model; default: the graph or file");
  line.option("--batch", batch, "N", "The profile's batch");
  line.flag("--no-cupti", no_cupti, "Measure without the toolkit's profiling interface");
  line.option("--cupti", o.how.cupti_library, "PATH", "The library's file");
  line.flag("--busy", o.busy, "Measure although the GPU seems to be in use");
  line.option("-o,--out", out, "FILE", "Default: the screen");
  line.option("--limit", limit, "S", "Seconds after which the GPU counts as hung");
  if (!line.parse(argc, argv)) return std::nullopt;
  o.replay = replay;
  o.out = out;
  common::device_choice chosen;
  device.read(chosen);
  o.gpu = chosen.gpu.value_or(0);
  o.elements = common::to_count("--elements", elements, 1, std::size_t{1} << 30);
  o.how.replays =
      static_cast<decltype(o.how.replays)>(common::to_count("--replays", replays, 1, 1000));
  o.how.batch = static_cast<std::uint32_t>(common::to_count("--batch", batch, 1, 1u << 20));
  if (o.graph.empty() && o.replay.empty()) o.graph = "saxpy";
  if (!o.graph.empty() && !o.replay.empty())
    common::refuse("--replay", "given beside --graph", "one of the two");
  const auto& known = common::built_in_names();
  if (!o.graph.empty() && std::find(known.begin(), known.end(), o.graph) == known.end())
    common::refuse("--graph", "unknown graph " + common::in_quotes(o.graph), "saxpy, sort or ticks",
                   gsched::errc::unknown_name);
  line.refuse_unused(o.replay.empty(), {"--elements"}, "beside --replay", "one of both");
  std::vector<std::uint32_t> partitions;
  if (!sizes.empty()) partitions = common::to_counts("--partitions", sizes, 1, 4096);
  if (no_cupti && (!partitions.empty() || !o.how.cupti_library.empty()))
    common::refuse("--no-cupti", "given beside --partitions or --cupti, which need CUPTI",
                   "one of both");
  o.limit_s = common::to_number("--limit", limit, {1, 86400, false, "seconds"});
  if (!o.replay.empty()) // before the first call of the driver
    static_cast<void>(
        gsched::load_profile(common::to_file("--replay", replay, "a profile's file")));
  common::check_outputs({{"--out", out}});
  o.how.cupti = !no_cupti;
  for (const std::uint32_t sms : partitions) o.how.partitions.emplace_back(sms);
  if (o.how.model.empty() && o.graph.empty()) { // resnet18_b1: model resnet18, batch 1
    o.how.model = o.replay.stem().string();
    const std::string suffix = "_b" + std::to_string(o.how.batch);
    if (o.how.model.ends_with(suffix)) o.how.model.resize(o.how.model.size() - suffix.size());
  }
  if (o.how.model.empty()) o.how.model = o.graph;
  return o;
}

} // namespace profile_example
