// SPDX-License-Identifier: Apache-2.0
//
// Serves models on partitions of GPUs, simulated or real, by plans that follow the request rates,
// and reports how many requests were late. Source: Choi et al., USENIX ATC 2022.
#include "serve_partitions/options.hpp"
#include "serve_partitions/report.hpp"
#include "serve_partitions/run.hpp"

#include "common/cli/main.hpp"

int main(int argc, char** argv) {
  return common::run_main("serve_partitions", argc, argv, serve_partitions::parse_options,
                          [](serve_partitions::options& o) {
                            return serve_partitions::serve_and_tell(o, serve_partitions::run);
                          });
}
