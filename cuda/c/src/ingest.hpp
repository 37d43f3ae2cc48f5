// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.hpp"

#include <gsched/gsched_c.h>

namespace gsched::abi {

/// Reads the graphs of a model and measures the first, unless its times are given; the facts say
/// what was found. On the calling thread.
/// Errors   refusal for what the caller got wrong, else as cuda::program.
[[nodiscard]] model_record ingest(const gsched_model& what, int gpu);

/// Whether it is device memory of any GPU, managed memory included.
[[nodiscard]] bool is_device_memory(const void* p) noexcept;

} // namespace gsched::abi
