// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// A partition that one demand has for itself.
struct column_entry {
  std::size_t candidate = 0; ///< index into the candidate table
  std::size_t demand = 0;
  auto operator<=>(const column_entry&) const noexcept = default;
};

/// A split of a GPU, and what its partitions serve beside each other.
struct gpu_column {
  std::size_t kind = 0;
  std::vector<column_entry> partitions{};
  std::vector<double> parts{}; ///< by demand: the part of it that is served, at most 1
};

/// Limits of a column pool.
struct column_limits {
  std::uint32_t most_partitions = 3; ///< of a GPU
  double waste = 0.04; ///< how much less than the best column a column may be worth, of all demands
  double margin = 1.005; ///< factor on the predicted slow-downs
  std::size_t most_columns = 20'000;
};

/// Columns with interference. Partitions slow only those on their own GPU, so the rates of a column
/// do not depend on other GPUs. Every partition runs the largest batches within the SLO.
///
/// Cost     a column O(partitions) predictions and capacities, a few times.
/// Threads  one owner.
template <interference_model Interference>
class column_pool {
public:
  /// `needs` are the rates to serve, by demand. All arguments outlive it.
  column_pool(const latency_table& t, const candidate_table& choices, std::span<const double> needs,
              const Interference& beside, const column_limits& limits)
      : table_(t), choices_(choices), needs_(needs), beside_(beside), limits_(limits) {
    for (std::size_t p = 0; p < choices.candidates().size(); ++p)
      for (std::size_t d = 0; d < needs.size(); ++d) best_parts_.push_back(best_part(p, d));
    const std::vector<double> equal_prices(needs.size(), 1.0);
    for (std::size_t k = 0; k < choices.kinds().size(); ++k)
      grow(k, equal_prices, -std::numeric_limits<double>::infinity(), 2);
  }

  /// Adds columns of a kind whose worth at `prices` may reach `least` less the allowed waste.
  /// Returns false if there is no new one.
  bool grow(std::size_t kind, std::span<const double> prices, double least) {
    return grow(kind, prices, least - limits_.waste, limits_.most_partitions);
  }

  [[nodiscard]] std::span<const gpu_column> columns() const noexcept { return columns_; }

private:
  static constexpr int most_rounds = 3;
  static constexpr double usual = 1.1; ///< slow-down assumed for a neighbour's batch size

  [[nodiscard]] bool is_whole(const candidate& p) const noexcept {
    const gpu_kind& k = choices_.kinds()[p.kind];
    return p.regular == k.regular && p.remainder == k.has_remainder;
  }
  /// The partition with one portion at a nominal rate.
  [[nodiscard]] gpulet as_full(std::size_t p, std::size_t d, std::uint32_t batch) const {
    return {0,
            choices_.candidates()[p].sms,
            {},
            {{choices_.demands()[d].model, 1, std::max(1u, batch)}}};
  }
  [[nodiscard]] capacity on(std::size_t p, std::size_t d, double factor) const noexcept {
    const model_demand& of = choices_.demands()[d];
    return capacity_of(table_, of.model, choices_.candidates()[p].sms, of.slo, factor);
  }

  /// Upper estimate of the part of a demand that a candidate serves: beside the mildest neighbour
  /// on the rest of the GPU.
  [[nodiscard]] double best_part(std::size_t p, std::size_t d) const {
    const candidate& own = choices_.candidates()[p];
    double factor = 1;
    if (!is_whole(own)) {
      factor = std::numeric_limits<double>::infinity();
      const gpu_kind& k = choices_.kinds()[own.kind];
      for (std::size_t rest = 0; rest < choices_.candidates().size(); ++rest) {
        const candidate& r = choices_.candidates()[rest];
        if (r.kind != own.kind || r.regular + own.regular != k.regular ||
            r.remainder == (own.remainder || !k.has_remainder))
          continue;
        for (std::size_t other = 0; other < needs_.size(); ++other) {
          const gpulet both[] = {as_full(rest, other, on(rest, other, usual).batch),
                                 as_full(p, d, on(p, d, usual).batch)};
          factor = std::min<double>(
              factor, beside_(std::span<const gpulet>(both), 1, choices_.demands()[d].model));
        }
      }
      if (!(factor < std::numeric_limits<double>::infinity())) factor = 1;
    }
    return std::min(1.0, on(p, d, factor).rate / needs_[d]);
  }

