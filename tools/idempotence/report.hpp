// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "idempotence/network.hpp"

#include <gsched/preempt/idempotence.hpp>

#include <iosfwd>
#include <vector>

namespace idempotence {

/// A table of the operations with their verdicts and why, and a line of counts.
void print(std::ostream& out, const finding& f,
           const std::vector<gsched::idempotence_verdict>& verdicts);

/// {"runs": [...]}, one for each finding.
void write_json(std::ostream& out, const std::vector<finding>& findings,
                const std::vector<std::vector<gsched::idempotence_verdict>>& verdicts);

} // namespace idempotence
