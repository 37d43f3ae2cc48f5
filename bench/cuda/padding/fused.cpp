// SPDX-License-Identifier: Apache-2.0
#include "padding/fused.hpp"

#include <gsched/cuda/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace padding {

namespace {

struct destroys_graph {
  void operator()(cudaGraph_t g) const noexcept { cudaGraphDestroy(g); }
};
using owned_graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroys_graph>;
using nodes = std::vector<cudaGraphNode_t>;

constexpr unsigned repeats = 8; ///< in a graph

/// `once` adds the work behind nodes and says behind which nodes the next comes.
owned_graph graph_of(const std::function<nodes(cudaGraph_t, const nodes&)>& once) {
  cudaGraph_t made = nullptr;
  gsched::cuda::check(cudaGraphCreate(&made, 0), "padding: graph");
  owned_graph graph(made);
  nodes before;
  for (unsigned i = 0; i < repeats; ++i) before = once(made, before);
  return graph;
}

/// The ways in which a real-time kernel and all of a guest are run.
class ways {
public:
  static constexpr std::array names{"real-time alone", "guest alone", "in turn", "two branches",
                                    "padded",          "by rules",    "idle SMs"};

  ways(const bench& b, std::size_t real, std::size_t guest) : b_(b), real_(real), guest_(guest) {
    blocks_ = {b.all.guests()[guest].facts.blocks,
               blocks_for(selection::needed, b.all, real, guest, b.sms),
               blocks_for(selection::apart, b.all, real, guest, b.sms)};
    add([this](cudaGraph_t to, const nodes& after) { return nodes{plain(to, after)}; });
    add([this](cudaGraph_t to, const nodes& after) { return nodes{guest_alone(to, after)}; });
    add([this](cudaGraph_t to, const nodes& after) {
      return nodes{guest_alone(to, {plain(to, after)})};
    });
    add([this](cudaGraph_t to, const nodes& after) {
      return nodes{plain(to, after), guest_alone(to, after)};
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
  [[nodiscard]] std::uint32_t on_idle() const { return blocks_[2]; }

private:
  void add(const std::function<nodes(cudaGraph_t, const nodes&)>& once) {
    graphs_.push_back(graph_of(once));
  }
  [[nodiscard]] cudaGraphNode_t plain(cudaGraph_t to, const nodes& after) const {
    return b_.all.add(to, after, real_, form::plain, b_.all.scratch());
  }
  [[nodiscard]] cudaGraphNode_t guest_alone(cudaGraph_t to, const nodes& after) const {
    return b_.all.add_plain_guest(to, after, guest_);
  }
  /// Its first blocks beside, and what is left behind it.
  [[nodiscard]] cudaGraphNode_t padded(cudaGraph_t to, const nodes& after, std::uint32_t n) const {
    const std::uint32_t all = b_.all.guests()[guest_].facts.blocks;
    const share beside{guest_, 0, n};
    cudaGraphNode_t node =
        n == 0 ? plain(to, after)
               : b_.all.add_padded(to, after, real_, {&beside, 1}, b_.all.scratch());
    if (n < all) node = b_.all.add_rest(to, {&node, 1}, {guest_, n, all - n});
    return node;
  }

  const bench& b_;
  std::size_t real_, guest_;
  std::array<std::uint32_t, 3> blocks_{};
  std::vector<owned_graph> graphs_;
};

} // namespace

void measure_fused(const bench& b, results& out) {
  fmt::print("\ngemm and copy, us; then in turn / that way\n{:<44} {:>7} {:>7} {:>8} {:>8} {:>8} "
             "{:>8} {:>8} {:>7} {:>7} {:>7} {:>7}\n",
             "", "gemm", "copy", "in turn", "branches", "padded", "rules", "idle", "branch",
             "padded", "rules", "idle");
  std::array<std::vector<double>, 4> speedups;
  for (std::size_t r = 0; r < b.all.real_time().size(); ++r)
    for (std::size_t g = 0; g < b.all.guests().size(); ++g) {
      const subject& real = b.all.real_time()[r];
      const subject& guest = b.all.guests()[g];
      if (real.function != "gemm" || guest.function != "copy") continue;
      const std::string name = real.name() + " + " + guest.name();
      b.dog.step(name, 60);
      const ways w(b, r, g);
      const std::vector<double> us = w.measure();
      fmt::print("{:<44} {:>7.1f} {:>7.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}", name,
                 us[0], us[1], us[2], us[3], us[4], us[5], us[6]);
      results row{{"real_time", real.name()},
                  {"guest", guest.name()},
                  {"guest_blocks", guest.facts.blocks},
                  {"by_rules_blocks", w.by_rules()},
                  {"idle_blocks", w.on_idle()}};
      for (std::size_t i = 0; i < us.size(); ++i) row["us"][ways::names[i]] = us[i];
      for (std::size_t i = 0; i < speedups.size(); ++i) {
        speedups[i].push_back(us[2] / us[3 + i]);
        fmt::print(" {:>7.3f}", us[2] / us[3 + i]);
      }
      fmt::print("\n");
      std::fflush(stdout);
      out["fused"].push_back(std::move(row));
    }
  b.dog.rest();
  for (std::size_t i = 0; i < speedups.size(); ++i) {
    using experiment::quantile;
    fmt::print("{:<14} in turn / this: worst {:.3f}, median {:.3f}, best {:.3f}\n",
               ways::names[3 + i], quantile(speedups[i], 0), quantile(speedups[i], 0.5),
               quantile(speedups[i], 1));
    out["fused_summary"].push_back({{"way", ways::names[3 + i]},
                                    {"worst", quantile(speedups[i], 0)},
                                    {"median", quantile(speedups[i], 0.5)},
                                    {"best", quantile(speedups[i], 1)}});
  }
}

} // namespace padding
