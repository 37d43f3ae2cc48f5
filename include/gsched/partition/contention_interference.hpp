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
#include <gsched/partition/shared_sm_slowdowns.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched {

/// The part of a slow-down on shared SMs that plans add to it. For nine in ten pairs of graphs the
/// law is wrong by at most 5.5 to 14.2%, which depends on the set of graphs, and for nine in ten
/// graphs of larger groups by up to 20% (docs/research/interference_accuracy.md).
inline constexpr double shared_sm_margin = 0.2;

/// Interference by the law of contention: the partitions of a GPU slow each other by their use of
/// L2 and DRAM, and those of a region also by all that an SM has.
///
/// Source   as contention_law; that partitions add up is of Choi et al., USENIX ATC 2022, section
///          4.4.
/// Differs  a time-shared partition counts with the largest use of each kind of its portions, as
///          any of their batches may run. In a region it counts with the batch that slows most.
///          Both slow-downs are multiplied.
/// Units    the use of a batch: the bytes that the metrics give for all SMs, over the table's
///          latency on the partition's SMs. The metrics' factors count between partitions on SMs
///          of their own.
/// Errors   unknown_name for a model without metrics; check_metrics finds it at set-up. bad_option
///          for a region, if the constructor got nothing for shared SMs.
/// Cost     O(portions of the GPU x log rows); in a region that of shared_sm_slowdowns.
/// Threads  any; table, metrics and `on_shared_sms` outlive it.
class contention_interference {
public:
  /// `on_shared_sms`: null if no partitions share SMs. `margin`: as shared_sm_margin.
  contention_interference(const latency_table& table, const solo_table& metrics,
                          const interference_coefficients& law,
                          const shared_sm_slowdowns* on_shared_sms = nullptr,
                          double margin = 0) noexcept
      : table_(&table), metrics_(&metrics), law_(law), shared_(on_shared_sms), margin_(margin) {}

  /// See shared_sm_interference.
  [[nodiscard]] bool predicts_shared_sms(std::size_t model) const noexcept {
    return shared_ != nullptr && shared_->has(model);
  }

  /// What a batch takes of the GPU in the mean, on so many SMs; see summed_interference.
  /// Errors   unknown_name for a model without metrics.
  [[nodiscard]] mean_use use(std::size_t model, std::uint32_t batch, sm_count sms) const {
    const std::uint32_t of = measured(model, batch);
    const duration alone = table_->latency(model, of, std::max(sms, table_->sizes(model).front()));
    const std::optional<mean_use> b = metrics_->rates(table_->name(model), of, alone);
    if (!b)
      throw error(errc::unknown_name,
                  table_->name(model) + ": no solo metrics, expected a row of the model");
    return *b;
  }
  /// The slow-down of a batch beside what all other partitions take.
  [[nodiscard]] double slowdown(const mean_use& own, const mean_use& others) const noexcept {
    return mean_slowdown(law_, own, others);
  }

