// SPDX-License-Identifier: Apache-2.0
#include "../../cuda/src/graph_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace gsched::cuda {
namespace {

using numbers = std::vector<std::uint32_t>;

/// The least, in dictionary order, of all orders of n nodes that keep the edges; empty if none.
numbers brute_force_order(std::uint32_t n, const std::vector<graph_edge>& edges) {
  numbers order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  do {
    numbers place(n);
    for (std::uint32_t i = 0; i < n; ++i) place[order[i]] = i;
    if (std::all_of(edges.begin(), edges.end(),
                    [&](const graph_edge& e) { return place[e.first] < place[e.second]; }))
      return order;
  } while (std::next_permutation(order.begin(), order.end()));
  return {};
}

TEST_CASE("a topological order is the least one that keeps all edges") {
  std::mt19937 random(7);
  int cycles = 0;
  for (int round = 0; round < 400; ++round) {
    const auto n = static_cast<std::uint32_t>(1 + random() % 7);
    std::vector<graph_edge> edges;
    for (auto e = random() % (2 * n); e > 0; --e) {
      const auto a = static_cast<std::uint32_t>(random() % n);
      const auto b = static_cast<std::uint32_t>(random() % n);
      if (a != b) edges.emplace_back(a, b);
    }
    const numbers expected = brute_force_order(n, edges);
    const numbers got = topological_order(n, edges);
    if (expected.empty()) {
      ++cycles;
      CHECK(got.size() < n);
    } else {
      CHECK(got == expected);
    }
  }
  CHECK(cycles > 10);
}

TEST_CASE("edges told twice do no harm") {
  const std::vector<graph_edge> edges{{1, 0}, {1, 0}, {0, 2}};
  CHECK(topological_order(3, edges) == numbers{1, 0, 2});
}

/// A random graph of kernels, empty nodes and child graphs.
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
      if (random() % 3 == 0) level.edges.emplace_back(shuffled[a], shuffled[b]);
  return level;
}

/// The graph without levels: a child graph is a start, an end, and what is between.
struct plain_graph {
  std::vector<const level_node*> nodes; ///< null for the starts and ends
  std::vector<graph_edge> edges;

  std::uint32_t add(const level_node* n) {
    nodes.push_back(n);
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
  std::pair<std::uint32_t, std::uint32_t> add_level(const graph_level& level) {
    const std::uint32_t start = add(nullptr);
    const std::uint32_t end = add(nullptr);
    if (level.nodes.empty()) edges.emplace_back(start, end);
    std::vector<graph_edge> ends;
    for (const level_node& n : level.nodes) {
      if (n.child) {
        ends.push_back(add_level(*n.child));
      } else {
        const std::uint32_t self = add(&n);
        ends.emplace_back(self, self);
      }
    }
    for (std::uint32_t i = 0; i < level.nodes.size(); ++i) {
      const auto is_first = [i](const graph_edge& e) { return e.second == i; };
      const auto is_last = [i](const graph_edge& e) { return e.first == i; };
      if (std::none_of(level.edges.begin(), level.edges.end(), is_first))
        edges.emplace_back(start, ends[i].first);
      if (std::none_of(level.edges.begin(), level.edges.end(), is_last))
        edges.emplace_back(ends[i].second, end);
    }
    for (const graph_edge& e : level.edges)
      edges.emplace_back(ends[e.first].second, ends[e.second].first);
    return {start, end};
  }

  /// Whether a path leads from one to the other, through nodes that `through` takes.
  template <class Through>
  [[nodiscard]] std::set<std::uint32_t> reach(std::uint32_t from, Through through) const {
    std::set<std::uint32_t> seen;
    numbers open{from};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      if (at != from && !through(at)) continue;
      for (const graph_edge& e : edges)
        if (e.first == at && seen.insert(e.second).second) open.push_back(e.second);
    }
    return seen;
  }
};

TEST_CASE("operations of nested graphs: order, what each waits for, and what goes with them") {
  std::mt19937 random(11);
  int with_children = 0;
  for (int round = 0; round < 300; ++round) {
    graph_level top = random_level(random, 0);
    flat_graph flat;
    REQUIRE(flatten(top, flat));
    plain_graph plain;
    plain.add_level(top);
    const auto n = static_cast<std::uint32_t>(flat.operations.size());
    for (const level_node& node : top.nodes) with_children += node.child ? 1 : 0;

    for (std::uint32_t i = 0; i < n; ++i) {
      CHECK(flat.operations[i]->first == i);
      CHECK(flat.operations[i]->last == i + 1);
    }
    const auto is_operation = [&](std::uint32_t p) {
      return plain.nodes[p] != nullptr && plain.nodes[p]->is_operation();
    };
    std::vector<std::set<std::uint32_t>> after(n);
    for (std::uint32_t a = 0; a < plain.nodes.size(); ++a) {
      if (!is_operation(a)) continue;
      for (const std::uint32_t b : plain.reach(a, [&](auto p) { return !is_operation(p); }))
        if (is_operation(b)) after[plain.nodes[b]->first].insert(plain.nodes[a]->first);
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      CHECK(flat.after[i] == numbers(after[i].begin(), after[i].end()));
      for (const std::uint32_t a : flat.after[i]) CHECK(a < i);
    }
    // What stands between two operations of a range is in the range, or taking it out would lose
    // the edges that lead through it.
    for (std::uint32_t a = 0; a < plain.nodes.size() && n > 0; ++a) {
      if (plain.nodes[a] == nullptr) continue;
      CHECK(plain.nodes[a]->last == plain.nodes[a]->first + 1);
      CHECK(plain.nodes[a]->last <= n);
      for (const std::uint32_t b : plain.reach(a, [](auto) { return true; }))
        if (plain.nodes[b] != nullptr) CHECK(plain.nodes[a]->first <= plain.nodes[b]->first);
    }
  }
  CHECK(with_children > 50);
}

void check_ranges_of_children(const graph_level& level) {
  for (const level_node& node : level.nodes) {
    if (!node.child || node.child->nodes.empty()) continue;
    std::set<std::uint32_t> inside;
    for (const level_node& inner : node.child->nodes)
      for (std::uint32_t i = inner.first; i < inner.last; ++i) inside.insert(i);
    CHECK(*inside.begin() == node.first);
    CHECK(*inside.rbegin() + 1 == node.last);
    CHECK(inside.size() == node.last - node.first); // so a child that is kept is never emptied
    check_ranges_of_children(*node.child);
  }
}

TEST_CASE("a child graph covers what its nodes cover, without a gap") {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    graph_level top = random_level(random, 0);
    flat_graph flat;
    REQUIRE(flatten(top, flat));
    check_ranges_of_children(top);
  }
}

TEST_CASE("a cycle is found, in a child graph too") {
  graph_level top;
  top.nodes.resize(2);
  top.nodes[1].type = CU_GRAPH_NODE_TYPE_GRAPH;
  top.nodes[1].child = std::make_unique<graph_level>();
  top.nodes[1].child->nodes.resize(2);
  flat_graph flat;
  CHECK(flatten(top, flat));
  top.nodes[1].child->edges = {{0, 1}, {1, 0}};
  CHECK(!flatten(top, flat));
}

} // namespace
} // namespace gsched::cuda
