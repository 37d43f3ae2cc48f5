// SPDX-License-Identifier: Apache-2.0
#include "graph_order.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace gsched::cuda {

namespace {

using numbers = std::vector<std::uint32_t>;

void unite(numbers& into, const numbers& more) {
  numbers both;
  both.reserve(into.size() + more.size());
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
  into = std::move(both);
}

/// For each node, those that an edge leads to.
std::vector<numbers> successors(std::size_t n, std::span<const graph_edge> edges) {
  std::vector<numbers> out(n);
  for (const auto& [from, to] : edges) out[from].push_back(to);
  return out;
}

class flattening {
public:
  explicit flattening(flat_graph& into) noexcept : flat_(into) {}

  /// Places a level that waits for operations `ahead`; gives those that its end waits for.
  numbers place(graph_level& level, const numbers& ahead) {
    const std::size_t n = level.nodes.size();
    level.order = topological_order(n, level.edges);
    if (level.order.size() != n) acyclic_ = false;
    if (n == 0 || !acyclic_) return ahead;

    const std::vector<numbers> next = successors(n, level.edges);
    std::vector<numbers> waits(n);
    std::vector<bool> has_predecessor(n);
    numbers end;
    for (const std::uint32_t i : level.order) {
      numbers& w = has_predecessor[i] ? waits[i] : (waits[i] = ahead);
      const numbers done = pass(level.nodes[i], w);
      for (const std::uint32_t s : next[i]) {
        has_predecessor[s] = true;
        unite(waits[s], done);
      }
      if (next[i].empty()) unite(end, done);
    }
    return end;
  }

  [[nodiscard]] bool acyclic() const noexcept { return acyclic_; }

private:
  /// What waiting for the node means, if the node waits for those operations.
  numbers pass(level_node& node, const numbers& waits) {
    const auto next = static_cast<std::uint32_t>(flat_.operations.size());
    node.first = next > 0 ? next - 1 : 0;
    node.last = node.first + 1;
    if (node.is_operation()) {
      flat_.operations.push_back(&node);
      flat_.after.push_back(waits);
      node.first = next;
      node.last = next + 1;
      return {next};
    }
    if (!node.child) return waits;
    const numbers end = place(*node.child, waits);
    for (const level_node& inner : node.child->nodes) {
      node.last = std::max(node.last, inner.last);
      if (&inner == &node.child->nodes.front()) node.first = inner.first;
      node.first = std::min(node.first, inner.first);
    }
    return end;
  }

  flat_graph& flat_;
  bool acyclic_ = true;
};

} // namespace

std::vector<std::uint32_t> topological_order(std::size_t n, std::span<const graph_edge> edges) {
  const std::vector<numbers> next = successors(n, edges);
  std::vector<std::size_t> missing(n);
  for (const auto& [from, to] : edges) ++missing[to];
  std::priority_queue<std::uint32_t, numbers, std::greater<>> ready;
  for (std::uint32_t i = 0; i < n; ++i)
    if (missing[i] == 0) ready.push(i);
  numbers order;
  order.reserve(n);
  while (!ready.empty()) {
    const std::uint32_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const std::uint32_t s : next[i])
      if (--missing[s] == 0) ready.push(s);
  }
  return order;
}

bool flatten(graph_level& top, flat_graph& into) {
  flattening f(into);
  static_cast<void>(f.place(top, {}));
  return f.acyclic();
}

} // namespace gsched::cuda
