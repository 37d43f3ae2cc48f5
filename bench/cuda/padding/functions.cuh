// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda/colocate/pad_block.cuh>

#include <cstdint>

// Building blocks of networks, as paddable functions. Each computes its output from its inputs
// alone, and states its launch and the least number of bytes that it reads and writes.

namespace padding {

using gsched::extent;
using gsched::cuda::pad_block;

[[nodiscard]] inline extent in_blocks(std::uint64_t n, std::uint32_t each) {
  return {static_cast<std::uint32_t>((n + each - 1) / each), 1, 1};
}

/// to = a * b, n by n; n is a multiple of Tile.
template <std::uint32_t Tile>
struct gemm {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t step = 16;
  static constexpr std::uint32_t each = Tile / 16;

  const float* a;
  const float* b;
  float* to;
  std::uint32_t n;

  [[nodiscard]] extent grid() const { return {n / Tile, n / Tile, 1}; }
  [[nodiscard]] static std::uint32_t shared_bytes() { return 2 * step * Tile * 4; }
  [[nodiscard]] std::uint64_t bytes() const { return 4ull * n * n + 8ull * n * n * (n / Tile); }

  __device__ __forceinline__ void operator()(const pad_block& k) const {
    float* const as = k.shared_as<float>();
    float* const bs = as + step * Tile;
    const std::uint32_t tx = k.thread % 16, ty = k.thread / 16;
    const std::uint32_t row = k.y() * Tile, column = k.x() * Tile;
    float sum[each][each] = {};
    for (std::uint32_t p = 0; p < n; p += step) {
      for (std::uint32_t i = k.thread; i < Tile * step; i += threads) {
        as[i % step * Tile + i / step] = a[(row + i / step) * n + p + i % step];
        bs[i] = b[(p + i / Tile) * n + column + i % Tile];
      }
      k.sync();
#pragma unroll
      for (std::uint32_t q = 0; q < step; ++q) {
        float x[each], y[each];
#pragma unroll
        for (std::uint32_t i = 0; i < each; ++i) {
          x[i] = as[q * Tile + ty + 16 * i];
          y[i] = bs[q * Tile + tx + 16 * i];
        }
#pragma unroll
        for (std::uint32_t i = 0; i < each; ++i)
#pragma unroll
          for (std::uint32_t j = 0; j < each; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
      }
      k.sync();
    }
#pragma unroll
    for (std::uint32_t i = 0; i < each; ++i)
#pragma unroll
      for (std::uint32_t j = 0; j < each; ++j)
        to[(row + ty + 16 * i) * n + column + tx + 16 * j] = sum[i][j];
  }
};

template <std::uint32_t Items>
struct copy {
  static constexpr std::uint32_t threads = 256;

  const float4* from;
  float4* to;
  std::uint32_t n;

  [[nodiscard]] extent grid() const { return in_blocks(n, threads * Items); }
  [[nodiscard]] static std::uint32_t shared_bytes() { return 0; }
  [[nodiscard]] std::uint64_t bytes() const { return 32ull * n; }

  /// At most four loads in flight: more would make the block larger, not faster.
  __device__ __forceinline__ void operator()(const pad_block& k) const {
    constexpr std::uint32_t batch = Items < 4 ? Items : 4;
    const std::uint32_t from_here = k.index * threads * Items + k.thread;
#pragma unroll 1
    for (std::uint32_t done = 0; done < Items; done += batch) {
      float4 value[batch];
      const std::uint32_t at = from_here + done * threads;
#pragma unroll
      for (std::uint32_t i = 0; i < batch; ++i)
        if (at + i * threads < n) value[i] = from[at + i * threads];
#pragma unroll
      for (std::uint32_t i = 0; i < batch; ++i)
        if (at + i * threads < n) to[at + i * threads] = value[i];
    }
  }
};

/// to = by * x + y.
template <std::uint32_t Items>
struct axpy {
  static constexpr std::uint32_t threads = 256;

  const float* x;
  const float* y;
  float* to;
  std::uint32_t n;
  float by;

  [[nodiscard]] extent grid() const { return in_blocks(n, threads * Items); }
  [[nodiscard]] static std::uint32_t shared_bytes() { return 0; }
  [[nodiscard]] std::uint64_t bytes() const { return 12ull * n; }

