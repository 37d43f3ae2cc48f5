// SPDX-License-Identifier: Apache-2.0
#include "graph/flatten/graph_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace gsched::cuda {
namespace {

using numbers = std::vector<std::uint32_t>;

/// One edge in five is programmatic.
CUgraphEdgeData drawn_kind(std::mt19937& random) {
  CUgraphEdgeData e{};
  if (random() % 5 > 0) return e;
  e.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  e.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return e;
}

/// A random graph of kernels, empty nodes and child graphs. A node's handle is its address, which
/// identifies it later.
graph_level random_level(std::mt19937& random, int depth) {
  graph_level level;
  const auto n = static_cast<std::uint32_t>(random() % 6 + (depth == 0 ? 1 : 0));
  for (std::uint32_t i = 0; i < n; ++i) {
    level_node& node = level.nodes.emplace_back();
    const auto what = random() % 6;
    node.type = what < 3 ? CU_GRAPH_NODE_TYPE_KERNEL : CU_GRAPH_NODE_TYPE_EMPTY;
    if (what == 5 && depth < 3) {
      node.type = CU_GRAPH_NODE_TYPE_GRAPH;
      node.child = std::make_unique<graph_level>(random_level(random, depth + 1));
    }
  }
  numbers shuffled(n);
  for (std::uint32_t i = 0; i < n; ++i) shuffled[i] = i;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = a + 1; b < n; ++b)
      if (random() % 3 == 0) level.edges.push_back({shuffled[a], shuffled[b], drawn_kind(random)});
  return level;
}

/// The graph without levels: a child graph becomes a start, an end, and its nodes between them.
struct plain_graph {
  std::vector<const level_node*> nodes; ///< null for starts and ends
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;

  std::uint32_t add(const level_node* n) {
    nodes.push_back(n);
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
  std::pair<std::uint32_t, std::uint32_t> add_level(const graph_level& level) {
    const std::uint32_t start = add(nullptr);
    const std::uint32_t end = add(nullptr);
    if (level.nodes.empty()) edges.emplace_back(start, end);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
    for (const level_node& n : level.nodes) {
      if (n.child) {
        ends.push_back(add_level(*n.child));
      } else {
        const std::uint32_t self = add(&n);
        ends.emplace_back(self, self);
      }
    }
    for (std::uint32_t i = 0; i < level.nodes.size(); ++i) {
      edges.emplace_back(start, ends[i].first);
      edges.emplace_back(ends[i].second, end);
    }
    for (const graph_edge& e : level.edges)
      edges.emplace_back(ends[e.from].second, ends[e.to].first);
    return {start, end};
  }

  /// Whether a path connects two nodes through nodes accepted by `through`.
  template <class Through>
  [[nodiscard]] std::set<std::uint32_t> reach(std::uint32_t from, Through through) const {
    std::set<std::uint32_t> seen;
    numbers open{from};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      if (at != from && !through(at)) continue;
      for (const auto& [a, b] : edges)
        if (a == at && seen.insert(b).second) open.push_back(b);
    }
    return seen;
  }
};

void name_nodes(graph_level& level) {
  for (level_node& n : level.nodes) {
    n.handle = reinterpret_cast<CUgraphNode>(&n);
    if (n.child) name_nodes(*n.child);
  }
}

TEST_CASE("a flattened graph keeps every dependency of the nested one, and adds none") {
  std::mt19937 random(11);
  int with_children = 0;
  for (int round = 0; round < 300; ++round) {
    graph_level top = random_level(random, 0);
    name_nodes(top);
    const std::optional<flat_graph> flat = flatten(top);
    REQUIRE(flat);
    plain_graph plain;
    plain.add_level(top);
    for (const level_node& node : top.nodes) with_children += node.child ? 1 : 0;

    std::map<const void*, std::uint32_t> place; // index of a node in the flat list
    for (std::uint32_t i = 0; i < flat->nodes.size(); ++i)
      if (flat->nodes[i].handle != nullptr) place[flat->nodes[i].handle] = i;
    std::vector<std::set<std::uint32_t>> reached(flat->nodes.size()); // by edges of the flat list
    for (std::uint32_t i = 0; i < flat->nodes.size(); ++i)
      for (const graph_edge& e : flat->nodes[i].before) {
        CHECK(e.from < i); // each edge leads forward
        CHECK(e.to == i);
        reached[i].insert(e.from);
        reached[i].insert(reached[e.from].begin(), reached[e.from].end());
      }
    const auto any = [](std::uint32_t) { return true; };
    for (std::uint32_t a = 0; a < plain.nodes.size(); ++a) {
      if (plain.nodes[a] == nullptr || !place.contains(plain.nodes[a])) continue;
      const std::set<std::uint32_t> after = plain.reach(a, any);
      for (std::uint32_t b = 0; b < plain.nodes.size(); ++b) {
        if (b == a || plain.nodes[b] == nullptr || !place.contains(plain.nodes[b])) continue;
        CHECK(after.contains(b) ==
              reached[place.at(plain.nodes[b])].contains(place.at(plain.nodes[a])));
      }
    }
  }
  CHECK(with_children > 50);
}

