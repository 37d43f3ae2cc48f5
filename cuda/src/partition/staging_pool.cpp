// SPDX-License-Identifier: Apache-2.0
#include "partition/staging_pool.hpp"

#include "hung_streams.hpp"
#include "relaxed_capture.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

namespace gsched::cuda {

staging_pool::staging_pool(std::vector<int> gpus) : state_(std::make_shared<state>()) {
  state_->gpus = std::move(gpus);
}

staging_pool::state::~state() {
  for (std::byte* const block : free) destroy(block);
}

std::byte* staging_pool::state::make() const {
  const current_gpu here(gpus.front());
  const relaxed_capture relaxed;
  void* p = nullptr;
  check(cudaHostAlloc(&p, bytes, cudaHostAllocPortable), "pinned memory for batches");
  return static_cast<std::byte*>(p);
}

void staging_pool::state::destroy(std::byte* block) const noexcept {
  // To free pinned memory waits for a kernel that hangs.
  if (std::any_of(gpus.begin(), gpus.end(), [](int gpu) { return hangs(gpu); })) return;
  const relaxed_capture relaxed;
  static_cast<void>(cudaFreeHost(block));
}

void staging_pool::state::grow(std::uint64_t to) {
  if (to <= bytes) return;
  for (std::byte* const block : free) destroy(block);
  free.clear();
  taken = 0; // those are too small from now on
  bytes = to;
}

void staging_pool::reserve(std::size_t count, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(state_->guard);
  state_->grow(bytes);
  while (state_->free.size() + state_->taken < count) state_->free.push_back(state_->make());
}

std::shared_ptr<std::byte> staging_pool::take(std::uint64_t bytes) {
  std::byte* block = nullptr;
  std::uint64_t size = 0;
  {
    const std::lock_guard lock(state_->guard);
    state_->grow(bytes);
    if (state_->free.empty()) state_->free.push_back(state_->make());
    block = state_->free.back();
    state_->free.pop_back();
    ++state_->taken;
    size = state_->bytes;
  }
  return {block, [of = state_, size](std::byte* p) {
            const std::lock_guard lock(of->guard);
            if (size != of->bytes) return of->destroy(p);
            --of->taken;
            of->free.push_back(p);
          }};
}

} // namespace gsched::cuda