  [[nodiscard]] double operator()(std::span<const gpulet> all, std::size_t which,
                                  std::size_t model) const {
    if (all.size() < 2) return 1;
    std::uint32_t batch = 1;
    for (const portion& p : all[which].portions)
      if (p.model == model) batch = p.batch;
    const mean_use own = use(model, batch, all[which].sms);
    mean_use others;
    std::vector<const gpulet*> same_sms;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == which) continue;
      if (share_sms(all[i], all[which])) {
        if (!all[i].portions.empty()) same_sms.push_back(&all[i]);
        continue;
      }
      mean_use most;
      for (const portion& p : all[i].portions)
        most.raise_to(use(p.model, p.batch, all[i].sms).as_neighbour());
      others.add(most);
    }
    const double beside = slowdown(own, others);
    if (same_sms.empty()) return beside;
    std::vector<shared_batch> batches{{model, measured(model, batch)}};
    return beside * (1 + margin_) * on_shared_sms(batches, same_sms, all[which].sms);
  }

  /// What makes the slow-downs of a plan extrapolations, as "graphs, dram, vgg16 in 64": more
  /// partitions on a GPU or more throughput of them than the fit has seen, more of an SM in a
  /// region, and batches that are larger than any with metrics. Empty if nothing does.
  ///
  /// Differs  from gsched::beyond_fit: between partitions on SMs of their own only L2 and DRAM
  ///          count, of which metrics have means.
  /// Errors   those of a slow-down.
  /// Cost     O(portions x log rows), and that of the kernels of each region's batches.
  [[nodiscard]] std::string beyond_fit(const partition_plan& plan) const {
    constexpr double rounding = 1e-4;
    std::map<std::uint32_t, std::vector<const gpulet*>> gpus;
    for (const gpulet& g : plan.gpulets)
      if (!g.portions.empty()) gpus[g.gpu].push_back(&g);
    bool graphs = false;
    std::array<bool, resources> beyond{};
    std::map<std::size_t, std::uint32_t> larger; // by model
    for (const auto& [gpu, partitions] : gpus) {
      if (partitions.size() < 2) continue; // nothing slows one alone
      graphs = graphs || partitions.size() > law_.seen.graphs;
      mean_use sum;
      for (const gpulet* const g : partitions) {
        mean_use most;
        for (const portion& p : g->portions) {
          most.raise_to(use(p.model, p.batch, g->sms));
          if (const std::uint32_t batch = measured(p.model, p.batch);
              batch > metrics_->largest_batch(table_->name(p.model)))
            larger[p.model] = std::max(larger[p.model], batch);
        }
        sum.add(most);
      }
      beyond[index(resource::l2)] |= sum.l2 > law_.seen.sum[index(resource::l2)] + rounding;
      beyond[index(resource::dram)] |= sum.dram > law_.seen.sum[index(resource::dram)] + rounding;
      for (std::size_t i = 0; i < partitions.size(); ++i) {
        std::vector<const gpulet*> same_sms; // of a region, from its first partition on
        bool is_first = true;
        for (std::size_t j = 0; j < partitions.size(); ++j)
          if (j == i || share_sms(*partitions[i], *partitions[j])) {
            is_first = is_first && j >= i;
            same_sms.push_back(partitions[j]);
          }
        std::vector<shared_batch> batches;
        if (is_first && same_sms.size() > 1)
          add_beyond_fit(batches, same_sms, partitions[i]->sms, beyond);
      }
    }
    std::string names;
    const auto add = [&](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
    if (graphs) add("graphs");
    for (std::size_t r = 0; r < resources; ++r)
      if (beyond[r]) add(std::string(resource_names[r]));
    for (const auto& [model, batch] : larger)
      add(table_->name(model) + " in " + std::to_string(batch));
    return names;
  }

private:
  /// The slow-down of the first batch beside the worst batches of the partitions.
  [[nodiscard]] double on_shared_sms(std::vector<shared_batch>& batches,
                                     std::span<const gpulet* const> partitions,
                                     sm_count sms) const {
    if (partitions.empty()) {
      for (const shared_batch& b : batches)
        if (!predicts_shared_sms(b.model))
          throw error(errc::bad_option,
                      table_->name(b.model) + " on shared SMs, expected its slow-downs there");
      return (*shared_)(batches, 0, std::max(sms, smallest(batches)));
    }
    double most = 1;
    for (const portion& p : partitions.front()->portions) {
      batches.push_back({p.model, measured(p.model, p.batch)});
      most = std::max(most, on_shared_sms(batches, partitions.subspan(1), sms));
      batches.pop_back();
    }
    return most;
  }
  /// What any batches of these partitions take beyond the fit, beside `batches`.
  void add_beyond_fit(std::vector<shared_batch>& batches, std::span<const gpulet* const> partitions,
                      sm_count sms, std::array<bool, resources>& beyond) const {
    if (partitions.empty()) {
      for (const shared_batch& b : batches)
        if (!predicts_shared_sms(b.model)) return;
      const auto here = shared_->beyond_fit(batches, std::max(sms, smallest(batches)));
      for (std::size_t r = 0; r < resources; ++r) beyond[r] |= here[r];
      return;
    }
    for (const portion& p : partitions.front()->portions) {
      batches.push_back({p.model, measured(p.model, p.batch)});
      add_beyond_fit(batches, partitions.subspan(1), sms, beyond);
      batches.pop_back();
    }
  }
  /// The fewest SMs for which the table has all these batches.
  [[nodiscard]] sm_count smallest(std::span<const shared_batch> batches) const {
    sm_count least{};
    for (const shared_batch& b : batches) least = std::max(least, table_->sizes(b.model).front());
    return least;
  }
  [[nodiscard]] std::uint32_t measured(std::size_t model, std::uint32_t batch) const {
    return std::clamp(batch, std::uint32_t{1}, table_->batches(model).back());
  }

  const latency_table* table_;
  const solo_table* metrics_;
  interference_coefficients law_;
  const shared_sm_slowdowns* shared_;
  double margin_;
};

static_assert(shared_sm_interference<contention_interference> &&
              summed_interference<contention_interference>);

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
