// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.hpp"

#include <gsched/gsched_c.h>

#include <memory>

namespace gsched::abi {

/// Reads the graphs of a model and measures the first, unless its times are given; the facts say
/// what was found. On the calling thread. check_model has passed it.
/// Errors   refusal for graphs that differ, else as cuda::program.
[[nodiscard]] std::unique_ptr<model> ingest(const gsched_model& what, int gpu);

} // namespace gsched::abi
