// SPDX-License-Identifier: Apache-2.0
#include "gate_order.hpp"

#include <algorithm>
#include <iterator>

namespace gsched::cuda {

gate_order::gate_order(std::size_t nodes, std::span<const graph_edge> edges)
    : before_(nodes), behind_(nodes) {
  for (const auto& [from, to] : edges) before_[to].push_back(from);
}

gate_order::step gate_order::pass(std::uint32_t node, role what) {
  const std::vector<std::uint32_t>& before = before_[node];
  const auto is_before = [&](std::uint32_t other) {
    return std::find(before.begin(), before.end(), other) != before.end();
  };
  step s;
  std::uint32_t behind = 0; // what was not passed is behind no gate
  for (const std::uint32_t p : before) behind = std::max(behind, behind_[p]);
  if (behind < gates_) s.waits = latest_follows_ && behind + 1 < gates_ ? 2 : 1;
  behind_[node] = gates_;
  if (what == role::beside) {
    s.ends = open_;
    s.follows = gates_ > 0 && std::all_of(open_.begin(), open_.end(),
                                          [&](std::uint32_t u) { return behind_[u] < gates_; });
    latest_follows_ = s.follows;
    ++gates_;
  } else if (what == role::gates) {
    std::copy_if(open_.begin(), open_.end(), std::back_inserter(s.ends),
                 [&](std::uint32_t u) { return !is_before(u); });
    open_.clear();
    latest_follows_ = false;
    behind_[node] = ++gates_;
  }
  std::erase_if(open_, is_before);
  open_.push_back(node);
  return s;
}

} // namespace gsched::cuda
