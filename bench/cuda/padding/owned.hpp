// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace padding {

template <class Handle, cudaError_t (*Destroy)(Handle)>
struct destroyer {
  using pointer = Handle;
  void operator()(Handle h) const noexcept { Destroy(h); }
};

/// A handle of CUDA, with its end.
template <class Handle, cudaError_t (*Destroy)(Handle)>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Handle, Destroy>>;

using owned_graph = owned<cudaGraph_t, cudaGraphDestroy>;

} // namespace padding
