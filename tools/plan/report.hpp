// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/options.hpp"
#include "plan/totals.hpp"

#include <iosfwd>
#include <vector>

namespace plan {

/// One scenario: the plans. Several: how many of them each planner can serve.
void print(std::ostream& out, const options& o, const answers& all);
void write_json(std::ostream& out, const options& o, const answers& all);

/// By scenario, then planner.
void print_scales(std::ostream& out, const options& o, const std::vector<double>& scales);
void write_scales_json(std::ostream& out, const options& o, const std::vector<double>& scales);

} // namespace plan
