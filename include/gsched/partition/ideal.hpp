// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/best.hpp>
#include <gsched/partition/detail/cut_decision.hpp>
#include <gsched/partition/detail/partition_decision.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/planner.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gsched {

/// Finds a plan wherever there is one, or proves that there is none: the others' yardstick.
///
/// Exact    over all plans that faults_of passes: every GPU cut in every way its groups allow, any
///          number of models that take turns on a partition in any batches, a model on as many
///          partitions as it likes with any split of its rate. Rates are continuous, yet a
///          partition does no more than one of finitely many vectors of rates (shared_pieces), so a
///          plan is a choice of whole pieces whose vectors add up to the demands. `impossible` is
///          proven, either by the bound of bound_of or because the search saw every branch
///          (partition_search). `open` is what neither found nor proven in the budget; then the
///          bound says how far from it is proven. Both to a millionth of the rates.
///          With interference a plan is a plan. `impossible` is proven with each partition slowed
///          by what it is beside others at least (promise I4 of interference_model). Between them
///          lies what would be possible so and was not found, neither among all cuts of GPUs that
///          may be of use (cut_search) nor in the ways of best_partitioning: open. Of GPUs of more
///          than four shapes only the bound proves anything.
/// Source   the ideal scheduler of Choi et al., USENIX ATC 2022, section 6.2, figure 15.
/// Differs  the paper tries some cuts of a GPU in two, each filled greedily.
/// Cost     milliseconds for five models on four GPUs of 16 groups, a second at most where GPUs are
///          cut in halves and sharing is worth the most; for many models as far as its effort goes.
class ideal_partitioning {
public:
  static constexpr std::string_view name = "ideal";

  explicit ideal_partitioning(search_effort effort = {100'000'000, 48, 200}) noexcept
      : effort_(effort) {}

  template <interference_model Interference = no_interference>
  [[nodiscard]] partition_decision decide(const latency_table& t, std::span<const demand> demands,
                                          std::span<const gpu_shape> shapes,
                                          const Interference& beside = {}) const {
    constexpr bool alone = std::is_same_v<Interference, no_interference>;
    const search_effort once{effort_.steps, 1, effort_.refused};
    partition_decision said = detail::decide(t, demands, shapes, beside, alone ? effort_ : once);
    const auto take = [&](std::optional<partition_plan> plan) {
      if (!plan) return;
      said.plan = std::move(plan);
      said.known = verdict::plan;
    };
    const auto also = [&](const auto& planner) {
      if (said.known == verdict::open) take(planner.plan(t, demands, shapes, beside));
    };
    also(best_partitioning{});
    if (!alone && said.known == verdict::open) {
      const auto nodes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(effort_.steps / 1000, most_nodes));
      const std::array<cut_effort, 3> cuts{{{{3, 0.04, 1.005}, nodes, effort_.refused},
                                            {{3, 0.04, 1.01}, nodes, effort_.refused},
                                            {{4, 0.04, 1.005}, nodes, effort_.refused}}};
      detail::cut_answer by_cuts = detail::plan_by_cuts(t, demands, shapes, beside, cuts);
      take(std::move(by_cuts.plan));
      if (said.known == verdict::open && !by_cuts.is_hopeless)
        take(detail::decide(t, demands, shapes, beside, effort_).plan);
    }
    also(guided_self_tuning{});
    also(squishy_bin_packing{});
    return said;
  }

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const demand> demands, std::span<const gpu_shape> shapes,
       const Interference& beside = {}) const {
    return decide(t, demands, shapes, beside).plan;
  }

private:
  static constexpr std::uint64_t most_nodes = 3000;

  search_effort effort_;
};

static_assert(partition_planner<ideal_partitioning>);

} // namespace gsched
