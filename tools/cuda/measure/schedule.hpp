// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace measure {

/// Graphs that run at the same time: each by its number, and which of its instances.
struct company {
  struct member {
    std::size_t graph = 0;
    std::size_t instance = 0;
    bool operator==(const member&) const = default;
  };
  std::vector<member> members;
  bool operator==(const company&) const = default;
};

/// All pairs of graphs with so many instances each, also of two instances of a graph that has two,
/// in a random order: where the time is over early, those that were measured are a sample of all.
[[nodiscard]] std::vector<company> pairs_of(std::span<const std::size_t> instances,
                                            std::mt19937_64& random);

/// Those of them in which one of these graphs is.
[[nodiscard]] std::vector<company> pairs_with(std::vector<company> pairs,
                                              std::span<const std::size_t> graphs);

/// At most so many groups, of each of these sizes in turn. No two have the same graphs, and no
/// group an instance twice.
[[nodiscard]] std::vector<company> groups_of(std::span<const std::size_t> instances,
                                             std::size_t wanted, std::span<const std::size_t> sizes,
                                             std::mt19937_64& random);

/// The pairs, with the groups spread evenly among them, so that a run that ends early has some of
/// both.
[[nodiscard]] std::vector<company> interleaved(std::vector<company> pairs,
                                               std::vector<company> groups);

} // namespace measure
