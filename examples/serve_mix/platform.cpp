// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/platform.hpp"

#include <gsched/core/error.hpp>

namespace serve_mix {

#ifndef GSCHED_EXAMPLES_CUDA
std::unique_ptr<platform> open_cuda(const options& from) {
  throw gsched::error(gsched::errc::no_device,
                      "--device: " + from.device +
                          ", but this build has no CUDA, expected one made with a CUDA compiler");
}
#endif

std::unique_ptr<platform> open_platform(const options& from) {
  return from.gpu ? open_cuda(from) : open_simulated(from);
}

} // namespace serve_mix
