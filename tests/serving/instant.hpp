// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

namespace gsched::testing {

constexpr time_point at(duration since_start) { return time_point{since_start}; }

} // namespace gsched::testing
