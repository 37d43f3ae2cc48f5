// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "work_graph/random.hpp"
#include "work_graph/spec.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Graphs with forks, of kernels only.
namespace forks {

/// Adds kernels, each of which reads the results of its predecessors.
class shape_maker {
public:
  explicit shape_maker(std::string name) { graph_.name = std::move(name); }

  std::uint32_t kernel(const std::vector<std::uint32_t>& after, double us, std::uint32_t blocks,
                       std::uint32_t threads = 256, std::uint32_t shared = 0) {
    work_graph::node n;
    for (const std::uint32_t from : after) n.after.push_back({from});
    n.reads = after;
    n.us = us;
    n.blocks = blocks;
    n.threads = threads;
    n.shared = shared;
    n.bytes = 512;
    n.salt = static_cast<std::uint32_t>(graph_.nodes.size()) * 977 + 5;
    graph_.nodes.push_back(std::move(n));
    return static_cast<std::uint32_t>(graph_.nodes.size() - 1);
  }
  [[nodiscard]] work_graph::graph take() { return std::move(graph_); }

private:
  work_graph::graph graph_;
};

/// Branches of kernels like matrix products: one block on each SM that they use, and fewer blocks
/// than SMs, so that kernels of two branches share the GPU.
[[nodiscard]] inline work_graph::graph products(unsigned branches, unsigned length) {
  shape_maker make("products");
  const std::uint32_t first = make.kernel({}, 2, 1);
  std::vector<std::uint32_t> tips(branches, first);
  for (unsigned k = 0; k < length; ++k)
    for (std::uint32_t& tip : tips) tip = make.kernel({tip}, 34, 96, 256, 60);
  make.kernel(tips, 2, 1);
  return make.take();
}

/// A recurrent network: each step of a layer depends on the previous step and on the layer below.
[[nodiscard]] inline work_graph::graph wavefront(unsigned layers, unsigned steps) {
  shape_maker make("lstm");
  std::vector<std::uint32_t> below;
  for (unsigned layer = 0; layer < layers; ++layer) {
    std::vector<std::uint32_t> row;
    for (unsigned t = 0; t < steps; ++t) {
      std::vector<std::uint32_t> after;
      if (t > 0) after.push_back(row.back());
      if (layer > 0) after.push_back(below[t]);
      row.push_back(make.kernel(after, 2 + (3 * layer + 7 * t) % 5, 16));
    }
    below = std::move(row);
  }
  return make.take();
}

/// Blocks of four branches of different lengths that join.
[[nodiscard]] inline work_graph::graph inception(unsigned blocks) {
  shape_maker make("inception");
  std::uint32_t at = make.kernel({}, 8, 128);
  for (unsigned b = 0; b < blocks; ++b) {
    std::vector<std::uint32_t> tips;
    for (unsigned branch = 0; branch < 4; ++branch) {
      std::uint32_t tip = at;
      for (unsigned k = 0; k < 1 + (branch + b) % 4; ++k)
        tip = make.kernel({tip}, 5 + (5 * branch + 3 * b + 7 * k) % 16, 24 + 24 * branch);
      tips.push_back(tip);
    }
    at = make.kernel(tips, 3, 64);
  }
  return make.take();
}

namespace detail {

/// A series-parallel subgraph behind a kernel; returns its last kernel.
inline std::uint32_t series_parallel(shape_maker& make, work_graph::random_source& random,
                                     std::uint32_t from, unsigned kernels) {
  const auto one = [&](const std::vector<std::uint32_t>& after) {
    return make.kernel(after, random.log_uniform(2, 30), random.log_count(4, 132));
  };
  if (kernels <= 1) return one({from});
  if (random.one_in(2) || kernels < 4) {
    const unsigned first = 1 + random.below(kernels - 1);
    return series_parallel(make, random, series_parallel(make, random, from, first),
                           kernels - first);
  }
  std::vector<std::uint32_t> tips;
  const unsigned branches = 2 + random.below(3);
  unsigned left = kernels - 1;
  for (unsigned b = 0; b < branches && left > 0; ++b) {
    const unsigned part = b + 1 == branches ? left : 1 + random.below(left);
    tips.push_back(series_parallel(make, random, from, part));
    left -= part;
  }
  return one(tips);
}

} // namespace detail

[[nodiscard]] inline work_graph::graph series_parallel(std::uint64_t seed, unsigned kernels) {
  shape_maker make("random" + std::to_string(seed));
  work_graph::random_source random(seed);
  detail::series_parallel(make, random, make.kernel({}, 5, 16), kernels);
  return make.take();
}

/// Small kernels one after another: the cost of a graph without forks.
[[nodiscard]] inline work_graph::graph chain(unsigned kernels) {
  shape_maker make("chain");
  std::uint32_t at = make.kernel({}, 1, 8);
  for (unsigned k = 1; k < kernels; ++k) at = make.kernel({at}, 1, 8);
  return make.take();
}

[[nodiscard]] inline std::vector<work_graph::graph> all_shapes() {
  std::vector<work_graph::graph> all{products(2, 10), wavefront(2, 64), inception(9)};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) all.push_back(series_parallel(seed, 60));
  all.push_back(chain(700));
  return all;
}

} // namespace forks
