// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/policy/detail/conformance_rig.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

namespace gsched::test {

using conformance::drain;
using conformance::draw_facts;
using conformance::workload;

} // namespace gsched::test
