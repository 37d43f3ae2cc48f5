// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/facts.hpp"
#include "padding/potential.hpp"

#include <ostream>
#include <span>
#include <vector>

namespace padding {

/// By real-time model: the mean over all co-runners and the best one, by each form of rule 2.
void print(std::ostream& out, std::span<const potential> all, bool predicted);
void write_json(std::ostream& out, std::span<const potential> all, const question& q);

/// A row a pair; and how far the predictions are from what was measured, where it was. `gap` is
/// from a kernel's end to the next one's start, which measured whole kernels have.
void print(std::ostream& out, std::span<const pair_result> all, gsched::duration gap);
void write_json(std::ostream& out, std::span<const pair_result> all);

} // namespace padding
