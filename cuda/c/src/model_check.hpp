// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/gsched_c.h>

namespace gsched::abi {

/// Checks all of a caller's model that needs no CUDA: what is missing, out of range, or differs
/// between the instances.
/// Errors   refusal with GSCHED_BAD_ARGUMENT, which names the field.
void check_model(const gsched_model& what);

} // namespace gsched::abi
