// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/platform.hpp"

#include "serve_mix/configuration.hpp"
#include "serve_mix/serve_under.hpp"

#include "common/run/simulated_backend.hpp"

#include <memory>

namespace serve_mix {

#ifndef GSCHED_TOOLS_CUDA
std::unique_ptr<platform> open_cuda(const options& from) { no_cuda(from); }
#endif

std::unique_ptr<platform> open_simulated(const options& from) {
  return common::make_simulated<run_request>(
      from, 1, [](const run_request& run, common::simulated_backend& on) {
        serve_on(configuration_of(run.policy, run.from), run, on);
      });
}

std::unique_ptr<platform> open_platform(const options& from) {
  return from.gpu ? open_cuda(from) : open_simulated(from);
}

} // namespace serve_mix
