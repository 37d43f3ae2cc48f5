// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gsched::cuda {

/// The version of the installed driver, as "580.65.06"; empty if the system does not report it.
[[nodiscard]] std::string installed_driver();

/// 13000 as "13.0".
[[nodiscard]] std::string cuda_version(int v);

} // namespace gsched::cuda
