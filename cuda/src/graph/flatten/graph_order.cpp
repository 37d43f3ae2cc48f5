// SPDX-License-Identifier: Apache-2.0
#include "graph/flatten/graph_order.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace gsched::cuda {

namespace {

using numbers = std::vector<std::uint32_t>;

void unite(numbers& into, const numbers& more) {
  numbers both;
  both.reserve(into.size() + more.size());
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
  into = std::move(both);
}

/// The nodes of all levels in capture order; a child graph's nodes take the place of its node.
class inlined {
public:
  struct node {
    CUgraphNode handle = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    bool is_operation = false;
  };
  std::vector<node> nodes;
  std::vector<graph_edge> edges;

  explicit inlined(const graph_level& top) { static_cast<void>(add(top)); }

private:
  /// The nodes at which a part of the graph begins, and the nodes whose ends complete it.
  struct ends {
    numbers first, last;
  };

  std::uint32_t add_node(const node& n) {
    nodes.push_back(n);
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }

  ends add(const level_node& n) {
    if (n.child && !n.child->nodes.empty()) return add(*n.child);
    const bool empty = n.type == CU_GRAPH_NODE_TYPE_GRAPH;
    const std::uint32_t at = add_node(empty ? node{} : node{n.handle, n.type, n.is_operation()});
    return {{at}, {at}};
  }

  ends add(const graph_level& level) {
    std::vector<ends> of;
    of.reserve(level.nodes.size());
    for (const level_node& n : level.nodes) of.push_back(add(n));
    std::vector<bool> waits(level.nodes.size()), is_waited_for(level.nodes.size());
    for (const graph_edge& e : level.edges) {
      connect(level, e, of[e.from].last, of[e.to].first);
      waits[e.to] = true;
      if (e.is_full()) is_waited_for[e.from] = true;
    }
    ends all;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (!waits[i]) all.first.insert(all.first.end(), of[i].first.begin(), of[i].first.end());
      if (!is_waited_for[i]) all.last.insert(all.last.end(), of[i].last.begin(), of[i].last.end());
    }
    return all;
  }

  void connect(const graph_level& level, const graph_edge& e, numbers from, const numbers& to) {
    if (from.size() > 1 && to.size() > 1) { // one node between them saves an edge for each pair
      const std::uint32_t between = add_node({});
      for (const std::uint32_t u : from) edges.push_back({u, between, {}});
      from = {between};
    }
    const bool plain = !level.nodes[e.from].child && !level.nodes[e.to].child;
    for (const std::uint32_t u : from)
      for (const std::uint32_t v : to) edges.push_back({u, v, plain ? e.data : CUgraphEdgeData{}});
  }
};

/// For each node, the edges whose `end` is that node.
std::vector<numbers> edges_by(std::uint32_t graph_edge::*end, std::size_t n,
                              std::span<const graph_edge> edges) {
  std::vector<numbers> out(n);
  for (std::uint32_t e = 0; e < edges.size(); ++e) out[edges[e].*end].push_back(e);
  return out;
}

/// A topological order; shorter than n if there is a cycle.
numbers any_order(std::size_t n, std::span<const graph_edge> edges,
                  const std::vector<numbers>& out) {
  std::vector<std::size_t> missing(n);
  for (const graph_edge& e : edges) ++missing[e.to];
  numbers order;
  order.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i)
    if (missing[i] == 0) order.push_back(i);
  for (std::size_t at = 0; at < order.size(); ++at)
    for (const std::uint32_t e : out[order[at]])
      if (--missing[edges[e].to] == 0) order.push_back(edges[e].to);
  return order;
}

/// For each node, its number in program order; empty for nodes that are not operations.
std::vector<std::optional<std::uint32_t>>
number_operations(const inlined& all, const numbers& order, const std::vector<numbers>& in) {
  std::vector<std::uint32_t> depth(all.nodes.size());
  numbers operations;
  for (const std::uint32_t i : order) {
    for (const std::uint32_t e : in[i]) depth[i] = std::max(depth[i], depth[all.edges[e].from]);
    if (!all.nodes[i].is_operation) continue;
    ++depth[i];
    operations.push_back(i);
  }
  std::sort(operations.begin(), operations.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(depth[a], a) < std::pair(depth[b], b);
  });
  std::vector<std::optional<std::uint32_t>> number(all.nodes.size());
  for (std::uint32_t i = 0; i < operations.size(); ++i) number[operations[i]] = i;
  return number;
}

} // namespace

