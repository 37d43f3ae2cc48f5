// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>

namespace gsched::abi {

/// As gsched_profile_graph. Throws refusal or gsched::error.
void write_profile_of(void* graph, const gsched_profile_options& how, const char* path);

} // namespace gsched::abi
