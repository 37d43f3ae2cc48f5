// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/elastic_pass.hpp>
#include <gsched/partition/detail/size_curves.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/planner.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gsched {

/// Whether models may take turns on a partition, besides having partitions of their own.
enum class time_sharing : bool { no, yes };

/// Partitions as large as each model makes good use of, dealt out greedily: for each model, the
/// busiest first, the smaller of its most efficient size and the least that is enough, again and
/// again until its rate is served. A piece goes where it fits best; but if it can take turns with
/// who has a partition already, the split is not made.
///
/// Source   elastic partitioning: Choi et al., USENIX ATC 2022, algorithm 1. Without time sharing
///          it is guided self-tuning, section 6.1 there, after GSLICE: Dhakal et al., SoCC 2020,
///          doi:10.1145/3419111.3421284.
/// Differs  where the paper leaves a choice, or GPUs of many groups one more:
///          - the most efficient size is that of which each group does the most, where the paper
///            takes the largest curvature: measured rates go up in steps of whole batches, and
///            what bends the most there is noise;
///          - sizes within 2% of it are as good (in another pass, where that has failed, none are);
///          - what a split leaves can be split again, where the paper's GPUs hold two partitions:
///            `most_gpulets` of 2 is the paper's;
///          - the best fit is not where the fewest groups are left, but where the fewest of them
///            are of no use to this model and those to come;
///          - where no room is as large as it should be, the largest is taken, for what it can do;
///          - the interference that a partition has to bear is that of the worst neighbours that
///            may come (size_curves), less a twentieth, and in another pass more by one; taking
///            turns bears it too. Once a GPU is full, its partitions take as much more as their
///            neighbours leave them, before there is another partition. Where who is there would be
///            late all the same, smaller sizes are tried, at nine tenths of their rates;
///          - with interference, the pass fails for some rates though it does not for larger ones:
///            so at last it is asked for 1.05, 1.1, 1.2, 1.4, ... times as much.
///          Sizes are whole groups.
/// Order    rates falling, then as the demands come; GPUs in their order.
/// Cost     five models on four GPUs 0.05 ms, with interference 0.2 (bench/planning.cpp).
///          Where there is no plan, up to two passes, with interference a dozen.
template <time_sharing Sharing>
class greedy_partitioning {
public:
  static constexpr std::string_view name = Sharing == time_sharing::yes ? "elastic" : "self_tuning";

  explicit greedy_partitioning(std::uint32_t most_gpulets = 0xffffffff) noexcept
      : most_gpulets_(most_gpulets) {}

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const demand> demands, std::span<const gpu_shape> shapes,
       const Interference& beside = {}) const {
    constexpr bool alone = std::is_same_v<Interference, no_interference>;
    std::vector<demand> busiest;
    for (const demand& d : demands)
      if (d.rate > 0) busiest.push_back(d);
    std::stable_sort(busiest.begin(), busiest.end(),
                     [](const demand& a, const demand& b) { return a.rate > b.rate; });
    size_curves curves(t, busiest, shapes, beside);
    const double most = most_times(busiest, shapes, curves);
    if (most < 1 - 1e-6) return std::nullopt;
    const auto deal = [&](const reading& r) {
      curves.count_on(r.caution);
      elastic_pass pass(t, busiest, shapes, beside, curves,
                        {Sharing == time_sharing::yes, most_gpulets_, r.as_good});
      return pass.run();
    };
    for (const reading& r : readings)
      if (!alone || r.caution == readings[0].caution)
        if (std::optional<partition_plan> plan = deal(r)) return plan;
    double asked = 1;
    for (double more = first_more; !alone && 1 + more < most; more *= 2) {
      for (demand& d : busiest) d.rate *= (1 + more) / asked;
      asked = 1 + more;
      if (std::optional<partition_plan> plan = deal(readings[0])) return plan;
    }
    return std::nullopt;
  }

private:
  struct reading {
    double caution, as_good;
  };
  static constexpr std::array<reading, 3> readings{{{0.95, 0.02}, {1.05, 0.02}, {0.95, 0}}};
  static constexpr double first_more = 0.05;

  /// No plan serves these demands more often than that: each SM does at most what it does best.
  [[nodiscard]] static double most_times(std::span<const demand> demands,
                                         std::span<const gpu_shape> shapes,
                                         const size_curves& curves) {
    double there = 0, wanted = 0;
    for (const gpu_shape& s : shapes) there += s.sms.count();
    for (std::size_t d = 0; d < demands.size(); ++d) {
      double least = std::numeric_limits<double>::infinity(); // of an SM, for a request a second
      for (std::size_t k = 0; k < curves.kinds(); ++k)
        for (std::uint32_t n = 1; n <= curves.shape(k).groups(); ++n)
          if (const double rate = curves.most(k, d, n); rate > 0)
            least = std::min(least, curves.shape(k).of_groups(n).count() / rate);
      wanted += least * demands[d].rate;
    }
    return wanted > 0 ? there / wanted : std::numeric_limits<double>::infinity();
  }

  std::uint32_t most_gpulets_;
};

using elastic_partitioning = greedy_partitioning<time_sharing::yes>;
using guided_self_tuning = greedy_partitioning<time_sharing::no>;

static_assert(partition_planner<elastic_partitioning> && partition_planner<guided_self_tuning>);

} // namespace gsched
