// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/platform.hpp"

#include "serve_mix/manner.hpp"
#include "serve_mix/serve_under.hpp"

#include "common/simulated.hpp"

#include <memory>

namespace serve_mix {

#ifndef GSCHED_TOOLS_CUDA
std::unique_ptr<platform> open_cuda(const options& from) { no_cuda(from); }
#endif

std::unique_ptr<platform> open_simulated(const options& from) {
  return common::make_simulated<run_order>(from, 1,
                                           [](const run_order& run, common::simulated_stage& on) {
                                             serve_on(manner_of(run.policy, run.from), run, on);
                                           });
}

std::unique_ptr<platform> open_platform(const options& from) {
  return from.gpu ? open_cuda(from) : open_simulated(from);
}

} // namespace serve_mix
