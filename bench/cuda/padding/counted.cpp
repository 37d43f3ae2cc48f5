// SPDX-License-Identifier: Apache-2.0
#include "padding/counted.hpp"

#include "padding/owned.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda_tools/counting.hpp>
#include <gsched/cuda_tools/profiling.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace padding {

namespace {

/// Each kernel runs this often in turn; the last one is counted, with its own data in the caches.
constexpr std::size_t runs = 2;

/// All subjects one after another, the real-time ones first.
owned_graph one_by_one(const subjects& all) {
  cudaGraph_t made = nullptr;
  gsched::cuda::check(cudaGraphCreate(&made, 0), "padding: graph of all kernels");
  owned_graph graph(made);
  cudaGraphNode_t last = nullptr;
  const auto follow = [&](auto add) {
    for (std::size_t run = 0; run < runs; ++run)
      last = add(last == nullptr ? subjects::after{} : subjects::after{&last, 1});
  };
  for (std::size_t i = 0; i < all.real_time().size(); ++i)
    follow([&](subjects::after a) { return all.add(made, a, i, form::proxy, all.scratch()); });
  for (std::size_t i = 0; i < all.corunners().size(); ++i)
    follow([&](subjects::after a) {
      return all.add_rest(made, a, {i, 0, all.corunners()[i].facts.blocks});
    });
  return graph;
}

gsched::profile counted(const subjects& all) {
  const owned_graph graph = one_by_one(all);
  gsched::cuda::profiling_options facts;
  facts.model = "padding";
  gsched::profile p = gsched::cuda::profile_graph(graph.get(), facts);
  const std::vector<std::string> missing = gsched::cuda::count_kernels(graph.get(), {}, p);
  if (!missing.empty())
    fmt::print("\ncounters that this GPU lacks, taken as 0: {}\n", fmt::join(missing, ", "));
  return p;
}

/// The counted run of each of `n` subjects from one on.
gsched::kernel_chain part_of(const gsched::kernel_chain& all, std::size_t first, std::size_t n) {
  gsched::kernel_chain c = all;
  c.kernels.clear();
  for (std::size_t i = first; i < first + n; ++i)
    c.kernels.push_back(all.kernels[(i + 1) * runs - 1]);
  return c;
}

} // namespace

std::optional<predictions> predict(const bench& b, results& out) {
  // First, so that a wrong file costs no time.
  const gsched::contention_law law = gsched::load_coefficients(b.how.coefficients).contention;
  const std::size_t reals = b.all.real_time().size(), corunners = b.all.corunners().size();
  const double start = experiment::seconds_now();
  b.dog.step("counters of all kernels", 180);
  gsched::profile p;
  try {
    p = counted(b.all);
  } catch (const gsched::error& e) {
    b.dog.rest();
    fmt::print(stderr, "gsched.gpu.padding: no predicted slow-downs: {}\n", e.what());
    out["not_counted"] = e.what();
    return std::nullopt;
  }
  b.dog.rest();
  out["counted_seconds"] = experiment::seconds_now() - start;
  if (!b.how.counters.empty()) gsched::write_profile(b.how.counters, p);
  const gsched::kernel_chain all = gsched::chain_of(p, b.gpu.sm, {});
  return predictions(part_of(all, 0, reals), part_of(all, reals, corunners), law);
}

} // namespace padding
