// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/cuda/request_rings.hpp"
#include "serve_partitions/run.hpp"

#include <gsched/cuda/partition/partition_batches.hpp>

#include <span>

namespace serve_partitions {

/// With the programs of another source. `data` is by model; empty: requests carry none.
[[nodiscard]] served run_on_gpus(const options& o, gsched::cuda::program_source source,
                                 std::span<const request_buffers> data = {});

} // namespace serve_partitions