  __device__ __forceinline__ void operator()(const pad_block& k) const {
    const std::uint32_t at = k.index * threads * Items + k.thread;
#pragma unroll
    for (std::uint32_t i = 0; i < Items; ++i)
      if (const std::uint32_t j = at + i * threads; j < n) to[j] = fmaf(by, x[j], y[j]);
  }
};

/// The result is the same for all threads of a block; shared memory is free again afterwards.
template <class Op>
__device__ __forceinline__ float over_block(const pad_block& k, float value, Op op) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) value = op(value, __shfl_xor_sync(~0u, value, other));
  float* const of_warps = k.shared_as<float>();
  if (k.thread % 32 == 0) of_warps[k.thread / 32] = value;
  k.sync();
  value = of_warps[0];
  for (std::uint32_t i = 1; i < k.threads / 32; ++i) value = op(value, of_warps[i]);
  k.sync();
  return value;
}

/// The softmax of each row; one block a row.
template <std::uint32_t Threads>
struct softmax {
  static constexpr std::uint32_t threads = Threads;

  const float* from;
  float* to;
  std::uint32_t rows;
  std::uint32_t columns;

  [[nodiscard]] extent grid() const { return {rows, 1, 1}; }
  [[nodiscard]] static std::uint32_t shared_bytes() { return threads / 32 * 4; }
  [[nodiscard]] std::uint64_t bytes() const { return 16ull * rows * columns; }

  __device__ __forceinline__ void operator()(const pad_block& k) const {
    const float* const in = from + std::uint64_t{k.index} * columns;
    float* const out = to + std::uint64_t{k.index} * columns;
    float most = -3.4e38f;
    for (std::uint32_t i = k.thread; i < columns; i += threads) most = fmaxf(most, in[i]);
    most = over_block(k, most, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0;
    for (std::uint32_t i = k.thread; i < columns; i += threads) sum += expf(in[i] - most);
    sum = over_block(k, sum, [](float a, float b) { return a + b; });
    const float scale = 1 / sum;
    for (std::uint32_t i = k.thread; i < columns; i += threads) out[i] = expf(in[i] - most) * scale;
  }
};

/// The mean of each row; one block a row.
template <std::uint32_t Threads>
struct row_mean {
  static constexpr std::uint32_t threads = Threads;

  const float* from;
  float* to;
  std::uint32_t rows;
  std::uint32_t columns;

  [[nodiscard]] extent grid() const { return {rows, 1, 1}; }
  [[nodiscard]] static std::uint32_t shared_bytes() { return threads / 32 * 4; }
  [[nodiscard]] std::uint64_t bytes() const { return 4ull * rows * columns; }

  __device__ __forceinline__ void operator()(const pad_block& k) const {
    const float* const in = from + std::uint64_t{k.index} * columns;
    float sum = 0;
    for (std::uint32_t i = k.thread; i < columns; i += threads) sum += in[i];
    sum = over_block(k, sum, [](float a, float b) { return a + b; });
    if (k.thread == 0) to[k.index] = sum / static_cast<float>(columns);
  }
};

/// Each of `planes` planes of side by side values with its own 3 by 3 weights, zero-padded.
template <std::uint32_t Items>
struct convolve {
  static constexpr std::uint32_t threads = 256;

  const float* from;
  const float* weights;
  float* to;
  std::uint32_t planes;
  std::uint32_t side;

  [[nodiscard]] std::uint32_t size() const { return planes * side * side; }
  [[nodiscard]] extent grid() const { return in_blocks(size(), threads * Items); }
  [[nodiscard]] static std::uint32_t shared_bytes() { return 0; }
  [[nodiscard]] std::uint64_t bytes() const { return 40ull * size(); }

  __device__ __forceinline__ void operator()(const pad_block& k) const {
    const std::uint32_t area = side * side;
    for (std::uint32_t item = 0; item < Items; ++item) {
      const std::uint32_t at = (k.index * Items + item) * threads + k.thread;
      if (at >= planes * area) return;
      const std::uint32_t plane = at / area;
      const int y = static_cast<int>(at % area / side), x = static_cast<int>(at % side);
      const float* const in = from + plane * area;
      const float* const w = weights + plane * 9;
      float sum = 0;
#pragma unroll
      for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
        for (int dx = -1; dx <= 1; ++dx) {
          const int r = y + dy, c = x + dx;
          const bool inside =
              r >= 0 && c >= 0 && r < static_cast<int>(side) && c < static_cast<int>(side);
          if (inside) sum = fmaf(in[r * static_cast<int>(side) + c], w[3 * dy + dx + 4], sum);
        }
      to[at] = sum;
    }
  }
};

} // namespace padding
