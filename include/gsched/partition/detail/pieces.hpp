// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gsched {

/// GPUs that are alike.
struct gpu_kind {
  gpu_shape shape;
  std::vector<std::uint32_t> gpus{}; ///< which
  std::uint32_t plain = 0;           ///< groups of one of them that are like each other
  bool has_last = false;             ///< and one more, with what the division leaves over
};

/// A size that a partition on some kind of GPU can have, and what of the GPU it takes. Partitions
/// fit a GPU side by side exactly where their plain groups do and at most one has the last.
struct piece {
  std::size_t kind = 0;
  std::uint32_t plain = 0;
  bool last = false;
  sm_count sms{};
};

/// What each size that any of the GPUs can give does for each demand alone: all that a planner
/// needs to know to deal out whole partitions.
///
/// Cost     O(sizes x demands x batches) latencies. Threads  immutable.
class piece_menu {
public:
  /// `factors` are by demand how many times as long its batches take where all but a little of the
  /// GPU is others'; none: as long as alone.
  piece_menu(const latency_table& t, std::span<const demand> demands,
             std::span<const gpu_shape> shapes, std::span<const double> factors = {})
      : piece_menu(demands, shapes) {
    work_out(t, [&](std::size_t p, std::size_t d) {
      if (factors.empty() || factors[d] == 1) return 1.0;
      return 1 + (factors[d] - 1) * (1 - part_of_gpu(pieces_[p]));
    });
  }

  /// What no plan exceeds: beside a partition of one group that runs nothing, or on a whole GPU.
  template <interference_model Interference>
  [[nodiscard]] static piece_menu
  least_slowed(const latency_table& t, std::span<const demand> demands,
               std::span<const gpu_shape> shapes, const Interference& beside) {
    piece_menu menu(demands, shapes);
    menu.work_out(t, [&](std::size_t p, std::size_t d) {
      const piece& of = menu.pieces_[p];
      const gpu_kind& k = menu.kinds_[of.kind];
      const demand& who = demands[d];
      if ((of.plain == k.plain && of.last == k.has_last) || of.sms < t.sizes(who.model).front())
        return 1.0;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint32_t b = 1; b <= t.batches(who.model).back(); ++b) {
        const gpulet both[] = {{0, of.sms, {}, {{who.model, 1, b}}}, {0, k.shape.group, {}, {}}};
        least = std::min<double>(least, beside(std::span<const gpulet>(both), 0, who.model));
      }
      return least;
    });
    return menu;
  }

  [[nodiscard]] std::span<const gpu_kind> kinds() const noexcept { return kinds_; }
  [[nodiscard]] std::span<const piece> pieces() const noexcept { return pieces_; }
  [[nodiscard]] std::span<const demand> demands() const noexcept { return demands_; }
  /// How many times as long a demand's batches are planned to take on such a partition: what is
  /// others' of the GPU slows it in proportion.
  [[nodiscard]] double factor(std::size_t piece, std::size_t demand) const noexcept {
    return factors_[piece * demands_.size() + demand];
  }
  /// Requests a second of that demand alone on such a partition, within its SLO; 0: none.
  [[nodiscard]] double rate(std::size_t piece, std::size_t demand) const noexcept {
    return rates_[piece * demands_.size() + demand];
  }

private:
  piece_menu(std::span<const demand> demands, std::span<const gpu_shape> shapes)
      : demands_(demands.begin(), demands.end()) {
    for (std::uint32_t g = 0; g < shapes.size(); ++g) {
      const auto alike = std::find_if(kinds_.begin(), kinds_.end(),
                                      [&](const gpu_kind& k) { return k.shape == shapes[g]; });
      if (alike != kinds_.end()) {
        alike->gpus.push_back(g);
        continue;
      }
      const bool has_last = shapes[g].rest().count() > 0;
      kinds_.push_back({shapes[g], {g}, shapes[g].groups() - (has_last ? 1u : 0u), has_last});
    }
    for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
      const gpu_kind& kind = kinds_[k];
      for (std::uint32_t n = 1; n <= kind.plain; ++n)
        pieces_.push_back(
            {k, n, false,
             kind.has_last ? sm_count{n * kind.shape.group.count()} : kind.shape.of_groups(n)});
      for (std::uint32_t n = 0; kind.has_last && n <= kind.plain; ++n)
        pieces_.push_back(
            {k, n, true, sm_count{(n + 1) * kind.shape.group.count()} + kind.shape.rest()});
    }
  }

  template <class Factor>
  void work_out(const latency_table& t, Factor factor) {
    rates_.reserve(pieces_.size() * demands_.size());
    for (std::size_t p = 0; p < pieces_.size(); ++p)
      for (std::size_t d = 0; d < demands_.size(); ++d) {
        factors_.push_back(factor(p, d));
        rates_.push_back(most_alone(t, demands_[d], pieces_[p].sms, factors_.back()));
      }
  }
  [[nodiscard]] double part_of_gpu(const piece& p) const noexcept {
    return static_cast<double>(p.sms.count()) / kinds_[p.kind].shape.sms.count();
  }

  /// As capacity_of, over every batch rather than those that were measured: a bound must not be
  /// too low by a rounding.
  [[nodiscard]] static double most_alone(const latency_table& t, const demand& d, sm_count sms,
                                         double factor) noexcept {
    double most = 0;
    if (sms < t.sizes(d.model).front()) return most;
    for (std::uint32_t b = 1; b <= t.batches(d.model).back(); ++b) {
      const duration l = planned_latency(t, d.model, b, sms, factor);
      if (2 * l > d.slo) break;
      most = std::max(most, b / to_s(l));
    }
    return most;
  }

  std::vector<demand> demands_;
  std::vector<gpu_kind> kinds_;
  std::vector<piece> pieces_;
  std::vector<double> factors_, rates_; ///< by piece, then demand
};

} // namespace gsched
