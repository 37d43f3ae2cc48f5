// SPDX-License-Identifier: Apache-2.0
//
// Serves models over the network by the Open Inference Protocol, gRPC and REST.
#include "gsched_server/serve.hpp"
#include "gsched_server/settings/settings.hpp"

#include "common/cli/main.hpp"

#include <utility>

int main(int argc, char** argv) {
  gsched_server::block_signals();
  return common::run_main(
      "gsched_server", argc, argv, gsched_server::read_settings,
      [&](gsched_server::settings& s) { return gsched_server::serve(std::move(s), argc, argv); });
}
