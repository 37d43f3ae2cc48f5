// SPDX-License-Identifier: Apache-2.0
#include "hung_streams.hpp"
#include "relaxed_capture.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/cuda/gpu.hpp>

#include <array>
#include <cstddef>
#include <mutex>

namespace gsched::cuda {

namespace {

struct abandoned_stream {
  int gpu = 0;
  cudaStream_t stream = nullptr;
};

/// One for the process. Constant-initialized, and valid until the process ends.
struct registry {
  std::mutex guard;
  std::array<abandoned_stream, 64> streams{};
  std::size_t count = 0;
  sync::atomic<bool> some{false}; ///< whether any stream was ever abandoned
};
constinit registry all;

bool has_ended(const abandoned_stream& g) noexcept {
  const current_gpu here(g.gpu);
  const relaxed_capture apart;
  const cudaError_t e = cudaStreamQuery(g.stream);
  static_cast<void>(cudaGetLastError()); // a busy stream sets the last error
  return e != cudaErrorNotReady;
}

} // namespace

void abandon_stream(int gpu, cudaStream_t stream) noexcept {
  const std::lock_guard hold(all.guard);
  if (all.count < all.streams.size()) all.streams[all.count++] = {gpu, stream};
  all.some.store(true, sync::relaxed); // unordered: the list itself is read under the mutex
}

bool hangs(int gpu) noexcept {
  if (!all.some.load(sync::relaxed)) return false;
  const std::lock_guard hold(all.guard);
  for (std::size_t i = 0; i < all.count;) {
    if (all.streams[i].gpu != gpu) {
      ++i;
    } else if (has_ended(all.streams[i])) {
      all.streams[i] = all.streams[--all.count];
    } else {
      return true;
    }
  }
  return false;
}

void expect_no_hang(int gpu, const std::string& what) {
  if (!hangs(gpu)) return;
  throw error(errc::device_failed, what + ": a kernel of this process hangs on GPU " +
                                       std::to_string(gpu) +
                                       ", expected none, as the driver would wait for it");
}

} // namespace gsched::cuda
