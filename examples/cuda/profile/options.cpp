// SPDX-License-Identifier: Apache-2.0
#include "profile/options.hpp"

#include "profile/graphs.hpp"

#include <gsched/core/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <vector>

namespace profile_example {

namespace {

constexpr const char* teaching =
    R"(A profile says of each operation of a captured CUDA graph what it is and how long it takes
alone. gsched runs profiles on a simulated GPU, or with stand-in kernels on a real one.

Examples
  profile --graph sort
      the library's sort and sum of a million keys, to the screen
  profile --graph saxpy --elements 4194304 --partitions 8,16,32,64 --out saxpy.json
      a chain of kernels between two copies, also on parts of the GPU
  profile --replay examples/data/profiles/resnet18_b1.json --out replayed.json
      stand-ins of a model's kernels, to compare with the model itself

Exit code: 0; 1 for a failure, a missing GPU among them; 2 for a usage or input error; 3 where the
GPU did not answer within --limit.)";

[[noreturn]] void refuse(const std::string& line) {
  throw gsched::error(gsched::errc::bad_option, line);
}

} // namespace

std::optional<options> parse(int argc, const char* const* argv) {
  options o;
  std::vector<std::uint32_t> partitions;
  bool no_cupti = false;
  CLI::App app;
  app.name("profile");
  app.description("Writes the profile of a captured graph, measured on the GPU.");
  app.set_help_flag("-h,--help", "This text");
  app.add_option("--graph", o.graph, "saxpy or sort")->type_name("NAME");
  app.add_option("--replay", o.replay, "In place of --graph: a profile's stand-ins")
      ->type_name("FILE");
  app.add_option("--elements", o.elements, "Of the built-in graphs' data")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->capture_default_str();
  app.add_option("--gpu", o.gpu, "The runtime's number")->type_name("N")->capture_default_str();
  app.add_option("--replays", o.how.replays, "Each time is the median of that many")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--partitions", partitions, "Also measure on green contexts of that many SMs")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--model", o.how.model, "The profile's model; default: the graph or file")
      ->type_name("NAME");
  app.add_option("--batch", o.how.batch, "The profile's batch")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app.add_flag("--no-cupti", no_cupti, "Measure without the toolkit's profiling interface");
  app.add_option("--cupti", o.how.cupti_library, "The library's file")->type_name("PATH");
  app.add_option("-o,--out", o.out, "Default: the screen")->type_name("FILE");
  app.add_option("--limit", o.limit_s, "Seconds after which the GPU counts as hung")
      ->type_name("S")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.footer(teaching);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    refuse(e.what());
  }
  if (o.graph.empty() && o.replay.empty()) o.graph = "saxpy";
  if (!o.graph.empty() && !o.replay.empty())
    refuse("--replay: given beside --graph, expected one of the two");
  const auto& known = graph_names();
  if (!o.graph.empty() && std::find(known.begin(), known.end(), o.graph) == known.end())
    throw gsched::error(gsched::errc::unknown_name,
                        "--graph: unknown graph '" + o.graph + "', expected saxpy or sort");
  if (no_cupti && (!partitions.empty() || !o.how.cupti_library.empty()))
    refuse("--no-cupti: given beside --partitions or --cupti, which need CUPTI");
  o.how.cupti = !no_cupti;
  for (const std::uint32_t sms : partitions) o.how.partitions.emplace_back(sms);
  if (o.how.model.empty() && o.graph.empty()) { // resnet18_b1 is resnet18, of batch 1
    o.how.model = o.replay.stem().string();
    const std::string batch = "_b" + std::to_string(o.how.batch);
    if (o.how.model.ends_with(batch)) o.how.model.resize(o.how.model.size() - batch.size());
  }
  if (o.how.model.empty()) o.how.model = o.graph;
  return o;
}

} // namespace profile_example
