// SPDX-License-Identifier: Apache-2.0
#include "realtime/platform.hpp"

#include <gsched/core/error.hpp>

namespace realtime {

#ifndef GSCHED_TOOLS_CUDA
std::unique_ptr<platform> open_cuda(const options& from) { common::no_cuda(from); }
#endif

std::unique_ptr<platform> open_platform(const options& from) {
  return from.gpu ? open_cuda(from) : open_simulated(from);
}

} // namespace realtime
