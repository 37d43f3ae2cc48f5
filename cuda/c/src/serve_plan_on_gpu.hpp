// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_settings.hpp"
#include "server.hpp"

#include <gsched/gsched_c.h>

#include <gsched/server/plan_server.hpp>

#include <cstdint>
#include <memory>

namespace gsched::abi {

struct served_plan {
  std::unique_ptr<plan_server> serves;
  plan_notes notes; ///< its warning as compare_machines returns it
};

/// Reads the graphs of the models, and opens a server that serves them by plans on the GPUs.
/// Errors   those of gsched_plan_open; refusal for GPUs of several kinds, and for a graph's buffer
///          that is on another GPU than the graph.
[[nodiscard]] served_plan serve_plan_on_gpu(const plan_settings& how,
                                            const gsched_plan_model* models, std::uint32_t count);

} // namespace gsched::abi
