// SPDX-License-Identifier: Apache-2.0
#include "profile/options.hpp"

#include "profile/graphs.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/profile_json.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace profile_example {

namespace {

constexpr const char* teaching =
    R"(A profile lists the operations of a captured CUDA graph and the time of each of them alone. gsched runs profiles on a simulated GPU, or with stand-in kernels on a real one.

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
  std::string limit = "120", sizes, elements = std::to_string(o.elements), gpu = "0",
              replays = std::to_string(o.how.replays), batch = std::to_string(o.how.batch);
  CLI::App app;
  app.name("profile");
  app.description("Writes the profile of a captured graph, measured on the GPU.");
  app.set_help_flag("-h,--help", "This text");
  app.add_option("--graph", o.graph, "saxpy or sort")->type_name("NAME");
  app.add_option("--replay", o.replay, "In place of --graph: a profile's stand-ins")
      ->type_name("FILE");
  app.add_option("--elements", elements, "Of the built-in graphs' data")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--gpu", gpu, "The runtime's number")->type_name("N")->capture_default_str();
  app.add_option("--replays", replays, "Each time is the median of that many")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--partitions", sizes, "Also measure on green contexts of that many SMs")
      ->type_name("N,...");
  app.add_option("--model", o.how.model, "The profile's model; default: the graph or file")
      ->type_name("NAME");
  app.add_option("--batch", batch, "The profile's batch")->type_name("N")->capture_default_str();
  app.add_flag("--no-cupti", no_cupti, "Measure without the toolkit's profiling interface");
  app.add_option("--cupti", o.how.cupti_library, "The library's file")->type_name("PATH");
  app.add_option("-o,--out", o.out, "Default: the screen")->type_name("FILE");
  app.add_option("--limit", limit, "Seconds after which the GPU counts as hung")
      ->type_name("S")
      ->capture_default_str();
  app.footer(teaching);
  if (!common::parse(app, argc, argv)) return std::nullopt;
  o.elements = common::to_count("--elements", elements, 1, std::size_t{1} << 30);
  o.gpu = static_cast<int>(common::to_count("--gpu", gpu, 0, 1023));
  o.how.replays =
      static_cast<decltype(o.how.replays)>(common::to_count("--replays", replays, 1, 1000));
  o.how.batch = static_cast<std::uint32_t>(common::to_count("--batch", batch, 1, 1u << 20));
  if (o.graph.empty() && o.replay.empty()) o.graph = "saxpy";
  if (!o.graph.empty() && !o.replay.empty())
    common::refuse("--replay", "given beside --graph", "one of the two");
  const auto& known = graph_names();
  if (!o.graph.empty() && std::find(known.begin(), known.end(), o.graph) == known.end())
    common::refuse("--graph", "unknown graph " + common::in_quotes(o.graph), "saxpy or sort",
                   gsched::errc::unknown_name);
  common::refuse_unused(app, o.replay.empty(), {"--elements"}, "beside --replay", "one of both");
  std::vector<std::uint32_t> partitions;
  if (!sizes.empty()) partitions = common::to_counts("--partitions", sizes, 1, 4096);
  if (no_cupti && (!partitions.empty() || !o.how.cupti_library.empty()))
    common::refuse("--no-cupti", "given beside --partitions or --cupti, which need CUPTI",
                   "one of both");
  o.limit_s = common::to_number("--limit", limit, {1, 86400, false, "seconds"});
  if (!o.replay.empty()) // before the first call of the driver
    static_cast<void>(
        gsched::read_profile(common::to_file("--replay", o.replay.string(), "a profile's file")));
  common::check_outputs({{"--out", o.out}});
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
