// SPDX-License-Identifier: Apache-2.0
//
// Where gates go in a graph, against what they are for: wherever a run of the graph is held,
// nothing beyond the kernel beside the next gate starts.
#include "../../cuda/src/gate_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace gsched::cuda {
namespace {

using numbers = std::vector<std::uint32_t>;

/// Nodes in order, the gates behind them, and all edges.
struct gated {
  std::uint32_t nodes = 0;
  std::vector<graph_edge> edges;
  numbers beside; ///< by gate
  std::vector<bool> followed;

  [[nodiscard]] std::size_t size() const { return nodes + beside.size(); }
};

gated with_gates(std::uint32_t n, const std::vector<graph_edge>& edges, unsigned every) {
  gated g{n, edges, {}, {}};
  gate_order order(n, edges);
  for (std::uint32_t i = 0; i < n; ++i) {
    const bool beside = i > 0 && (i - 1) % every == 0 && i + 1 < n;
    const auto s = order.pass(i, beside ? gate_order::role::beside : gate_order::role::plain);
    const auto latest = static_cast<std::uint32_t>(n + g.beside.size() - 1);
    REQUIRE(s.waits <= g.beside.size());
    for (unsigned k = 0; k < s.waits; ++k) g.edges.emplace_back(latest - k, i);
    if (!beside) continue;
    CHECK(!s.ends.empty());
    if (s.follows) g.followed.back() = true;
    for (const std::uint32_t u : s.ends) g.edges.emplace_back(u, latest + 1);
    g.beside.push_back(i);
    g.followed.push_back(false);
  }
  return g;
}

/// Runs all nodes that can run, and gates too if they are open. Those done are marked.
void run(const gated& g, std::vector<bool>& done, bool open, std::mt19937& random,
         std::optional<std::size_t> most) {
  for (std::size_t ran = 0; !most || ran < *most; ++ran) {
    numbers ready;
    for (std::uint32_t v = 0; v < g.size(); ++v)
      if (!done[v] && (open || v < g.nodes) &&
          std::all_of(g.edges.begin(), g.edges.end(),
                      [&](const graph_edge& e) { return e.second != v || done[e.first]; }))
        ready.push_back(v);
    if (ready.empty()) return;
    done[ready[random() % ready.size()]] = true;
  }
}

std::vector<graph_edge> drawn_edges(std::uint32_t n, std::mt19937& random) {
  std::vector<graph_edge> edges;
  const auto kind = random() % 3;
  for (std::uint32_t i = 1; i < n; ++i) {
    if (kind == 0) {
      edges.emplace_back(i - 1, i); // a chain
      continue;
    }
    std::set<std::uint32_t> from;
    for (auto e = random() % (kind + 2); e > 0; --e)
      from.insert(static_cast<std::uint32_t>(random() % i));
    for (const std::uint32_t u : from) edges.emplace_back(u, i);
  }
  return edges;
}

TEST_CASE("a chain has one edge to each gate and one from it") {
  std::vector<graph_edge> chain;
  for (std::uint32_t i = 1; i < 6; ++i) chain.emplace_back(i - 1, i);
  for (const unsigned every : {1u, 2u, 4u}) {
    const gated g = with_gates(6, chain, every);
    CHECK(g.beside == (every == 1 ? numbers{1, 2, 3, 4} : every == 2 ? numbers{1, 3} : numbers{1}));
    CHECK(g.edges.size() == 5 + 2 * g.beside.size());
    for (std::size_t k = 0; k < g.beside.size(); ++k)
      CHECK(g.followed[k] == (every == 1 && k + 1 < g.beside.size()));
  }
}

TEST_CASE("what is held at any instant stops before the node after the next gate") {
  std::mt19937 random(3);
  std::size_t held = 0;
  std::size_t pairs = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto n = static_cast<std::uint32_t>(2 + random() % 12);
    const gated g = with_gates(n, drawn_edges(n, random), static_cast<unsigned>(1 + random() % 3));
    std::vector<bool> done(g.size());
    run(g, done, true, random, random() % (g.size() + 1));
    const std::vector<bool> before = done;
    run(g, done, false, random, {});
    numbers standing; // all it waits for is done, and it is not
    for (std::uint32_t k = 0; k < g.beside.size(); ++k) {
      const std::uint32_t v = n + k;
      if (!done[v] && std::all_of(g.edges.begin(), g.edges.end(), [&](const graph_edge& e) {
            return e.second != v || done[e.first];
          }))
        standing.push_back(k);
    }
    const auto first = static_cast<std::uint32_t>(
        std::find(before.begin() + n, before.end(), false) - before.begin() - n);
    if (first == g.beside.size()) { // it has passed all
      CHECK(standing.empty());
      CHECK(std::all_of(done.begin(), done.end(), [](bool d) { return d; }));
      continue;
    }
    ++held;
    REQUIRE(!standing.empty());
    CHECK(standing.front() == first);
    for (std::uint32_t v = 0; v < n; ++v) {
      if (v > g.beside[first]) CHECK(done[v] == before[v]); // nothing starts beyond
      if (v <= g.beside[first]) CHECK(done[v]);
    }
    // Two share no word, and the second one says that the kernel beside the first has ended. It
    // may have passed before the first one was looked at.
    const bool follower = g.followed[first] && !before[n + first + 1];
    CHECK(standing.size() == (follower ? 2 : 1));
    if (standing.size() == 2) CHECK(standing[1] == first + 1);
    pairs += standing.size() == 2 ? 1u : 0u;
    run(g, done, true, random, {});
    CHECK(std::all_of(done.begin(), done.end(), [](bool d) { return d; }));
  }
  CHECK(held > 500);
  CHECK(pairs > 100);
}

TEST_CASE("a child graph with gates waits for all before it, and all after it for the child") {
  // 0 forks to 1 and 2, which is the child; 3 comes after 1 alone, 4 after all.
  const std::vector<graph_edge> edges{{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 4}};
  gate_order order(5, edges);
  const auto plain = gate_order::role::plain;
  CHECK(order.pass(0, plain).waits == 0);
  CHECK(order.pass(1, plain).waits == 0);
  const auto child = order.pass(2, gate_order::role::gates);
  CHECK(child.waits == 0);
  CHECK(child.ends == numbers{1});
  CHECK(order.pass(3, plain).waits == 1);
  CHECK(order.pass(4, plain).waits == 0);
}

} // namespace
} // namespace gsched::cuda
