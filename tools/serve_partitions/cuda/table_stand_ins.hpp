// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/partition/partition_batches.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>

#include <cstddef>
#include <span>

namespace serve_partitions {

/// Programs that take the time of a table on a partition: kernels with a block on each of its SMs,
/// one after another. They use neither L2 nor DRAM, so that partitions do not slow each other.
class table_stand_ins {
public:
  /// Makes one of each of these models on each GPU, which measures its kernels; this takes some
  /// seconds, in which nothing else may run. The table outlives it.
  table_stand_ins(const gsched::latency_table& t, const gsched::cuda::partition_batches_options& on,
                  const gsched::gpu_shape& shape, std::span<const std::size_t> models);

  [[nodiscard]] gsched::cuda::program_lease make(const gsched::cuda::batch_program& b) const;

private:
  const gsched::latency_table& table_;
};

} // namespace serve_partitions
