// SPDX-License-Identifier: Apache-2.0
#include "realtime/platform.hpp"

#include "realtime/serve.hpp"

#include "common/run/simulated_backend.hpp"

#include <memory>

namespace realtime {

#ifndef GSCHED_TOOLS_CUDA
std::unique_ptr<platform> open_cuda(const options& from) { common::no_cuda(from); }
#endif

std::unique_ptr<platform> open_simulated(const options& from) {
  return common::make_simulated<run_request>(
      from, 10, [](const run_request& run, common::simulated_backend& on) { serve_on(on, run); });
}

std::unique_ptr<platform> open_platform(const options& from) {
  return from.gpu ? open_cuda(from) : open_simulated(from);
}

} // namespace realtime
