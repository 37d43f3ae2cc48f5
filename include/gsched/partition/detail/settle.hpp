// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/capacity.hpp>
#include <gsched/partition/detail/duty_cycle.hpp>
#include <gsched/partition/detail/piece_dealing.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched {

/// Makes a plan of pieces that were dealt out: what each can do beside the others on its GPU, who
/// gets how much of that, and in which cycles. Each piece gets the same part of what it can do for
/// a demand, so none is fuller than it has to be.
///
/// Cost     O(rounds x pieces) duty cycles.
template <interference_model Interference>
class piece_settling {
public:
  piece_settling(const latency_table& t, const piece_menu& menu, const Interference& beside)
      : table_(t), menu_(menu), beside_(beside), served_(menu.demands().size(), 0.0) {}

  /// None if somebody would be late, or not be served all.
  [[nodiscard]] std::optional<partition_plan> plan(std::span<const dealt_piece> pieces) {
    std::vector<one_gpu> gpus;
    for (const dealt_piece& p : pieces) {
      const auto at =
          std::lower_bound(gpus.begin(), gpus.end(), p.gpu,
                           [](const one_gpu& g, std::uint32_t gpu) { return g.gpu < gpu; });
      one_gpu& g = at != gpus.end() && at->gpu == p.gpu ? *at : *gpus.insert(at, {p.gpu, {}, {}});
      g.pieces.push_back(p);
    }
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      std::fill(served_.begin(), served_.end(), 0.0);
      for (one_gpu& g : gpus) {
        if (!alone && !is_slowed(g, 1 + attempt * margin)) return std::nullopt;
        for (const dealt_piece& p : g.pieces)
          for (const auto& [d, rate] : p.most) served_[d] += rate * fill;
      }
      for (std::size_t d = 0; d < served_.size(); ++d) served_[d] /= menu_.demands()[d].rate;
      if (std::any_of(served_.begin(), served_.end(), [](double s) { return !is_served(1, s); }))
        return std::nullopt;
      partition_plan all;
      const bool settled = std::all_of(
          gpus.begin(), gpus.end(), [&](const one_gpu& g) { return is_settled(g, all.gpulets); });
      if (settled) return all;
    }
    return std::nullopt;
  }

  /// By demand: what the pieces of the last plan could do over what is asked for.
  [[nodiscard]] std::span<const double> served() const noexcept { return served_; }

private:
  static constexpr bool alone = std::is_same_v<Interference, no_interference>;
  static constexpr double fill = 1 - 1e-9; ///< of a capacity, so that rounding makes nobody late
  static constexpr double margin = 0.01;
  static constexpr int most_attempts = alone ? 1 : 3;
  static constexpr int few_rounds = 3, most_rounds = 8;

  struct one_gpu {
    std::uint32_t gpu = 0;
    std::vector<dealt_piece> pieces{};
    std::vector<gpulet> full{}; ///< in the largest batches
  };

  /// Works out what each piece can do where all do as much as they can: their batches depend on
  /// what they do to each other, and this on their batches, so a few times.
  [[nodiscard]] bool is_slowed(one_gpu& g, double more) const {
    if (g.full.empty())
      for (const dealt_piece& p : g.pieces) {
        g.full.push_back({g.gpu, menu_.pieces()[p.piece].sms});
        for (const auto& [d, rate] : p.most)
          g.full.back().portions.push_back({menu_.demands()[d].model, rate, 1});
      }
    for (int round = 0; round < few_rounds; ++round) {
      const std::vector<gpulet> before = g.full;
      for (std::size_t i = 0; i < g.pieces.size(); ++i) {
        std::vector<double> factors;
        for (const portion& p : g.full[i].portions)
          factors.push_back(more * beside_(std::span<const gpulet>(g.full), i, p.model));
        auto& most = g.pieces[i].most;
        if (most.size() == 1) {
          const demand& d = menu_.demands()[most[0].first];
          const capacity c = capacity_of(table_, d.model, g.full[i].sms, d.slo, factors[0]);
          most[0].second = c.rate;
          g.full[i].portions[0].batch = std::max(1u, c.batch);
        } else if (!is_shared_slowed(g.full[i], most, factors)) {
          return false;
        }
      }
      if (g.full == before) break;
    }
    return true;
  }

  /// The largest part of all rates that has a duty cycle, to a hundredth.
  [[nodiscard]] bool is_shared_slowed(gpulet& g, std::vector<std::pair<std::size_t, double>>& most,
                                      std::span<const double> factors) const {
    for (double part = 1; part > 0.3; part -= 0.01) {
      std::vector<demand> parts;
      for (std::size_t i = 0; i < most.size(); ++i) {
        parts.push_back(menu_.demands()[most[i].first]);
        parts.back().rate = g.portions[i].rate * part * fill;
      }
      const auto cycle = find_duty_cycle(table_, g.sms, parts, factors);
      if (!cycle) continue;
      for (std::size_t i = 0; i < most.size(); ++i) {
        most[i].second = g.portions[i].rate * part;
        g.portions[i].batch = cycle->batches[i];
      }
      return true;
    }
    return false;
  }

  /// Adds a GPU's partitions with their parts of what is asked for, in cycles in which nobody is
  /// late.
  [[nodiscard]] bool is_settled(const one_gpu& g, std::vector<gpulet>& all) const {
    std::vector<gpulet> here;
    std::vector<std::vector<demand>> parts;
    for (const dealt_piece& p : g.pieces) {
      here.push_back({g.gpu, menu_.pieces()[p.piece].sms});
      parts.emplace_back();
      for (const auto& [d, rate] : p.most) {
        parts.back().push_back(menu_.demands()[d]);
        parts.back().back().rate = rate * fill * std::min(1.0, 1 / served_[d]);
        here.back().portions.push_back({menu_.demands()[d].model, parts.back().back().rate, 1});
      }
    }
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<gpulet> before = here;
      for (std::size_t i = 0; i < here.size(); ++i) {
        std::vector<double> factors;
        for (const demand& d : parts[i])
          factors.push_back(beside_(std::span<const gpulet>(here), i, d.model));
        const auto cycle = find_duty_cycle(table_, here[i].sms, parts[i], factors);
        if (!cycle) return false;
        here[i].cycle = cycle->length;
        for (std::size_t p = 0; p < parts[i].size(); ++p)
          here[i].portions[p].batch = cycle->batches[p];
      }
      if (here != before) continue;
      all.insert(all.end(), here.begin(), here.end());
      return true;
    }
    return false;
  }

  const latency_table& table_;
  const piece_menu& menu_;
  const Interference& beside_;
  std::vector<double> served_;
};

} // namespace gsched