TEST_CASE("operations of nested graphs: order, dependencies, and the nodes that belong to them") {
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    graph_level top = random_level(random, 0);
    const std::optional<flat_graph> flat = flatten(top);
    REQUIRE(flat);
    const auto n = static_cast<std::uint32_t>(flat->operations());
    CHECK(flat->first_node.size() == n + 1);
    if (n == 0) continue;
    CHECK(flat->first_node.front() == 0);
    CHECK(flat->first_node.back() == flat->nodes.size());
    const auto is_operation = [&](std::uint32_t i) {
      return flat->node_of[flat->nodes[i].operation] == i;
    };
    std::vector<std::set<std::uint32_t>> waits(flat->nodes.size()); // operations, through others
    std::vector<std::uint32_t> depth(n);
    for (std::uint32_t i = 0; i < flat->nodes.size(); ++i) {
      const std::uint32_t op = flat->nodes[i].operation;
      CHECK(i >= flat->first_node[op]);
      CHECK(i < flat->first_node[op + 1]);
      for (const graph_edge& e : flat->nodes[i].before) {
        const flat_node& u = flat->nodes[e.from];
        if (is_operation(e.from))
          waits[i].insert(u.operation);
        else
          waits[i].insert(waits[e.from].begin(), waits[e.from].end());
      }
      if (!is_operation(i)) {
        CHECK(op == (waits[i].empty() ? 0 : *waits[i].rbegin())); // its last dependency
        continue;
      }
      CHECK(flat->after[op] == numbers(waits[i].begin(), waits[i].end()));
      for (const std::uint32_t u : flat->after[op]) depth[op] = std::max(depth[op], depth[u] + 1);
    }
    CHECK(std::is_sorted(depth.begin(), depth.end())); // so a cut divides all branches
  }
}

TEST_CASE("branches are interleaved, and a chain keeps its order") {
  graph_level top;
  top.nodes.resize(9);
  for (level_node& n : top.nodes) n.type = CU_GRAPH_NODE_TYPE_KERNEL;
  name_nodes(top);
  const auto chain = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first + 1; i < last; ++i) top.edges.push_back({i - 1, i, {}});
  };
  chain(0, 9);
  const auto order = [&] {
    numbers all;
    const std::optional<flat_graph> flat = flatten(top);
    REQUIRE(flat);
    for (const flat_node& n : flat->nodes)
      all.push_back(
          static_cast<std::uint32_t>(reinterpret_cast<level_node*>(n.handle) - top.nodes.data()));
    return all;
  };
  CHECK(order() == numbers{0, 1, 2, 3, 4, 5, 6, 7, 8});
  top.edges.clear();
  chain(0, 4); // captured one after the other: 0 to 3, and 4 to 8
  chain(4, 9);
  CHECK(order() == numbers{0, 4, 1, 5, 2, 6, 3, 7, 8});
}

