// SPDX-License-Identifier: Apache-2.0
//
// Measures graphs on a GPU: alone on parts of it, and beside each other.
#include "measure/options.hpp"
#include "measure/run.hpp"

#include "common/cli/main.hpp"

int main(int argc, char** argv) {
  return common::run_main(
      "measure", argc, argv,
      [](int n, char** words) { return measure::parse_options(n, words, false); },
      [](const measure::options& o) { return measure::run(o, {}); });
}
