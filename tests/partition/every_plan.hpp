// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>

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

/// Everything that GPUs can serve: enumerates all splits of a GPU, in at most `partitions` if that is
/// not 0, and all batches on each partition, and drops dominated results.
class every_plan {
public:
  every_plan(const latency_table& t, std::span<const model_demand> demands,
             std::span<const gpu_shape> shapes, std::size_t partitions = 0)
      : table_(t), demands_(demands.begin(), demands.end()), partitions_(partitions) {
    all_.push_back(served_rates(demands.size(), 0.0));
    for (const gpu_shape& g : shapes) {
      std::vector<served_rates> here;
      std::vector<sm_count> sizes;
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
  std::map<sm_count, std::vector<served_rates>> on_;
  std::vector<served_rates> all_;
};

} // namespace gsched::testing
