// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/duty_cycle.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/piece_dealing.hpp>
#include <gsched/partition/pieces.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// Makes a plan of pieces that were dealt out: who gets how much of what each piece can do, and in
/// which cycles, beside the others on its GPU.
///
/// Cost     O(rounds x pieces) duty cycles.
template <interference_model Interference>
class piece_settling {
public:
  /// `factors` are by demand; they rise to the largest that was met.
  piece_settling(const latency_table& t, const piece_menu& menu, const Interference& beside,
                 std::vector<double>& factors)
      : table_(t), menu_(menu), beside_(beside), factors_(factors) {}

  /// None if somebody would be late.
  [[nodiscard]] std::optional<partition_plan> plan(std::span<const dealt_piece> pieces) const {
    const std::vector<std::vector<demand>> parts = parts_of(pieces);
    std::vector<std::size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pieces[a].gpu < pieces[b].gpu; });
    partition_plan all;
    for (std::size_t i = 0; i < order.size();) {
      std::vector<gpulet> here;
      std::vector<const std::vector<demand>*> of;
      for (const std::uint32_t gpu = pieces[order[i]].gpu;
           i < order.size() && pieces[order[i]].gpu == gpu; ++i) {
        if (parts[order[i]].empty()) continue;
        gpulet g{gpu, menu_.pieces()[pieces[order[i]].piece].sms};
        for (const demand& d : parts[order[i]]) g.portions.push_back({d.model, d.rate, 1});
        here.push_back(std::move(g));
        of.push_back(&parts[order[i]]);
      }
      if (!is_settled(here, of)) return std::nullopt;
      all.gpulets.insert(all.gpulets.end(), here.begin(), here.end());
    }
    return all;
  }

private:
  static constexpr double fill = 1 - 1e-9; ///< of a capacity, so that rounding makes nobody late
  static constexpr int most_rounds = 8;

  /// Shared pieces first, then the largest.
  [[nodiscard]] std::vector<std::vector<demand>>
  parts_of(std::span<const dealt_piece> pieces) const {
    struct offer {
      bool own;
      double rate;
      std::size_t piece;
    };
    std::vector<std::vector<offer>> offers(menu_.demands().size());
    for (std::size_t i = 0; i < pieces.size(); ++i)
      for (const auto& [d, rate] : pieces[i].most)
        offers[d].push_back({pieces[i].most.size() == 1, rate, i});
    std::vector<std::vector<demand>> parts(pieces.size());
    for (std::size_t d = 0; d < offers.size(); ++d) {
      std::stable_sort(offers[d].begin(), offers[d].end(), [](const offer& a, const offer& b) {
        return a.own != b.own ? b.own : a.rate > b.rate;
      });
      demand part = menu_.demands()[d];
      double left = part.rate;
      for (const offer& o : offers[d]) {
        part.rate = std::min(left, o.rate * fill);
        if (part.rate <= 0) break;
        parts[o.piece].push_back(part);
        left -= part.rate;
      }
    }
    return parts;
  }

  /// What partitions do to each other depends on their batches and these on that: so until nothing
  /// changes.
  [[nodiscard]] bool is_settled(std::vector<gpulet>& here,
                                const std::vector<const std::vector<demand>*>& parts) const {
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<gpulet> before = here;
      for (std::size_t i = 0; i < here.size(); ++i) {
        std::vector<double> factors;
        for (const demand& d : *parts[i]) {
          factors.push_back(beside_(std::span<const gpulet>(here), i, d.model));
          for (std::size_t of = 0; of < factors_.size(); ++of)
            if (menu_.demands()[of].model == d.model)
              factors_[of] = std::max(factors_[of], factors.back());
        }
        const auto cycle = find_duty_cycle(table_, here[i].sms, *parts[i], factors);
        if (!cycle) return false;
        here[i].cycle = cycle->length;
        for (std::size_t p = 0; p < parts[i]->size(); ++p)
          here[i].portions[p].batch = cycle->batches[p];
      }
      if (here == before) return true;
    }
    return false;
  }

  const latency_table& table_;
  const piece_menu& menu_;
  const Interference& beside_;
  std::vector<double>& factors_;
};

} // namespace gsched
