// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/devices/queued_time.hpp"
#include "gsched_server/settings/settings.hpp"

#include <gsched/server/model.hpp>

#include <memory>
#include <optional>
#include <string>

namespace gsched_server {

/// A model of an adaptor, on any kind of device. Outputs are what it computes.
/// Errors   gsched::error with one line that names the library.
[[nodiscard]] std::unique_ptr<gsched::served_model> make_adapted(const model_plan& m,
                                                                 queued_time& queued,
                                                                 const std::string& device,
                                                                 std::optional<int> gpu);

} // namespace gsched_server
