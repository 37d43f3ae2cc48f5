// SPDX-License-Identifier: Apache-2.0
#include "idempotence/network.hpp"

#include "common/cli/device_option.hpp"

#ifdef GSCHED_TOOLS_CUDA
#include "idempotence/cuda/network.hpp"
#endif

namespace idempotence {

std::vector<finding> trace_network(const options& o) {
#ifdef GSCHED_TOOLS_CUDA
  if (o.from == place::host) return {trace_on_host(o)};
  return trace_on_gpu(o);
#else
  common::no_cuda(o.device);
#endif
}

} // namespace idempotence
