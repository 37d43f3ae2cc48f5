// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/program_node.hpp"

#include <deque>
#include <string>

namespace gsched::cuda {

/// Errors   bad_graph for a graph of another GPU: where operations use memory of GPUs and none of
///          it is this one's. Managed memory is no GPU's. A graph that also uses this GPU's memory
///          is fit, as copies between GPUs are.
/// Cost     calls of the driver until the first memory of this GPU is found, as a rule a few.
void expect_memory_of(int gpu, const std::deque<program_node>& nodes, const std::string& where);

} // namespace gsched::cuda
