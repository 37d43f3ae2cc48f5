// SPDX-License-Identifier: Apache-2.0
#include "program_gates.hpp"

#include "gate.hpp"
#include "graph_priority.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <utility>

namespace gsched::cuda {

gate_order::role level_gates::role_of(const level_node& node, bool within) noexcept {
  if (within) return gate_order::role::gates;
  if (node.type != CU_GRAPH_NODE_TYPE_KERNEL) return gate_order::role::plain;
  const std::uint32_t k = all_.kernels++;
  // From the second kernel on, so that a graph begins with one node.
  const bool beside = k > 0 && (k - 1) % all_.every == 0 && node.last < all_.last;
  return beside ? gate_order::role::beside : gate_order::role::plain;
}

void level_gates::pass(std::uint32_t i, bool within) {
  const gate_order::role what = role_of(level_.nodes[i], within);
  const gate_order::step s = order_.pass(i, what);
  for (unsigned k = 0; k < s.waits; ++k) wait_for(latest_[k], found_[i]);
  if (what == gate_order::role::beside) build_beside(i, s);
  if (what != gate_order::role::gates) return;
  for (const std::uint32_t u : s.ends) wait_for(found_[u], found_[i]);
  latest_[1] = std::exchange(latest_[0], found_[i]);
}

void level_gates::wait_for(CUgraphNode before, CUgraphNode node) {
  const CUgraphEdgeData whole{};
  check(driver().cuGraphAddDependencies(clone_, &before, &node, &whole, 1), all_.what.c_str());
}

void level_gates::build_beside(std::uint32_t i, const gate_order::step& s) {
  std::vector<CUgraphNode> ends;
  for (const std::uint32_t u : s.ends) ends.push_back(found_[u]);
  auto number = static_cast<std::uint32_t>(all_.made.size());
  CUdeviceptr line = all_.line;
  void* arguments[] = {&line, &number};
  CUDA_KERNEL_NODE_PARAMS k{};
  k.kern = gate_kernel();
  k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = arguments;
  const char* const what = all_.what.c_str();
  latest_[1] = latest_[0];
  check(driver().cuGraphAddKernelNode(&latest_[0], clone_, ends.data(), ends.size(), &k), what);
  copy_priority(found_[i], latest_[0], what);
  if (s.follows) all_.made.back().followed = true;
  all_.made.push_back({level_.nodes[i].first, false});
}

} // namespace gsched::cuda
