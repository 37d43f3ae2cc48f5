// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/linear_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gsched {

/// Interference by the linear law: the partitions of a GPU slow each other by the L2 and DRAM
/// bandwidth that they use.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.4.
/// Differs  a time-shared partition counts as the portion with the largest effect on the others, as
///          that portion's batch may run. Several partitions add up.
/// Units    the bandwidth of a batch: the bytes that the metrics give for all SMs, over the table's
///          latency on the partition's SMs.
/// Errors   unknown_name for a model without metrics; check_metrics finds it at set-up.
/// Cost     O(portions of the GPU x log rows).
/// Threads  immutable; table and metrics outlive it.
class linear_interference {
public:
  linear_interference(const latency_table& table, const solo_table& metrics,
                      const linear_law& law) noexcept
      : table_(&table), metrics_(&metrics), law_(law) {}

  [[nodiscard]] double operator()(std::span<const gpulet> all, std::size_t which,
                                  std::size_t model) const {
    if (all.size() < 2) return 1;
    std::uint32_t batch = 1;
    for (const portion& p : all[which].portions)
      if (p.model == model) batch = p.batch;
    const bandwidth own = used(model, batch, all[which].sms);
    bandwidth others;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == which) continue;
      bandwidth worst;
      for (const portion& p : all[i].portions) {
        const bandwidth b = used(p.model, p.batch, all[i].sms);
        if (weight(b) > weight(worst)) worst = b;
      }
      others.l2 += worst.l2;
      others.dram += worst.dram;
    }
    return law_.slowdown(own, others);
  }

private:
  /// The part of a neighbour's slow-down that this bandwidth causes.
  [[nodiscard]] double weight(const bandwidth& b) const noexcept {
    return law_.c[1] * b.l2 + law_.c[3] * b.dram;
  }

  [[nodiscard]] bandwidth used(std::size_t model, std::uint32_t batch, sm_count sms) const {
    const std::uint32_t measured =
        std::clamp(batch, std::uint32_t{1}, table_->batches(model).back());
    const duration alone =
        table_->latency(model, measured, std::max(sms, table_->sizes(model).front()));
    const std::optional<bandwidth> b = metrics_->rates(table_->name(model), measured, alone);
    if (!b)
      throw error(errc::unknown_name,
                  table_->name(model) + ": no solo metrics, expected a row of the model");
    return *b;
  }

  const latency_table* table_;
  const solo_table* metrics_;
  linear_law law_;
};

static_assert(interference_model<linear_interference>);

/// Checks that every demand's model has solo metrics.
///
/// Errors   unknown_name, one line that names the first model without metrics.
inline void check_metrics(std::span<const model_demand> demands, const latency_table& t,
                          const solo_table& metrics) {
  for (const model_demand& d : demands)
    if (d.rate > 0 && !metrics.has(t.name(d.model)))
      throw error(errc::unknown_name,
                  t.name(d.model) + ": no solo metrics, expected a row of the model");
}

} // namespace gsched
