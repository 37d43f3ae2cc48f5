// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/traced_ptr.cuh>

#include <array>
#include <cmath>
#include <cstddef>

// A block of a network with what makes kernels hard to run again: bias, residual and softmax in
// place, a buffer that is cleared and added to, and a running average that outlives a request.
// Kernels are templates over their pointers; they do the same on the host.

namespace idempotence {

inline constexpr int tokens = 32;
inline constexpr int width = 64;
inline constexpr int hidden = 128;

/// c = a * b; b has `columns`, a has `inner`.
struct gemm {
  template <class In, class Out>
  static __host__ __device__ void at(int i, In a, In b, Out c, int inner, int columns) {
    const int row = i / columns;
    const int column = i % columns;
    float sum = 0;
    for (int k = 0; k < inner; ++k) sum += a[row * inner + k] * b[k * columns + column];
    c[i] = sum;
  }
};

struct bias_relu {
  template <class In, class Out>
  static __host__ __device__ void at(int i, In bias, Out x, int columns) {
    const float v = x[i] + bias[i % columns];
    x[i] = v > 0 ? v : 0.0f;
  }
};

struct residual {
  template <class In, class Out>
  static __host__ __device__ void at(int i, In from, Out x) {
    x[i] += from[i];
  }
};

/// A row is one thread's.
struct softmax {
  template <class Out>
  static __host__ __device__ void at(int row, Out x, int columns) {
    const Out mine = x + row * columns;
    float most = mine[0];
    for (int k = 1; k < columns; ++k) most = fmaxf(most, mine[k]);
    float sum = 0;
    for (int k = 0; k < columns; ++k) {
      const float e = expf(mine[k] - most);
      mine[k] = e;
      sum += e;
    }
    for (int k = 0; k < columns; ++k) mine[k] = mine[k] / sum;
  }
};

struct gate {
  template <class In, class Out>
  static __host__ __device__ void at(int i, In by, Out x, int columns, int by_columns) {
    x[i] *= 1.0f + by[i / columns * by_columns + i % columns];
  }
};

struct add_row {
  template <class In, class Out>
  static __host__ __device__ void at(int row, In x, Out sums, int columns) {
    for (int k = 0; k < columns; ++k) sums[row] += x[row * columns + k];
  }
};

struct divide {
  template <class In, class Out>
  static __host__ __device__ void at(int i, In sums, Out x, int columns) {
    x[i] = x[i] / (1.0f + sums[i / columns]);
  }
};

struct running_average {
  template <class In, class Out>
  static __host__ __device__ void at(int i, In now, Out average) {
    average[i] = 0.9f * average[i] + 0.1f * now[i];
  }
};

template <class Body, class... A>
__global__ void run(int n, A... a) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) Body::at(i, a...);
}

inline constexpr unsigned threads = 128;
[[nodiscard]] inline unsigned blocks_for(int n) {
  return (static_cast<unsigned>(n) + threads - 1) / threads;
}

/// The buffers, each an allocation of its own, but for `g`, which may be `h`.
struct memory {
  float *x, *w1, *b1, *h, *w2, *y, *g, *sums, *average;
  float *input, *output; ///< the host's

  static constexpr std::size_t buffers = 11;
  static constexpr std::array<int, buffers> sizes{
      tokens * width, width* hidden, hidden, tokens* hidden, hidden* width, tokens* width,
      tokens* hidden, tokens,        tokens, tokens* width,  tokens* width};
  [[nodiscard]] std::array<float**, buffers> all() {
    return {&x, &w1, &b1, &h, &w2, &y, &g, &sums, &average, &input, &output};
  }
};

/// Hands the operations to a visitor, in the order in which they run.
template <class Visitor>
void each_operation(const memory& m, Visitor&& v) {
  const auto constant = [](float* p) -> const float* { return p; };
  constexpr std::size_t activations = sizeof(float) * tokens * width;
  v.copy("copy_in", m.x, m.input, activations);
  v.template kernel<gemm>("gemm", tokens * hidden, constant(m.x), constant(m.w1), m.h, width,
                          hidden);
  v.template kernel<bias_relu>("bias_relu", tokens * hidden, constant(m.b1), m.h, hidden);
  v.template kernel<gemm>("gemm", tokens * width, constant(m.h), constant(m.w2), m.y, hidden,
                          width);
  v.template kernel<residual>("residual", tokens * width, constant(m.x), m.y);
  v.template kernel<softmax>("softmax", tokens, m.y, width);
  v.template kernel<gemm>("gemm", tokens * hidden, constant(m.y), constant(m.w1), m.g, width,
                          hidden);
  v.template kernel<bias_relu>("bias_relu", tokens * hidden, constant(m.b1), m.g, hidden);
  v.template kernel<gate>("gate", tokens * width, constant(m.g), m.y, width, hidden);
  v.set("clear_sums", m.sums, sizeof(float) * tokens);
  v.template kernel<add_row>("add_row", tokens, constant(m.y), m.sums, width);
  v.template kernel<divide>("divide", tokens * width, constant(m.sums), m.y, width);
  v.template kernel<running_average>("running_average", tokens, constant(m.sums), m.average);
  v.copy("copy_out", m.output, m.y, activations);
}

} // namespace idempotence
