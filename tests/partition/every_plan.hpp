// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace gsched::testing {

/// Requests a second, by demand.
using served_rates = std::vector<double>;

/// Everything that GPUs can serve: enumerates all splits of a GPU, in at most `partitions` if that
/// is not 0, and all batches on each partition, and drops dominated results. With interference it
/// takes all batches of all partitions of a GPU together: for few groups, models and batches.
class every_plan {
public:
  every_plan(const latency_table& t, std::span<const model_demand> demands,
             std::span<const gpu_shape> shapes, std::size_t partitions = 0,
             interference_function beside = {})
      : table_(t), demands_(demands.begin(), demands.end()), partitions_(partitions),
        beside_(std::move(beside)) {
    all_.push_back(served_rates(demands.size(), 0.0));
    for (const gpu_shape& g : shapes) {
      std::vector<served_rates> here;
      std::vector<sm_count> sizes;
      std::vector<gpulet> partitions_here;
      if (beside_)
        cut_beside(g, 1, sizes, partitions_here, here);
      else
        cut(g, 1, sizes, {served_rates(demands.size(), 0.0)}, here);
      keep_best(here);
      all_ = sums(all_, here);
    }
  }

  /// The largest factor on all rates that some plan serves.
  [[nodiscard]] double max_scale() const {
    double most = 0;
    for (const served_rates& r : all_) {
      double scale = 1e300;
      for (std::size_t d = 0; d < r.size(); ++d) scale = std::min(scale, r[d] / demands_[d].rate);
      most = std::max(most, scale);
    }
    return most;
  }

private:
  void cut(const gpu_shape& g, std::uint32_t from, std::vector<sm_count>& sizes,
           const std::vector<served_rates>& so_far, std::vector<served_rates>& here) {
    here.insert(here.end(), so_far.begin(), so_far.end());
    if (partitions_ > 0 && sizes.size() == partitions_) return;
    for (std::uint32_t sms = from; sms <= g.sms.count(); ++sms) {
      sizes.push_back(sm_count{sms});
      if (g.can_make(sizes)) cut(g, sms, sizes, sums(so_far, on(sm_count{sms})), here);
      sizes.pop_back();
    }
  }

  void cut_beside(const gpu_shape& g, std::uint32_t from, std::vector<sm_count>& sizes,
                  std::vector<gpulet>& here, std::vector<served_rates>& all) {
    if (const served_rates r = beside(here); !r.empty()) all.push_back(r);
    if (partitions_ > 0 && sizes.size() == partitions_) return;
    for (std::uint32_t sms = from; sms <= g.sms.count(); ++sms) {
      sizes.push_back(sm_count{sms});
      if (g.can_make(sizes))
        for (const std::vector<portion>& batches : every_batch(sm_count{sms})) {
          here.push_back({0, sm_count{sms}, {}, batches});
          cut_beside(g, sms, sizes, here, all);
          here.pop_back();
        }
      sizes.pop_back();
    }
  }
  /// All choices of a batch for some of the models, that fit alone.
  std::vector<std::vector<portion>> every_batch(sm_count sms) const {
    std::vector<std::vector<portion>> all{{}};
    for (const model_demand& d : demands_) {
      if (sms < table_.sizes(d.model).front()) continue;
      for (std::size_t i = 0, n = all.size(); i < n; ++i)
        for (std::uint32_t b = 1; b <= table_.batches(d.model).back(); ++b) {
          std::vector<portion> more = all[i];
          more.push_back({d.model, 0, b});
          all.push_back(std::move(more));
        }
    }
    std::erase_if(all, [](const auto& batches) { return batches.empty(); });
    return all;
  }
  /// What partitions serve beside each other; empty if a latency is over its SLO.
  served_rates beside(std::span<const gpulet> here) const {
    served_rates r(demands_.size(), 0.0);
    for (std::size_t i = 0; i < here.size(); ++i) {
      duration cycle{};
      std::vector<duration> times;
      for (const portion& p : here[i].portions) {
        times.push_back(
            planned_latency(table_, p.model, p.batch, here[i].sms, beside_(here, i, p.model)));
        cycle += times.back();
      }
      for (std::size_t k = 0; k < times.size(); ++k)
        for (std::size_t d = 0; d < demands_.size(); ++d)
          if (demands_[d].model == here[i].portions[k].model) {
            if (cycle + times[k] > demands_[d].slo) return {};
            r[d] += here[i].portions[k].batch / to_s(cycle);
          }
    }
    return r;
  }

  /// What a partition serves, with any models that share it.
  const std::vector<served_rates>& on(sm_count sms) {
    const auto [at, is_new] = on_.try_emplace(sms);
    if (!is_new) return at->second;
    std::vector<std::uint32_t> batches(demands_.size(), 0);
    for (bool more = true; more;) {
      duration cycle{};
      bool fits = true;
      const auto time = [&](std::size_t d) {
        return table_.latency(demands_[d].model, batches[d], sms);
      };
      for (std::size_t d = 0; d < batches.size() && fits; ++d)
        if (batches[d] > 0) {
          fits = sms >= table_.sizes(demands_[d].model).front();
          if (fits) cycle += time(d);
        }
      served_rates r(demands_.size(), 0.0);
      for (std::size_t d = 0; d < batches.size() && fits; ++d)
        if (batches[d] > 0) {
          fits = cycle + time(d) <= demands_[d].slo;
          r[d] = batches[d] / to_s(cycle);
        }
      if (fits) at->second.push_back(r);
      more = false;
      for (std::size_t d = 0; d < batches.size() && !more; ++d) {
        more = ++batches[d] <= table_.batches(demands_[d].model).back();
        if (!more) batches[d] = 0;
      }
    }
    keep_best(at->second);
    return at->second;
  }

  static std::vector<served_rates> sums(const std::vector<served_rates>& a,
                                        const std::vector<served_rates>& b) {
    std::vector<served_rates> all;
    for (const served_rates& x : a)
      for (const served_rates& y : b) {
        all.push_back(x);
        for (std::size_t d = 0; d < y.size(); ++d) all.back()[d] += y[d];
      }
    keep_best(all);
    return all;
  }

  static void keep_best(std::vector<served_rates>& all) {
    std::sort(all.begin(), all.end(), std::greater<>{});
    std::vector<served_rates> best;
    for (const served_rates& r : all)
      if (std::none_of(best.begin(), best.end(), [&](const served_rates& b) {
            return std::equal(r.begin(), r.end(), b.begin(), std::less_equal<>{});
          }))
        best.push_back(r);
    all = std::move(best);
  }

  const latency_table& table_;
  std::vector<model_demand> demands_;
  std::size_t partitions_;
  interference_function beside_;
  std::map<sm_count, std::vector<served_rates>> on_;
  std::vector<served_rates> all_;
};

} // namespace gsched::testing
