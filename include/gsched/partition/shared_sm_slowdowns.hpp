// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// A batch that runs on shared SMs.
struct shared_batch {
  std::size_t model = 0; ///< index into the latency table
  std::uint32_t batch = 0;
};

/// The slow-downs of batches that run at the same time on the same SMs, by the law of contention,
/// kernel beside kernel.
///
/// The batches run again and again beside each other, and the slow-down is that of one of the
/// slowest runs: which kernels meet is chance. Batches between two with a profile (or metrics) are
/// interpolated on the logarithm of the batch; below the smallest and above the largest they count
/// as that one.
///
/// Source   corun_slowdowns; that short and memory-bound kernels overlap well on the same SMs is of
///          Elvinger et al., SoCC 2025, doi:10.1145/3772052.3772270.
/// Order    each slow-down is at least 1, and does not depend on the order of the batches.
/// Errors   the constructor: bad_profile for a profile without operations.
/// Cost     that of corun_slowdowns for batches that were not asked for before; O(log n)
///          afterwards.
/// Threads  any: answers are kept behind a mutex.
class shared_sm_slowdowns {
public:
  /// `profiles` are of any models and batches, `device` the SMs of the GPU. A batch without a
  /// profile has assumed kernels if it has metrics.
  shared_sm_slowdowns(latency_table table, const solo_table& metrics, std::vector<profile> profiles,
                      const interference_coefficients& law, const architecture_limits& sm,
                      sm_count device)
      : table_(std::move(table)), profiles_(std::move(profiles)), law_(law), sm_(sm),
        device_(device), known_(table_.size()) {
    for (std::size_t m = 0; m < table_.size(); ++m)
      for (std::uint32_t b = 1; b <= table_.batches(m).back(); ++b) {
        const auto at = std::find_if(profiles_.begin(), profiles_.end(), [&](const profile& p) {
          return p.model == table_.name(m) && p.batch == b;
        });
        const solo_metrics* const alone = metrics.find(table_.name(m), b);
        if (at == profiles_.end() && alone == nullptr) continue;
        known_[m].push_back(
            {b, at == profiles_.end() ? nullptr : &*at, alone ? *alone : solo_metrics{}});
      }
  }

  /// Whether a model has a profile or metrics.
  [[nodiscard]] bool has(std::size_t model) const noexcept {
    return model < known_.size() && !known_[model].empty();
  }

  /// The slow-down of batch `which` of those that share the SMs. The caller owes: each model has a
  /// profile or metrics, and the table has its batch and that many SMs.
  [[nodiscard]] double operator()(std::span<const shared_batch> all, std::size_t which,
                                  sm_count sms) const {
    if (all.size() < 2) return 1;
    std::vector<between> places;
    for (const shared_batch& b : all) places.push_back(place_of(b));
    double sum = 0;
    std::vector<known_index> corner(all.size());
    for (std::uint32_t mask = 0; mask < (1u << all.size()); ++mask) {
      double weight = 1;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bool is_upper = (mask >> i & 1u) != 0;
        weight *= is_upper ? places[i].part : 1 - places[i].part;
        corner[i] = {all[i].model, places[i].low + (is_upper ? 1u : 0u)};
      }
      if (weight > 0) sum += weight * at_known(corner, which, sms);
    }
    return std::max(1.0, sum);
  }

  /// Whether these batches together take more of each resource than the fit of the law has seen;
  /// a batch counts as the next larger one with a profile or metrics.
  /// Cost     that of their chains of kernels: O(kernels).
  [[nodiscard]] std::array<bool, resources> beyond_fit(std::span<const shared_batch> all,
                                                       sm_count sms) const {
    std::vector<known_index> known;
    for (const shared_batch& b : all) {
      const between at = place_of(b);
      known.push_back({b.model, at.low + (at.part > 0 ? 1u : 0u)});
    }
    const std::vector<kernel_chain> chains = chains_of(known, sms);
    return use_beyond_fit(law_.seen, on_same_sms(chains));
  }

private:
  static constexpr double rank = 0.9; ///< of the runs that counts

  /// What is known of a batch of a model.
  struct known_batch {
    std::uint32_t batch = 0;
    const profile* kernels = nullptr; ///< null: assumed ones
    solo_metrics metrics{};
  };
  using known_index = std::pair<std::size_t, std::size_t>; ///< model, index of its known batches
  struct between {
    std::size_t low = 0;
    double part = 0; ///< of the way to the next known batch
  };

  [[nodiscard]] between place_of(const shared_batch& b) const noexcept {
    assert(has(b.model));
    const std::vector<known_batch>& of = known_[b.model];
    const auto above =
        std::upper_bound(of.begin(), of.end(), b.batch,
                         [](std::uint32_t batch, const known_batch& k) { return batch < k.batch; });
    if (above == of.begin()) return {0, 0};
    const auto low = static_cast<std::size_t>(above - of.begin()) - 1;
    if (above == of.end()) return {low, 0};
    const auto log_of = [](std::uint32_t n) { return std::log2(static_cast<double>(n)); };
    return {low, (log_of(b.batch) - log_of(of[low].batch)) /
                     (log_of(above->batch) - log_of(of[low].batch))};
  }

  [[nodiscard]] double at_known(std::span<const known_index> all, std::size_t which,
                                sm_count sms) const {
    std::vector<known_index> sorted(all.begin(), all.end());
    std::sort(sorted.begin(), sorted.end());
    const std::pair key(sms, sorted);
    {
      const std::lock_guard lock(guard_);
      if (const auto at = answers_.find(key); at != answers_.end())
        return of(at->second, sorted, all[which]);
    }
    std::vector<double> slow = simulate(sorted, sms);
    const double answer = of(slow, sorted, all[which]);
    const std::lock_guard lock(guard_);
    answers_.emplace(key, std::move(slow));
    return answer;
  }
  /// The slow-down of a batch, of equal ones the largest.
  [[nodiscard]] static double of(std::span<const double> slow, std::span<const known_index> sorted,
                                 const known_index& which) noexcept {
    double most = 1;
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] == which) most = std::max(most, slow[i]);
    return most;
  }

  [[nodiscard]] std::vector<kernel_chain> chains_of(std::span<const known_index> all,
                                                    sm_count sms) const {
    std::vector<kernel_chain> chains;
    chains.reserve(all.size());
    for (const auto& [model, index] : all) {
      const known_batch& k = known_[model][index];
      const chain_place place{sms, table_.latency(model, k.batch, sms)};
      chains.push_back(k.kernels != nullptr ? chain_of(*k.kernels, sm_, k.metrics, place)
                                            : stand_in_chain(k.metrics, device_, place));
    }
    return chains;
  }
  [[nodiscard]] static std::vector<corunner> on_same_sms(std::span<const kernel_chain> chains) {
    std::vector<corunner> graphs;
    graphs.reserve(chains.size());
    for (const kernel_chain& c : chains) graphs.push_back({&c, 0});
    return graphs;
  }

  [[nodiscard]] std::vector<double> simulate(std::span<const known_index> all, sm_count sms) const {
    const std::vector<kernel_chain> chains = chains_of(all, sms);
    replay_window window;
    window.rank = rank;
    return corun_slowdowns(on_same_sms(chains), law_.contention, law_.replay, window);
  }

  latency_table table_;
  std::vector<profile> profiles_;
  interference_coefficients law_;
  architecture_limits sm_;
  sm_count device_;
  std::vector<std::vector<known_batch>> known_; ///< by model, then rising batch
  mutable std::mutex guard_;
  mutable std::map<std::pair<sm_count, std::vector<known_index>>, std::vector<double>> answers_;
};

} // namespace gsched
