// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "desk.hpp"
#include "engine.hpp"
#include "settings.hpp"

#include <memory>

namespace gsched::abi {

/// An engine on a GPU, of the policy that is asked for. On the server's thread.
[[nodiscard]] std::unique_ptr<engine> make_cuda_engine(desk& at, const settings& how);

} // namespace gsched::abi
