// SPDX-License-Identifier: Apache-2.0
#include "relaxed_capture.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/preempt/preemption_slots.hpp>

#include <cassert>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

constexpr const char* what = "slots of preemptible kernels";

struct freed {
  void operator()(void* p) const noexcept { cudaFree(p); }
};

} // namespace

struct preemption_slots::state {
  std::vector<preemption_slot> fresh; ///< initial values
  std::vector<preemption_slot> seen;  ///< values at the last reset; allocated beforehand
  std::unique_ptr<preemption_slot, freed> slots;
  std::unique_ptr<std::uint32_t, freed> lists;
  std::size_t bytes = 0;

  /// Writes the initial values; first reads the current ones to `to`, if it is not null. Uses
  /// copies on a stream of its own, so that it waits for no other work.
  void write(preemption_slot* to) const {
    const relaxed_capture here;
    const std::size_t size = fresh.size() * sizeof(preemption_slot);
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), what);
    cudaError_t e = cudaSuccess;
    if (to != nullptr) e = cudaMemcpyAsync(to, slots.get(), size, cudaMemcpyDeviceToHost, s);
    if (e == cudaSuccess)
      e = cudaMemcpyAsync(slots.get(), fresh.data(), size, cudaMemcpyHostToDevice, s);
    if (e == cudaSuccess) e = cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
    check(e, what);
  }
};

preemption_slots::preemption_slots(std::span<const std::uint64_t> blocks)
    : state_(std::make_unique<state>()) {
  std::uint64_t words = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] > max_preemptible_blocks)
      throw error(errc::bad_option, std::string(what) + ": kernel " + std::to_string(i) + " of " +
                                        std::to_string(blocks[i]) + " blocks, expected at most " +
                                        std::to_string(max_preemptible_blocks));
    words += 2 * blocks[i];
  }
  if (blocks.empty()) return;
  const relaxed_capture here;
  state& s = *state_;
  void* memory = nullptr;
  if (words > 0) check(cudaMalloc(&memory, words * sizeof(std::uint32_t)), what);
  s.lists.reset(static_cast<std::uint32_t*>(memory));
  check(cudaMalloc(&memory, blocks.size() * sizeof(preemption_slot)), what);
  s.slots.reset(static_cast<preemption_slot*>(memory));
  s.bytes = blocks.size() * sizeof(preemption_slot) + words * sizeof(std::uint32_t);
  std::uint32_t* list = s.lists.get();
  for (const std::uint64_t b : blocks) {
    preemption_slot slot;
    slot.blocks = static_cast<std::uint32_t>(b);
    slot.lists = list;
    list += 2 * b;
    s.fresh.push_back(slot);
  }
  s.seen.resize(s.fresh.size());
  s.write(nullptr);
}

preemption_slots::~preemption_slots() = default;
preemption_slots::preemption_slots(preemption_slots&&) noexcept = default;
preemption_slots& preemption_slots::operator=(preemption_slots&&) noexcept = default;

std::size_t preemption_slots::size() const noexcept { return state_->fresh.size(); }

preemption preemption_slots::fill(const preemption& captured, std::size_t i,
                                  const std::uint32_t* flag, bool resumes) const noexcept {
  assert(flag != nullptr && i < size() && state_->fresh[i].blocks > 0);
  preemption p = captured;
  p.flag = flag;
  p.slot = data() + i;
  p.blocks = state_->fresh[i].blocks;
  p.resumes = resumes;
  return p;
}

preemption_slot* preemption_slots::data() const noexcept { return state_->slots.get(); }

std::uint64_t preemption_slots::reset() {
  if (size() == 0) return 0;
  state_->write(state_->seen.data());
  std::uint64_t ended = 0;
  for (const preemption_slot& s : state_->seen) ended += ended_of(s.state, s.blocks);
  return ended;
}

std::size_t preemption_slots::memory() const noexcept { return state_->bytes; }

void preemption_slots::abandon() noexcept {
  static_cast<void>(state_->slots.release());
  static_cast<void>(state_->lists.release());
}

} // namespace gsched::cuda
