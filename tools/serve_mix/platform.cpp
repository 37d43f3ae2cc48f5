// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/platform.hpp"

namespace serve_mix {

#ifndef GSCHED_TOOLS_CUDA
std::unique_ptr<platform> open_cuda(const options& from) { no_cuda(from); }
#endif

std::unique_ptr<platform> open_platform(const options& from) {
  return from.gpu ? open_cuda(from) : open_simulated(from);
}

} // namespace serve_mix
