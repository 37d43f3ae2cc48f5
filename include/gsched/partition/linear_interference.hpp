// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/linear_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gsched {

/// Partitions slow one another by what they take of L2 and DRAM: the linear law of partitions with
/// SMs of their own.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.4.
/// Differs  a partition that models take turns on counts as the one of them whose batch slows the
///          asker most, for it may be that one's turn; several partitions add up.
/// Units    what a batch takes is what the metrics say of it on all SMs, over the time that the
///          table has for it on these.
/// Errors   unknown_name for a model without metrics: ask check_metrics before.
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
    const bandwidth own = taken(model, batch, all[which].sms);
    bandwidth others;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == which) continue;
      bandwidth worst;
      for (const portion& p : all[i].portions) {
        const bandwidth b = taken(p.model, p.batch, all[i].sms);
        if (weight(b) > weight(worst)) worst = b;
      }
      others.l2 += worst.l2;
      others.dram += worst.dram;
    }
    return law_.slowdown(own, others);
  }

private:
  /// What it adds to a neighbour's time.
  [[nodiscard]] double weight(const bandwidth& b) const noexcept {
    return law_.c[1] * b.l2 + law_.c[3] * b.dram;
  }

  [[nodiscard]] bandwidth taken(std::size_t model, std::uint32_t batch, sm_count sms) const {
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

/// Refuses demands for models whose metrics nobody has measured.
/// Errors   unknown_name, one line that names the first.
inline void check_metrics(std::span<const demand> demands, const latency_table& t,
                          const solo_table& metrics) {
  for (const demand& d : demands)
    if (d.rate > 0 && !metrics.has(t.name(d.model)))
      throw error(errc::unknown_name,
                  t.name(d.model) + ": no solo metrics, expected a row of the model");
}

} // namespace gsched
