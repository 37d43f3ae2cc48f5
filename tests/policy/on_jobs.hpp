// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy/workload.hpp"

#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

namespace gsched::test {

using conformance::on_jobs;

} // namespace gsched::test