TEST_CASE("dependents of a child graph wait for all of its nodes without an outgoing full edge") {
  graph_level top;
  top.nodes.resize(2);
  top.nodes[0].type = CU_GRAPH_NODE_TYPE_GRAPH;
  top.nodes[0].child = std::make_unique<graph_level>();
  top.nodes[0].child->nodes.resize(2);
  top.nodes[1].type = CU_GRAPH_NODE_TYPE_KERNEL;
  for (level_node& n : top.nodes[0].child->nodes) n.type = CU_GRAPH_NODE_TYPE_KERNEL;
  CUgraphEdgeData programmatic{};
  programmatic.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  programmatic.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  top.nodes[0].child->edges = {{0, 1, programmatic}};
  top.edges = {{0, 1, {}}};
  CHECK(flatten(top)->after[2] == numbers{0, 1}); // the second may end before the first
  top.nodes[0].child->edges = {{0, 1, {}}};
  CHECK(flatten(top)->after[2] == numbers{1});
}

TEST_CASE("a cycle is detected, also in a child graph") {
  graph_level top;
  top.nodes.resize(2);
  top.nodes[1].type = CU_GRAPH_NODE_TYPE_GRAPH;
  top.nodes[1].child = std::make_unique<graph_level>();
  top.nodes[1].child->nodes.resize(2);
  CHECK(flatten(top));
  top.nodes[1].child->edges = {{0, 1, {}}, {1, 0, {}}};
  CHECK(!flatten(top));
}

TEST_CASE("a cut costs the time for which branches wait, and nothing in a chain") {
  const std::vector<numbers> chain{{}, {0}, {1}, {2}};
  CHECK(cut_losses(chain, std::vector<std::int64_t>{5, 7, 9, 3}, 4) ==
        std::vector<std::int64_t>{0, 0, 0, 0, 0});
  // 0 and 1 start together, 2 follows 0, and 3 follows both branches.
  const std::vector<numbers> fork{{}, {}, {0}, {1, 2}};
  // Serial time 10 + 30 + 20 + 40 = 100, in parallel 30 + 40 = 70.
  const auto losses = cut_losses(fork, std::vector<std::int64_t>{10, 30, 20, 40}, 0);
  CHECK(losses[0] == 0);
  CHECK(losses[1] == 14); // 1 could start with 0, but waits 10 for its end: 10 * 100 / 70
  CHECK(losses[2] == 28); // 2 could start at 10, but waits for 1 until 30
  CHECK(losses[3] == 0);  // all branches end together
  CHECK(losses[4] == 0);
}

TEST_CASE("a cut costs more if more branches end or begin at it") {
  // 0, then the branches 1 4, 2 and 3, which join in 5, then 6; all times are 0.
  const std::vector<numbers> block{{}, {0}, {0}, {0}, {1}, {2, 3, 4}, {5}};
  const auto losses = cut_losses(block, std::vector<std::int64_t>(7), 10);
  CHECK(losses[0] == 0);
  CHECK(losses[1] == 20); // 1, 2 and 3 begin
  CHECK(losses[2] == 20); // 1 ends; 2, 3 and 4 begin
  CHECK(losses[3] == 20); // 1 and 2 end; 3 and 4 begin
  CHECK(losses[4] == 20); // 1, 2 and 3 end; 4 begins
  CHECK(losses[5] == 20); // 4, 2 and 3 end
  CHECK(losses[6] == 0);  // 5 ends, 6 begins
  CHECK(losses[7] == 0);
}

TEST_CASE("the branches at each cut equal a count by definition") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto n = static_cast<std::uint32_t>(1 + random() % 12);
    std::vector<numbers> after(n);
    for (std::uint32_t i = 1; i < n; ++i)
      for (std::uint32_t u = 0; u < i; ++u)
        if (random() % 3 == 0) after[i].push_back(u);
    const auto losses = cut_losses(after, std::vector<std::int64_t>(n), 1);
    for (std::uint32_t cut = 0; cut <= n; ++cut) {
      int ends = 0;
      int begins = 0;
      for (std::uint32_t u = 0; u < cut; ++u) {
        bool within = false;
        bool behind = false;
        for (std::uint32_t i = u + 1; i < n; ++i)
          if (std::find(after[i].begin(), after[i].end(), u) != after[i].end())
            (i < cut ? within : behind) = true;
        ends += behind && !within;
      }
      for (std::uint32_t i = cut; i < n; ++i) begins += !after[i].empty() && after[i].back() < cut;
      REQUIRE(losses[cut] == std::max(0, ends - 1) + std::max(0, begins - 1));
    }
  }
}

} // namespace
} // namespace gsched::cuda
