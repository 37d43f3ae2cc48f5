// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

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
/// Units    l2, dram, active: parts of the device's capacity, averaged over a replay, 0 to 1.
struct solo_metrics {
  std::string model{};
  std::uint32_t batch = 1;
  duration solo{};   ///< latency of a replay on all SMs
  double l2 = 0;     ///< L2 throughput
  double dram = 0;   ///< DRAM throughput
  double active = 0; ///< SMs on which a warp is resident
};

/// Memory throughput, as parts of the device's capacity.
struct bandwidth {
  double l2 = 0;
  double dram = 0;
  bool operator==(const bandwidth&) const noexcept = default;
};

/// Solo metrics of models by batch size.
///
/// Errors   add: bad_profile, one line that names the model, for a second row of a model and batch.
/// Cost     O(log rows) a call.
/// Threads  immutable, except for add and override_with.
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

  [[nodiscard]] bool has(const std::string& model) const { return models_.contains(model); }
  /// The row of a model and batch; null if there is none.
  [[nodiscard]] const solo_metrics* find(const std::string& model, std::uint32_t batch) const {
    const auto of = models_.find(model);
    if (of == models_.end()) return nullptr;
    const auto at = of->second.find(batch);
    return at == of->second.end() ? nullptr : &at->second;
  }

  /// The throughput of a batch with latency `alone` on the SMs that it runs on; empty for a model
  /// without a row. The bytes that a replay moves depend on the batch and hardly on the SMs, so the
  /// throughput is bytes over latency. Between two batches the bytes are interpolated linearly;
  /// above the largest they are extrapolated; below the smallest they are constant.
  [[nodiscard]] std::optional<bandwidth> rates(const std::string& model, std::uint32_t batch,
                                               duration alone) const {
    const auto of = models_.find(model);
    if (of == models_.end() || alone <= duration::zero()) return std::nullopt;
    const std::map<std::uint32_t, solo_metrics>& rows = of->second;
    auto above = rows.lower_bound(batch);
    const auto moved = [](const solo_metrics& m) {
      return bandwidth{m.l2 * to_us(m.solo), m.dram * to_us(m.solo)};
    };
    bandwidth b;
    if (above == rows.begin()) {
      b = moved(above->second);
    } else {
      if (above == rows.end()) --above;
      const bandwidth high = moved(above->second);
      const bool one = above == rows.begin();
      const bandwidth low = one ? bandwidth{} : moved(std::prev(above)->second);
      const double from = one ? 0 : std::prev(above)->first;
      const double part = (batch - from) / (above->first - from);
      b = {std::max(0.0, low.l2 + (high.l2 - low.l2) * part),
           std::max(0.0, low.dram + (high.dram - low.dram) * part)};
    }
    const double us = to_us(alone);
    return bandwidth{std::min(1.0, b.l2 / us), std::min(1.0, b.dram / us)};
  }

private:
  std::map<std::string, std::map<std::uint32_t, solo_metrics>> models_;
};

} // namespace gsched
