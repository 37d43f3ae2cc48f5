// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "settings.hpp"

#include <gsched/server/server.hpp>

#include <memory>

namespace gsched::abi {

/// A server on a GPU.
[[nodiscard]] std::unique_ptr<gsched::server> serve_on_gpu(const settings& how);

} // namespace gsched::abi
