// SPDX-License-Identifier: Apache-2.0
#include "padding/fused.hpp"

#include "padding/owned.hpp"

#include <gsched/cuda/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace padding {

namespace {

using nodes = std::vector<cudaGraphNode_t>;

constexpr unsigned repeats = 8; ///< in a graph

/// `once` adds the work behind nodes and returns the nodes behind which the next repeat starts.
owned_graph graph_of(const std::function<nodes(cudaGraph_t, const nodes&)>& once) {
  cudaGraph_t made = nullptr;
  gsched::cuda::check(cudaGraphCreate(&made, 0), "padding: graph");
  owned_graph graph(made);
  nodes before;
  for (unsigned i = 0; i < repeats; ++i) before = once(made, before);
  return graph;
}

/// The ways to run a real-time kernel and a whole co-runner.
class ways {
public:
  static constexpr std::array names{
      "real-time alone", "best effort alone", "in turn", "two branches",
      "padded",          "by rules",          "quiet"};

  ways(const bench& b, std::size_t real, std::size_t corunner)
      : b_(b), real_(real), corunner_(corunner) {
    blocks_ = {b.all.corunners()[corunner].facts.blocks,
               blocks_for(selection::needed, b, real, corunner),
               blocks_for(selection::quiet, b, real, corunner)};
    add([this](cudaGraph_t to, const nodes& after) { return nodes{plain(to, after)}; });
    add([this](cudaGraph_t to, const nodes& after) { return nodes{corunner_alone(to, after)}; });
    add([this](cudaGraph_t to, const nodes& after) {
      return nodes{corunner_alone(to, {plain(to, after)})};
    });
    add([this](cudaGraph_t to, const nodes& after) {
      return nodes{plain(to, after), corunner_alone(to, after)};
    });
    for (const std::uint32_t n : blocks_)
      add([this, n](cudaGraph_t to, const nodes& after) { return nodes{padded(to, after, n)}; });
  }

  /// Microseconds of one repeat, in the order of the names.
  [[nodiscard]] std::vector<double> measure() const {
    std::vector<cudaGraph_t> raw;
    for (const owned_graph& g : graphs_) raw.push_back(g.get());
    std::vector<double> us = time_in_turn(raw, b_.how.rounds, b_.time.stream());
    for (double& t : us) t /= repeats;
    return us;
  }
  [[nodiscard]] std::uint32_t by_rules() const { return blocks_[1]; }
  [[nodiscard]] std::uint32_t quietly() const { return blocks_[2]; }

private:
  void add(const std::function<nodes(cudaGraph_t, const nodes&)>& once) {
    graphs_.push_back(graph_of(once));
  }
  [[nodiscard]] cudaGraphNode_t plain(cudaGraph_t to, const nodes& after) const {
    return b_.all.add(to, after, real_, form::plain, b_.all.scratch());
  }
  [[nodiscard]] cudaGraphNode_t corunner_alone(cudaGraph_t to, const nodes& after) const {
    return b_.all.add_plain_corunner(to, after, corunner_);
  }
  /// Its first blocks in the padded kernel, and the rest behind it.
  [[nodiscard]] cudaGraphNode_t padded(cudaGraph_t to, const nodes& after, std::uint32_t n) const {
    const std::uint32_t all = b_.all.corunners()[corunner_].facts.blocks;
    const share beside{corunner_, 0, n};
    cudaGraphNode_t node =
        n == 0 ? plain(to, after)
               : b_.all.add_padded(to, after, real_, {&beside, 1}, b_.all.scratch());
    if (n < all) node = b_.all.add_rest(to, {&node, 1}, {corunner_, n, all - n});
    return node;
  }

  const bench& b_;
  std::size_t real_, corunner_;
  std::array<std::uint32_t, 3> blocks_{};
  std::vector<owned_graph> graphs_;
};

} // namespace