std::optional<flat_graph> flatten(const graph_level& top) {
  const inlined all(top);
  const std::size_t n = all.nodes.size();
  const std::vector<numbers> out = edges_by(&graph_edge::from, n, all.edges);
  const std::vector<numbers> in = edges_by(&graph_edge::to, n, all.edges);
  numbers order = any_order(n, all.edges, out);
  if (order.size() != n) return std::nullopt;
  const auto number = number_operations(all, order, in);

  flat_graph flat;
  const auto operations = static_cast<std::size_t>(
      std::count_if(number.begin(), number.end(), [](const auto& i) { return i.has_value(); }));
  flat.after.resize(operations);
  flat.node_of.resize(operations);
  std::vector<numbers> waits(n); // of a non-operation: the operations that it depends on
  numbers with(n);               // the operation to which a node belongs
  for (const std::uint32_t i : order) {
    numbers before;
    for (const std::uint32_t e : in[i]) {
      const std::uint32_t u = all.edges[e].from;
      with[i] = std::max(with[i], with[u]);
      unite(before, number[u] ? numbers{*number[u]} : waits[u]);
    }
    if (number[i]) {
      with[i] = *number[i];
      flat.after[*number[i]] = std::move(before);
    } else {
      waits[i] = std::move(before);
    }
  }
  // The sort is stable: the nodes of one operation stay in topological order.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return with[a] < with[b]; });
  numbers place(n);
  for (std::uint32_t at = 0; at < n; ++at) place[order[at]] = at;
  flat.first_node.assign(operations + 1, static_cast<std::uint32_t>(n));
  for (std::uint32_t at = 0; at < n; ++at) {
    const std::uint32_t i = order[at];
    flat_node& node = flat.nodes.emplace_back();
    node.handle = all.nodes[i].handle;
    node.type = all.nodes[i].type;
    node.operation = with[i];
    for (const std::uint32_t e : in[i])
      node.before.push_back({place[all.edges[e].from], at, all.edges[e].data});
    if (operations == 0) continue;
    flat.first_node[with[i]] = std::min(flat.first_node[with[i]], at);
    if (number[i]) flat.node_of[*number[i]] = at;
  }
  return flat;
}

namespace {

/// For each cut: the operations before it whose dependents are all behind it, and the operations
/// behind it whose dependencies are all before it, each not counting the first.
std::vector<std::int64_t> branches_at(std::span<const std::vector<std::uint32_t>> after) {
  const std::size_t n = after.size();
  std::vector<std::size_t> first_waits(n, 0);           // first dependent; 0: none
  std::vector<std::int64_t> ends(n + 2), begins(n + 2); // difference to the previous cut
  for (std::size_t i = 0; i < n; ++i) {
    if (after[i].empty()) continue;
    for (const std::uint32_t u : after[i])
      if (first_waits[u] == 0) first_waits[u] = i;
    ++begins[after[i].back() + std::size_t{1}];
    --begins[i + 1];
  }
  for (std::size_t u = 0; u < n; ++u) {
    if (first_waits[u] == 0) continue;
    ++ends[u + 1];
    --ends[first_waits[u] + 1];
  }
  std::vector<std::int64_t> more(n + 1);
  std::int64_t before = 0;
  std::int64_t behind = 0;
  for (std::size_t i = 0; i <= n; ++i) {
    before += ends[i];
    behind += begins[i];
    more[i] = std::max<std::int64_t>(0, before - 1) + std::max<std::int64_t>(0, behind - 1);
  }
  return more;
}

} // namespace

std::vector<std::int64_t> cut_losses(std::span<const std::vector<std::uint32_t>> after,
                                     std::span<const std::int64_t> times, std::int64_t branch) {
  const std::size_t n = after.size();
  std::vector<std::int64_t> start(n), end(n), losses(n + 1);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (const std::uint32_t u : after[i]) start[i] = std::max(start[i], end[u]);
    end[i] = start[i] + times[i];
    last = std::max(last, end[i]);
  }
  const std::int64_t sum = std::accumulate(times.begin(), times.end(), std::int64_t{0});
  // The times add up to the time of the whole graph, so overlapping operations take longer.
  const double stretched = last > 0 ? static_cast<double>(sum) / static_cast<double>(last) : 1.0;
  std::vector<std::int64_t> next(n + 1, last); // the earliest start of operations i and later
  for (std::size_t i = n; i-- > 0;) next[i] = std::min(next[i + 1], start[i]);
  const std::vector<std::int64_t> branches = branches_at(after);
  std::int64_t ended = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t idle = std::max<std::int64_t>(0, ended - next[i]);
    losses[i] =
        static_cast<std::int64_t>(static_cast<double>(idle) * stretched) + branch * branches[i];
    ended = std::max(ended, end[i]);
  }
  return losses;
}

} // namespace gsched::cuda
