// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/run.hpp"

#include <gsched/cuda/partition/partition_batches.hpp>

namespace serve_partitions {

/// With the programs of another source.
[[nodiscard]] served run_on_gpus(const options& o, gsched::cuda::program_source source);

} // namespace serve_partitions
