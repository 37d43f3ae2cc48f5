// SPDX-License-Identifier: Apache-2.0
#include "measure/library/graphs.hpp"

#include "measure/run.hpp"

#include "common/cli/main.hpp"

int measure_check_options(int argc, char** argv) {
  return common::run_main(
      "measure", argc, argv,
      [](int n, char** words) { return measure::parse_options(n, words, true); },
      [](const measure::options&) { return 0; });
}

int measure_check_machine(int argc, char** argv) {
  return common::run_main(
      "measure", argc, argv,
      [](int n, char** words) { return measure::parse_options(n, words, true); },
      [](const measure::options& o) { return measure::check_machine(o); });
}

int measure_graphs(int argc, char** argv, const measure_graph* graphs, std::uint64_t count) {
  return common::run_main(
      "measure", argc, argv,
      [&](int n, char** words) { return measure::parse_options(n, words, count > 0); },
      [&](const measure::options& o) {
        return measure::run(o, {graphs, count});
      });
}
