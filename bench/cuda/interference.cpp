// SPDX-License-Identifier: Apache-2.0
// Probes of a GPU's shared resources, each beside another one: on the same SMs, and on SMs of their
// own. Redoes the microbenchmarks of Elvinger et al. (SoCC 2025).

#include "interference/suites.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

std::string kinds() {
  std::string text = "\nProbes:\n";
  for (const gsched::cuda::probe_description& d : gsched::cuda::probe_kinds())
    text += fmt::format("  {:13} {}; level: {} (default {})\n", d.name, d.stresses, d.level,
                        d.usual_level);
  text += "Suites: ";
  for (const std::string& s : interference::suite_names()) text += s + " ";
  text += "\nNetworks as victims: python -m gsched.measure probes --models resnet50_b8 --probes "
          "copy:4096:34 --split 64 --out mine";
  return text;
}

} // namespace

int main(int argc, char** argv) {
  interference::run_options o;
  std::string victim;
  std::string probe;
  std::uint32_t level = 0;
  std::uint32_t split = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared = 0;
  CLI::App app("What sharing a resource of the GPU costs: a probe beside another one.\n"
               "Example: gsched.gpu.interference --victim fp64:2 --probe fp64 --level 4");
  app.footer(kinds());
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  app.add_option("--victim", victim,
                 std::string(gsched::cuda::probe_form) + ", the probe that is measured");
  app.add_option("--probe", probe,
                 std::string(gsched::cuda::probe_form) + ", the one that disturbs it");
  add("--level", level, 0u, 1u << 20, "of the probe; 0: the kind's usual one");
  add("--split", split, 0u, 100000u,
      "SMs of the victim, the rest for the probe; 0: both share all");
  add("--registers", registers, 0u, 255u,
      "of a thread of the probe sleep: 16, 24, 32, 64, 96, 128, 192 or 255");
  add("--shared", shared, 0u, 1u << 20, "bytes of shared memory of a block of the probe");
  app.add_option("--suite", o.suites, "suites to run, or all")->delimiter(',');
  add("--victim-us", o.victim_us, 10., 1e5, "length of the victim");
  add("--turns", o.turns, 1, 1000, "alone and beside in turn, so often");
  add("--turn-ms", o.turn_ms, 1., 1e4, "of each");
  add("--seconds", o.seconds, 1., 1e5, "experiments that would begin later are left out");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_flag("--busy", o.busy, "measure although the GPU seems to be in use");
  app.add_option("--profiles", o.profiles, "folder for the profiles of the probes");
  app.add_flag("--counters", o.counters, "with hardware counters in them");
  app.add_option("--json", o.json, "write the figures to this file, as they come");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.interference: {}\n", wrong.what());
    return 2;
  }
  try {
    if (o.suites == std::vector<std::string>{"all"}) o.suites = interference::suite_names();
    if (victim.empty() != probe.empty() || (victim.empty() && o.suites.empty())) {
      fmt::print(stderr, "gsched.gpu.interference: expected --victim and --probe, or --suite\n");
      return 2;
    }
    if (victim.empty() && (level | split | registers | shared) != 0) {
      fmt::print(stderr,
                 "gsched.gpu.interference: --level, --split, --registers or --shared without a "
                 "probe, expected --victim and --probe\n");
      return 2;
    }
    if (o.counters && o.profiles.empty()) {
      fmt::print(stderr,
                 "gsched.gpu.interference: --counters without --profiles, expected a folder "
                 "for them\n");
      return 2;
    }
    for (const std::string& name : o.suites) // whether there is one, of any GPU
      static_cast<void>(interference::suite(name, 1, 1));
    if (!victim.empty()) {
      interference::experiment e{"given",
                                 gsched::cuda::parse_probe(victim),
                                 gsched::cuda::parse_probe(probe),
                                 {gsched::sm_count{split}, {}}};
      if (level != 0) e.probe.level = level;
      if (registers != 0) e.probe.registers = registers;
      if (shared != 0) e.probe.shared_bytes = shared;
      gsched::cuda::check_probe(e.probe);
      o.experiments.push_back(e);
    }
  } catch (const gsched::error& wrong) {
    fmt::print(stderr, "gsched.gpu.interference: {}\n", wrong.what());
    return 2;
  }
  try {
    return interference::run(o) ? 0 : 1;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.interference: {}\n", wrong.what());
    return 1;
  }
}
