// SPDX-License-Identifier: Apache-2.0
#include "stand_in/stand_in_memory.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace gsched::cuda {

namespace {

struct need {
  std::size_t device = 0;
  std::size_t host = 0;
};

std::size_t bytes_of(const operation& op) noexcept {
  return static_cast<std::size_t>(std::max<std::uint64_t>(op.bytes.count(), 1));
}

need need_of(const operation& op) noexcept {
  const std::size_t n = bytes_of(op);
  if (op.kind == operation_kind::memset) return {n, 0};
  if (op.kind != operation_kind::memcpy) return {};
  switch (op.direction) {
  case copy_direction::host_to_device:
  case copy_direction::device_to_host: return {n, n};
  case copy_direction::device_to_device: return {2 * n, 0};
  case copy_direction::host_to_host: return {0, 2 * n};
  }
  return {};
}

void* second(void* first, std::size_t bytes) noexcept {
  return static_cast<std::byte*>(first) + bytes;
}

} // namespace

void stand_in_memory::reserve(const operation& op, const std::string& name) {
  constexpr std::size_t least = std::size_t{1} << 20;
  const need n = need_of(op);
  const auto grow = [&](std::size_t to, std::size_t& has, void*& at, auto allocate) {
    if (to <= has) return;
    const std::size_t room = std::bit_ceil(std::max(to, least));
    void* fresh = nullptr;
    check(allocate(&fresh, room), (name + ": memory for stand-ins").c_str());
    at = fresh;
    has = room;
  };
  grow(n.device, device_bytes_, device_, [](void** p, std::size_t b) { return cudaMalloc(p, b); });
  grow(n.host, host_bytes_, host_,
       [](void** p, std::size_t b) { return cudaHostAlloc(p, b, cudaHostAllocPortable); });
}

std::uint64_t* stand_in_memory::saved(std::uint64_t blocks, const std::string& what) {
  constexpr std::uint64_t least = std::uint64_t{1} << 17;
  if (blocks > words_left_) {
    const std::uint64_t words = std::max(blocks, least);
    void* fresh = nullptr;
    check(cudaMalloc(&fresh, words * sizeof(std::uint64_t)), (what + ": memory to leave").c_str());
    words_ = static_cast<std::uint64_t*>(fresh);
    words_left_ = words;
  }
  words_left_ -= blocks;
  return std::exchange(words_, words_ + blocks);
}

cudaGraphNode_t stand_in_memory::add(cudaGraph_t graph, std::span<const cudaGraphNode_t> after,
                                     const operation& op, const std::string& what) const {
  const std::size_t n = bytes_of(op);
  cudaGraphNode_t node = nullptr;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check(cudaGraphAddMemcpyNode1D(&node, graph, after.data(), after.size(), to, from, n, kind),
          what.c_str());
  };
  if (op.kind == operation_kind::memset) {
    cudaMemsetParams p{};
    p.dst = device_;
    p.elementSize = 1;
    p.width = p.pitch = n;
    p.height = 1;
    check(cudaGraphAddMemsetNode(&node, graph, after.data(), after.size(), &p), what.c_str());
    return node;
  }
  if (op.kind != operation_kind::memcpy)
    throw error(errc::bad_graph, what + " is no device work, expected a kernel, a copy or a set");
  switch (op.direction) {
  case copy_direction::host_to_device: copy(device_, host_, cudaMemcpyHostToDevice); break;
  case copy_direction::device_to_host: copy(host_, device_, cudaMemcpyDeviceToHost); break;
  case copy_direction::device_to_device:
    copy(second(device_, n), device_, cudaMemcpyDeviceToDevice);
    break;
  case copy_direction::host_to_host: copy(second(host_, n), host_, cudaMemcpyHostToHost); break;
  }
  return node;
}

} // namespace gsched::cuda
