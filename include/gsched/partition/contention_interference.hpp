// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/mean_slowdown.hpp>
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

/// Interference by the law of contention: the partitions of a GPU slow each other by their use of
/// L2 and DRAM.
///
/// Source   as contention_law; that partitions add up is of Choi et al., USENIX ATC 2022, section
///          4.4.
/// Differs  a time-shared partition counts with the largest use of each kind of its portions, as any of their batches may run.
/// Units    the use of a batch: the bytes that the metrics give for all SMs, over the table's
///          latency on the partition's SMs.
/// Errors   unknown_name for a model without metrics; check_metrics finds it at set-up.
/// Cost     O(portions of the GPU x log rows).
/// Threads  immutable; table and metrics outlive it.
class contention_interference {
public:
  contention_interference(const latency_table& table, const solo_table& metrics,
                          const interference_coefficients& law) noexcept
      : table_(&table), metrics_(&metrics), law_(law) {}

  [[nodiscard]] double operator()(std::span<const gpulet> all, std::size_t which,
                                  std::size_t model) const {
    if (all.size() < 2) return 1;
    std::uint32_t batch = 1;
    for (const portion& p : all[which].portions)
      if (p.model == model) batch = p.batch;
    const mean_use own = used(model, batch, all[which].sms);
    mean_use others;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == which) continue;
      mean_use most;
      for (const portion& p : all[i].portions) {
        const mean_use b = used(p.model, p.batch, all[i].sms);
        most.l2 = std::max(most.l2, b.l2);
        most.dram = std::max(most.dram, b.dram);
        most.starts = std::max(most.starts, b.starts);
      }
      others.l2 += most.l2;
      others.dram += most.dram;
      others.starts += most.starts;
    }
    return mean_slowdown(law_, own, others);
  }

private:
  [[nodiscard]] mean_use used(std::size_t model, std::uint32_t batch, sm_count sms) const {
    const std::uint32_t measured =
        std::clamp(batch, std::uint32_t{1}, table_->batches(model).back());
    const duration alone =
        table_->latency(model, measured, std::max(sms, table_->sizes(model).front()));
    const std::optional<mean_use> b = metrics_->rates(table_->name(model), measured, alone);
    if (!b)
      throw error(errc::unknown_name,
                  table_->name(model) + ": no solo metrics, expected a row of the model");
    return *b;
  }

  const latency_table* table_;
  const solo_table* metrics_;
  interference_coefficients law_;
};

static_assert(interference_model<contention_interference>);

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
