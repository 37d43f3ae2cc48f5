// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Smaller and simpler versions of a valid graph, which are valid too.
namespace work_graph {

namespace detail {

inline void add_edge(std::vector<edge>& to, const edge& e) {
  for (edge& there : to)
    if (there.from == e.from) {
      if (e.how == order::full) there = e;
      return;
    }
  to.push_back(e);
}

/// Nodes whose kinds, sizes or sources have changed fit one another again: those that have nothing
/// left to read compute, and those whose buffer does not hold them get one of their own.
inline void mend(graph& g) {
  for (node& n : g.nodes) {
    if ((n.what == kind::copy || n.what == kind::to_host) && n.reads.empty())
      n.what = n.what == kind::copy ? kind::kernel : kind::host;
    if (n.what == kind::copy || n.what == kind::to_host || n.what == kind::to_device)
      for (const std::uint32_t r : n.reads) n.bytes = std::min(n.bytes, g.nodes[r].bytes);
    if (n.what == kind::kernel || n.what == kind::host) n.bytes = std::max(n.bytes / 4 * 4, 4u);
    if (n.takes != none) {
      const node& from = g.nodes[n.takes];
      if (on_host(from.what) != on_host(n.what) || n.bytes > from.bytes) n.takes = none;
    }
    if (n.what != kind::set || n.set.end() <= n.bytes) continue;
    if (n.set.element > n.bytes) n.set.element = 1;
    n.set.height = 1;
    n.set.width = n.bytes / n.set.element;
    n.set.value &= 0xffffffffu >> (32 - 8 * n.set.element);
  }
}

} // namespace detail

/// Without the nodes that are not kept: what came behind those comes behind what was before them.
/// The members of a child node go with it, and a child node without members is empty.
[[nodiscard]] inline graph kept(const graph& g, const std::vector<bool>& keeps) {
  const std::size_t count = g.nodes.size();
  std::vector<bool> stays(count);
  for (std::size_t i = 0; i < count; ++i)
    stays[i] = keeps[i] && (g.nodes[i].parent == none || stays[g.nodes[i].parent]);
  std::vector<std::uint32_t> number(count, none);
  // Of each node: the kept nodes of its level that precede it, or stand in for it where it goes.
  std::vector<std::vector<edge>> after(count);
  graph made{g.name, g.seed, g.captured, {}};
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const edge& e : g.nodes[i].after) {
      if (stays[e.from]) {
        detail::add_edge(after[i], e);
        continue;
      }
      if (e.how == order::overlaps) continue;
      for (const edge& before : after[e.from])
        if (before.how != order::overlaps)
          detail::add_edge(after[i], {before.from, order::full, false});
    }
    if (!stays[i]) continue;
    node n = g.nodes[i];
    number[i] = static_cast<std::uint32_t>(made.nodes.size());
    if (n.parent != none) n.parent = number[n.parent];
    n.after = after[i];
    for (edge& e : n.after) e.from = number[e.from];
    std::erase_if(n.reads, [&](std::uint32_t r) { return !stays[r]; });
    for (std::uint32_t& r : n.reads) r = number[r];
    if (n.takes != none) n.takes = stays[n.takes] ? number[n.takes] : none;
    made.nodes.push_back(std::move(n));
  }
  for (std::uint32_t i = 0; i < made.nodes.size(); ++i)
    if (made.nodes[i].what == kind::child &&
        (i + 1 == made.nodes.size() || made.nodes[i + 1].parent != i))
      made.nodes[i].what = kind::empty;
  detail::mend(made);
  return made;
}

