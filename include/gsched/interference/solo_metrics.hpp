// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/start_loss.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace gsched {

/// The resource use of a model at one batch size, alone on the device.
///
/// Units    l2, dram, active, l1: parts of the capacity, averaged over a replay, 0 to 1.
struct solo_metrics {
  std::string model{};
  std::uint32_t batch = 1;
  duration solo{};       ///< latency of a replay on all SMs
  double l2 = 0;         ///< L2 throughput
  double dram = 0;       ///< DRAM throughput
  double active = 0;     ///< SMs on which a warp is resident
  double ipc = 0;        ///< instructions issued a cycle of each SM, 0 to 4; 0: not known
  double l1 = 0;         ///< L1 throughput of each SM; 0: not known
  double kept = 1;       ///< part of the L2 traffic that hits
  double starts = 0;     ///< of a replay, weighted as in mean_use; 0: not known
  double exposed = 0.75; ///< as in mean_use
  corun_factors factors{};
  l2_loss lost{};
  start_loss at_start{};    ///< of predictions by kernels: means have starts in their own way
  double mean_pressure = 1; ///< in predictions from means, times the pressure: see mean_pressures

  /// The factors in predictions from means.
  [[nodiscard]] corun_factors mean_factors() const noexcept {
    return factors.times({1, mean_pressure});
  }
};

/// What a graph takes of the device in the mean of a replay.
///
/// Units    l2, dram: parts of the device's throughput; starts: kernels a microsecond. Where the
///          profile is known, a kernel of many blocks counts as replay_law::starts says.
struct mean_use {
  /// Time of a kernel without a warp on an SM: 2.0 to 2.7 us for 15 graphs of five networks on one
  /// H200, 3.6 in two others. It turns the idle time of the SMs into a number of kernels.
  static constexpr double idle_us = 2.25;

  double l2 = 0;
  double dram = 0;
  double kept = 0; ///< part of the L2 traffic that hits
  double starts = 0;
  double exposed = 0.75; ///< part of a pause that costs it time, see replay_law::exposed; 0.75 is
                         ///< the mean of many graphs
  corun_factors factors{};
  l2_loss lost{};
  bool operator==(const mean_use&) const noexcept = default;

  /// As graphs on other SMs feel it: l2, dram and starts times its pressure. These add up.
  [[nodiscard]] mean_use as_neighbour() const noexcept {
    mean_use felt = *this;
    felt.l2 *= factors.pressure;
    felt.dram *= factors.pressure;
    felt.starts *= factors.pressure;
    felt.factors = {};
    felt.lost = {};
    return felt;
  }
  /// Adds l2, dram and starts.
  void add(const mean_use& other) noexcept {
    l2 += other.l2;
    dram += other.dram;
    starts += other.starts;
  }
  /// The larger of both l2, of both dram and of both starts.
  void raise_to(const mean_use& other) noexcept {
    l2 = std::max(l2, other.l2);
    dram = std::max(dram, other.dram);
    starts = std::max(starts, other.starts);
  }
};

/// Solo metrics of models by batch size.
///
/// Errors   add: bad_profile, one line that names the model, for a second row of a model and batch.
/// Cost     O(log rows) a call.
/// Threads  immutable, except for add, override_with and multiply_factors.
class solo_table {
public:
  /// Adds a row. `where` is the start of the error line.
  void add(solo_metrics m, const std::string& where = "solo metrics") {
    std::map<std::uint32_t, solo_metrics>& batches = models_[m.model];
    const std::uint32_t batch = m.batch;
    if (batches.contains(batch))
      throw error(errc::bad_profile, where + ": " + m.model + ", batch " + std::to_string(batch) +
                                         " is there twice, expected once");
    batches.emplace(batch, std::move(m));
  }
  /// Adds all rows of another table. They replace rows of the same model and batch.
  void override_with(const solo_table& other) {
    for (const auto& [model, batches] : other.models_)
      for (const auto& [batch, m] : batches) models_[model].insert_or_assign(batch, m);
  }