namespace {

/// The purpose of padding: a product that leaves SMs idle, and a copy that ends before it.
bool meant(const gsched::kernel_variant& gemm, const gsched::kernel_variant& copy,
           gsched::sm_count sms) {
  return idle_sms(gemm, sms) > 0 && copy.kernel_time < gemm.kernel_time;
}

struct column {
  const char* name;
  std::vector<double> all;      ///< one after another / this way
  std::vector<double> possible; ///< of those for which some way could be below the target
};

constexpr double target = 1.15;

void print_columns(const std::vector<column>& columns, results& out) {
  for (const column& c : columns) {
    using experiment::quantile;
    const auto reach = static_cast<double>(
        std::count_if(c.possible.begin(), c.possible.end(), [](double x) { return x >= target; }));
    const double share = c.possible.empty() ? 0 : reach / static_cast<double>(c.possible.size());
    fmt::print("{:<14} in turn / this: worst {:.3f}, median {:.3f}, best {:.3f}; where {:.2f} can "
               "be reached ({} of {}): median {:.3f}, share that does {:.2f}\n",
               c.name, quantile(c.all, 0), quantile(c.all, 0.5), quantile(c.all, 1), target,
               c.possible.size(), c.all.size(), quantile(c.possible, 0.5), share);
    out["fused_summary"].push_back({{"way", c.name},
                                    {"worst", quantile(c.all, 0)},
                                    {"median", quantile(c.all, 0.5)},
                                    {"best", quantile(c.all, 1)},
                                    {"possible", c.possible.size()},
                                    {"possible_median", quantile(c.possible, 0.5)},
                                    {"share_that_reaches", share}});
  }
}

} // namespace

void measure_fused(const bench& b, results& out) {
  fmt::print("\ngemm and copy, us; then in turn / that way (most: in turn / the longer one "
             "alone)\n{:<38} {:>6} {:>6} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} "
             "{:>6}\n",
             "", "gemm", "copy", "in turn", "branches", "padded", "rules", "quiet", "branch",
             "padded", "rules", "quiet", "most");
  std::vector<column> columns;
  for (std::size_t i = 3; i < ways::names.size(); ++i) columns.push_back({ways::names[i], {}, {}});
  columns.push_back({"best variant", {}, {}});
  std::map<std::string, std::array<double, 2>> best; // of the variants of a copy: quiet, possible
  std::size_t others = 0;
  for (std::size_t r = 0; r < b.all.real_time().size(); ++r)
    for (std::size_t g = 0; g < b.all.corunners().size(); ++g) {
      const subject& real = b.all.real_time()[r];
      const subject& corunner = b.all.corunners()[g];
      if (real.function != "gemm" || corunner.function != "copy") continue;
      if (!meant(real.facts, corunner.facts, b.quiet.sms)) {
        ++others;
        continue;
      }
      const std::string name = real.name() + " + " + corunner.name();
      b.dog.step(name, 60);
      const ways w(b, r, g);
      const std::vector<double> us = w.measure();
      const double most = us[2] / std::max(us[0], us[1]);
      fmt::print("{:<38} {:>6.1f} {:>6.1f} {:>8.1f} {:>8.1f} {:>7.1f} {:>7.1f} {:>7.1f}", name,
                 us[0], us[1], us[2], us[3], us[4], us[5], us[6]);
      results row{{"real_time", real.name()},
                  {"best_effort", corunner.name()},
                  {"best_effort_blocks", corunner.facts.blocks},
                  {"by_rules_blocks", w.by_rules()},
                  {"quiet_blocks", w.quietly()},
                  {"most", most}};
      for (std::size_t i = 0; i < us.size(); ++i) row["us"][ways::names[i]] = us[i];
      for (std::size_t i = 3; i < us.size(); ++i) {
        const double faster = us[2] / us[i];
        columns[i - 3].all.push_back(faster);
        if (most >= target) columns[i - 3].possible.push_back(faster);
        fmt::print(" {:>7.3f}", faster);
      }
      fmt::print(" {:>6.2f}\n", most);
      std::fflush(stdout);
      auto& [fastest, possible] = best[real.name() + corunner.shape];
      fastest = std::max(fastest, us[2] / us[6]);
      possible = std::max(possible, most);
      out["fused"].push_back(std::move(row));
    }
  b.dog.rest();
  for (const auto& [_, of] : best) {
    columns.back().all.push_back(of[0]);
    if (of[1] >= target) columns.back().possible.push_back(of[0]);
  }
  fmt::print("{} pairs more are not what padding is meant for: no idle SMs, or a copy that takes "
             "longer; best variant: of a copy's variants the one that gains most by quiet\n",
             others);
  print_columns(columns, out);
}

} // namespace padding
