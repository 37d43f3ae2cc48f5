// SPDX-License-Identifier: Apache-2.0
// The cost of running a model as segments, each followed by a notification, instead of as one
// graph: stand-ins of the profiled models' kernels, by length of the segments and number in flight.
// All variants of a model are interleaved.

#include "segment_cost/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  segment_cost::run_options o;
  o.profiles = GSCHED_DATA_DIR "/profiles";
  o.models = {"lenet_b1",        "squeezenet1_1_b1",     "resnet18_b1", "googlenet_b1",
              "mobilenet_v2_b1", "ssdlite_mobilenet_b1", "vgg16_b1",    "resnet50_b1",
              "bert_base_b1",    "inception_v3_b1"};
  bool quick = false;
  CLI::App app("Models in segments against whole graphs, on a GPU.");
  app.add_option("--profiles", o.profiles, "folder of profiles")->capture_default_str();
  app.add_option("--models", o.models, "files there, without .json")->delimiter(',');
  app.add_option("--targets", o.targets_us, "lengths of a segment in microseconds")
      ->delimiter(',')
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--in-flight", o.most_in_flight, 1u, 16u, "at most so many segments");
  add("--runs", o.runs, 3u, 100000u, "of each variant");
  add("--seconds", o.seconds, 1.0, 1e5, "start no further model after that time");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--json", o.json, "write the figures to this file");
  app.add_flag("--quick", quick, "three models, 15 runs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.segment_cost: {}\n", wrong.what());
    return 2;
  }
  if (quick) {
    o.models = {"lenet_b1", "resnet18_b1", "mobilenet_v2_b1"};
    o.runs = 15;
  }
  try {
    segment_cost::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.segment_cost: {}\n", wrong.what());
    return 1;
  }
}