/// The members of child nodes are on the level of these, which become empty nodes in front of them
/// and stand for their ends no more.
[[nodiscard]] inline graph without_children(const graph& g) {
  graph made = g;
  std::vector<bool> has_successor(g.nodes.size());
  for (const node& n : g.nodes)
    for (const edge& e : n.after)
      if (e.how != order::overlaps) has_successor[e.from] = true;
  for (std::uint32_t i = 0; i < g.nodes.size(); ++i) {
    node& n = made.nodes[i];
    n.parent = none;
    std::vector<edge> after;
    // What begins a child graph comes behind the child node itself.
    if (g.nodes[i].parent != none) after.push_back({g.nodes[i].parent, order::full, false});
    for (const edge& e : g.nodes[i].after) {
      detail::add_edge(after, e);
      if (g.nodes[e.from].what != kind::child) continue;
      for (std::uint32_t m = e.from + 1; m < g.nodes.size() && ordering::is_within(g, m, e.from);
           ++m)
        if (!has_successor[m]) detail::add_edge(after, {m, order::full, false});
    }
    n.after = std::move(after);
    if (n.what == kind::child) n.what = kind::empty;
  }
  return made;
}

namespace detail {

template <class Change>
[[nodiscard]] graph changed(const graph& g, const Change& change) {
  graph made = g;
  for (node& n : made.nodes) change(n);
  mend(made);
  return made;
}

} // namespace detail

/// Whole features taken out, one at a time. Some may be the graph as it is.
[[nodiscard]] inline std::vector<graph> without_features(const graph& g) {
  using detail::changed;
  std::vector<graph> all{
      without_children(g),
      changed(g, [](node& n) { n.fill = 0, n.blocks = n.cluster, n.us = std::min(n.us, 5.); }),
      changed(g, [](node& n) { n.us = std::min(n.us, 5.); }),
      changed(g,
              [](node& n) {
                n.blocks = n.fill == 0 && n.cluster > 1 ? n.blocks / n.cluster : n.blocks;
                n.cluster = 1;
              }),
      changed(g, [](node& n) { n.cooperative = false; }),
      changed(g, [](node& n) { n.shared = 0; }),
      changed(g, [](node& n) { n.priority = 0; }),
      changed(g,
              [](node& n) {
                n.triggers = false;
                for (edge& e : n.after) e = {e.from, order::full, false};
              }),
      changed(g,
              [](node& n) {
                if (n.what == kind::set) n.what = kind::kernel;
              }),
      changed(g,
              [](node& n) {
                if (n.what == kind::copy) n.what = kind::kernel;
              }),
      changed(g,
              [](node& n) {
                if (on_host(n.what) || n.what == kind::to_device) n.what = kind::kernel;
              }),
      changed(g, [](node& n) { n.bytes = std::min(n.bytes, 64u); }),
      changed(g, [](node& n) { n.threads = 32; })};
  all.push_back(g);
  all.back().captured = false;
  return all;
}

/// Parts of the graph, the smallest ones first: halves, quarters and so on alone, then all but one
/// of them. At most `most`.
[[nodiscard]] inline std::vector<graph> parts_of(const graph& g, std::size_t most) {
  std::vector<graph> all;
  const std::size_t count = g.nodes.size();
  std::vector<graph> rest;
  for (std::size_t pieces = 2; pieces <= count && all.size() + rest.size() < most;
       pieces = pieces < count ? std::min(2 * pieces, count) : count + 1) {
    for (std::size_t p = 0; p < pieces; ++p) {
      const std::size_t first = p * count / pieces;
      const std::size_t last = (p + 1) * count / pieces;
      if (first == last) continue;
      std::vector<bool> alone(count, false);
      std::vector<bool> without(count, true);
      for (std::size_t i = first; i < last; ++i) {
        without[i] = false;
        // A member stays only with its child nodes.
        for (std::uint32_t k = static_cast<std::uint32_t>(i); k != none; k = g.nodes[k].parent)
          alone[k] = true;
      }
      all.push_back(kept(g, alone));
      if (pieces > 2) rest.push_back(kept(g, without));
    }
  }
  all.insert(all.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
  std::erase_if(all, [&](const graph& a) { return a.nodes.empty() || a.nodes.size() >= count; });
  std::stable_sort(all.begin(), all.end(),
                   [](const graph& a, const graph& b) { return a.nodes.size() < b.nodes.size(); });
  if (all.size() > most) all.resize(most);
  return all;
}

} // namespace work_graph