  bool grow(std::size_t kind, std::span<const double> prices, double least,
            std::uint32_t partitions) {
    const std::size_t before = columns_.size();
    const std::uint32_t groups = choices_.kinds()[kind].regular;
    worth_.resize(best_parts_.size());
    most_.assign(groups + 1, 0.0);
    by_size_.assign(groups + 1, {});
    for (std::size_t p = 0; p < choices_.candidates().size(); ++p)
      for (std::size_t d = 0; d < needs_.size(); ++d) {
        const std::size_t i = p * needs_.size() + d;
        worth_[i] = prices[d] * best_parts_[i];
        const candidate& of = choices_.candidates()[p];
        if (of.kind == kind && !of.remainder && worth_[i] > 0)
          by_size_[of.regular].push_back({p, d});
      }
    for (std::uint32_t n = 1; n <= groups; ++n) {
      most_[n] = most_[n - 1];
      for (std::uint32_t m = 1; m <= n; ++m)
        for (const column_entry& o : by_size_[m])
          most_[n] = std::max(most_[n], most_[n - m] + at(o));
    }
    least_ = least;
    std::vector<column_entry> chosen;
    if (!choices_.kinds()[kind].has_remainder) {
      extend(kind, groups, groups, 0, 0, partitions, chosen);
    } else {
      for (std::size_t p = 0; p < choices_.candidates().size(); ++p)
        for (std::size_t d = 0; d < needs_.size(); ++d) {
          const candidate& of = choices_.candidates()[p];
          if (of.kind != kind || !of.remainder || !(at({p, d}) > 0)) continue;
          chosen.assign(1, {p, d});
          extend(kind, groups - of.regular, groups, 0, at({p, d}), partitions, chosen);
        }
    }
    return columns_.size() > before;
  }
  [[nodiscard]] double at(const column_entry& o) const noexcept {
    return worth_[o.candidate * needs_.size() + o.demand];
  }

  /// Adds candidates of falling sizes, from the i-th of `size`, until the GPU is full.
  void extend(std::size_t kind, std::uint32_t left, std::uint32_t size, std::size_t from,
              double worth, std::uint32_t most_partitions, std::vector<column_entry>& chosen) {
    if (left == 0) keep(kind, chosen);
    if (left == 0 || chosen.size() >= most_partitions || columns_.size() >= limits_.most_columns)
      return;
    for (std::uint32_t n = std::min(left, size); n > 0; --n)
      for (std::size_t i = n == size ? from : 0; i < by_size_[n].size(); ++i) {
        const column_entry o = by_size_[n][i];
        if (worth + at(o) + most_[left - n] < least_) continue;
        chosen.push_back(o);
        extend(kind, left - n, n, i, worth + at(o), most_partitions, chosen);
        chosen.pop_back();
      }
  }

  /// Adds a column with the highest rates of its partitions. Slow-downs depend on batches and
  /// batches on slow-downs, so it iterates a few times.
  void keep(std::size_t kind, const std::vector<column_entry>& chosen) {
    if (!known_.insert(chosen).second) return;
    std::vector<gpulet> all;
    all.reserve(chosen.size());
    for (const column_entry& o : chosen) all.push_back(as_full(o.candidate, o.demand, 8));
    std::vector<double> rates(chosen.size());
    for (int round = 0; round < most_rounds; ++round) {
      bool same = true;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        portion& p = all[i].portions[0];
        const double factor =
            chosen.size() == 1 ? 1
                               : limits_.margin * beside_(std::span<const gpulet>(all), i, p.model);
        const capacity c = on(chosen[i].candidate, chosen[i].demand, factor);
        rates[i] = c.rate;
        same &= p.batch == std::max(1u, c.batch);
        p.batch = std::max(1u, c.batch);
      }
      if (same) break;
    }
    gpu_column column{kind, chosen, std::vector<double>(needs_.size(), 0.0)};
    for (std::size_t i = 0; i < chosen.size(); ++i)
      column.parts[chosen[i].demand] += rates[i] * (1 - 1e-9) / needs_[chosen[i].demand];
    for (double& part : column.parts) part = std::min(1.0, part);
    columns_.push_back(std::move(column));
  }

  const latency_table& table_;
  const candidate_table& choices_;
  std::span<const double> needs_;
  const Interference& beside_;
  column_limits limits_;
  std::vector<double> best_parts_; ///< by candidate, then demand
  std::set<std::vector<column_entry>> known_;
  std::vector<gpu_column> columns_;
  // At the current prices:
  std::vector<double> worth_;                      ///< by candidate, then demand
  std::vector<double> most_;                       ///< by number of regular groups
  std::vector<std::vector<column_entry>> by_size_; ///< by regular groups; without remainder groups
  double least_ = 0;
};

} // namespace gsched::detail