  /// Multiplies the factors of all rows of a model, up to the bounds of corun_factors.
  void multiply_factors(const std::string& model, const corun_factors& by) {
    const auto of = models_.find(model);
    if (of == models_.end()) return;
    for (auto& [batch, m] : of->second) m.factors = m.factors.times(by);
  }

  [[nodiscard]] bool has(const std::string& model) const { return models_.contains(model); }
  /// The largest batch of a model with a row, beyond which rates extrapolates; 0 for a model
  /// without.
  [[nodiscard]] std::uint32_t largest_batch(const std::string& model) const {
    const auto of = models_.find(model);
    return of == models_.end() ? 0 : of->second.rbegin()->first;
  }
  /// The row of a model and batch; null if there is none.
  [[nodiscard]] const solo_metrics* find(const std::string& model, std::uint32_t batch) const {
    const auto of = models_.find(model);
    if (of == models_.end()) return nullptr;
    const auto at = of->second.find(batch);
    return at == of->second.end() ? nullptr : &at->second;
  }

  /// The use of a batch with latency `alone` on the SMs that it runs on; empty for a model without
  /// a row. The bytes and kernels of a replay depend on the batch and hardly on the SMs, so the use
  /// is their number over latency. Between two batches they are interpolated linearly; above the
  /// largest they are extrapolated; below the smallest they are constant.
  [[nodiscard]] std::optional<mean_use> rates(const std::string& model, std::uint32_t batch,
                                              duration alone) const {
    const auto of = models_.find(model);
    if (of == models_.end() || alone <= duration::zero()) return std::nullopt;
    const std::map<std::uint32_t, solo_metrics>& rows = of->second;
    const auto above = rows.lower_bound(batch);
    if (above == rows.begin()) {
      mean_use use = in_replay(above->second).over(to_us(alone));
      use.factors = above->second.mean_factors();
      use.lost = above->second.lost;
      return use;
    }
    const auto high = above == rows.end() ? std::prev(above) : above;
    const bool one = high == rows.begin();
    const double from = one ? 0 : std::prev(high)->first;
    total low = one ? total{} : in_replay(std::prev(high)->second);
    if (one) low.exposed = high->second.exposed;
    const double part = (batch - from) / (high->first - from);
    mean_use use = low.to(in_replay(high->second), part).over(to_us(alone));
    const solo_metrics& last = high->second;
    const solo_metrics& before = one ? last : std::prev(high)->second;
    use.factors = before.mean_factors().to(last.mean_factors(), part);
    use.lost = before.lost.to(last.lost, part);
    return use;
  }

private:
  /// Of a whole replay: uses times microseconds, and starts.
  struct total {
    double l2 = 0;
    double dram = 0;
    double hits = 0;
    double starts = 0;
    double exposed = 0; ///< a part, as in mean_use

    [[nodiscard]] total to(const total& high, double part) const noexcept {
      const auto between = [&](double a, double b) { return std::max(0.0, a + (b - a) * part); };
      return {between(l2, high.l2), between(dram, high.dram), between(hits, high.hits),
              between(starts, high.starts), between(exposed, high.exposed)};
    }
    [[nodiscard]] mean_use over(double us) const noexcept {
      return {std::min(1.0, l2 / us),
              std::min(1.0, dram / us),
              l2 > 0 ? std::min(1.0, hits / l2) : 0,
              starts / us,
              std::min(1.0, exposed),
              {},
              {}};
    }
  };
  [[nodiscard]] static total in_replay(const solo_metrics& m) noexcept {
    const double us = to_us(m.solo);
    const double idle = std::max(0.0, 1 - m.active) * us / mean_use::idle_us;
    return {m.l2 * us, m.dram * us, m.l2 * us * m.kept, m.starts > 0 ? m.starts : idle, m.exposed};
  }

  std::map<std::string, std::map<std::uint32_t, solo_metrics>> models_;
};

} // namespace gsched
