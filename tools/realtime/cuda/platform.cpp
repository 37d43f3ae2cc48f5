// SPDX-License-Identifier: Apache-2.0
#include "realtime/serve.hpp"

#include "common/cuda/platform.hpp"

#include <memory>

namespace realtime {

std::unique_ptr<platform> open_cuda(const options& from) {
  return common::make_real<run_request>(
      from, 200, [](const run_request& run, common::cuda_backend& on) { serve_on(on, run); });
}

} // namespace realtime
