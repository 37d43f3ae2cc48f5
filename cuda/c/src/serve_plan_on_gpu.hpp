// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_settings.hpp"

#include <gsched/gsched_c.h>

#include <gsched/server/plan_server.hpp>

#include <cstdint>
#include <memory>

namespace gsched::abi {

/// Reads the graphs of the models, and opens a server that serves them by plans on a GPU.
[[nodiscard]] std::unique_ptr<plan_server>
serve_plan_on_gpu(const plan_settings& how, const gsched_plan_model* models, std::uint32_t count);

} // namespace gsched::abi
