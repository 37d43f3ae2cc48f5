// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/batch_runner.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Batches that run on GPUs in virtual time. Alone, a batch takes the table's latency on its
/// partition. While other batches run on the same GPU, it progresses at that speed divided by the
/// slow-down that the interference model predicts for the batches running at that moment.
///
/// Units    remaining work is in nanoseconds alone.
/// Cost     begin and end O(batches on the GPU), plus one prediction for each new combination of
///          batches.
/// Threads  one owner; table and model outlive it.
class batch_runs {
public:
  batch_runs(const latency_table& table, const interference_function& truth, std::size_t gpus)
      : table_(&table), truth_(&truth), gpus_(gpus) {}

  /// Starts a batch. Calls report_end(partition, time) with the predicted end of this batch and of
  /// each batch whose end changes.
  template <class ReportEnd>
  void begin(const batch_run& r, time_point now, ReportEnd&& report_end) {
    std::vector<state>& here = gpus_[r.gpu];
    const state s{r, code(r), static_cast<double>(table_->latency(r.model, r.batch, r.sms).count()),
                  now, 0};
    here.insert(std::upper_bound(here.begin(), here.end(), s,
                                 [](const state& a, const state& b) { return a.code < b.code; }),
                s);
    change_speeds(here, now, report_end);
  }

  template <class ReportEnd>
  void end(std::uint32_t gpu, std::uint32_t partition, time_point now, ReportEnd&& report_end) {
    std::vector<state>& here = gpus_[gpu];
    const auto at = std::find_if(here.begin(), here.end(),
                                 [&](const state& s) { return s.run.partition == partition; });
    assert(at != here.end());
    here.erase(at);
    change_speeds(here, now, report_end);
  }

private:
  struct state {
    batch_run run;
    std::uint64_t
        code; ///< identifies region, SMs, model and batch: all that interference depends on
    double left;
    time_point since;  ///< time at which `left` was computed
    double factor = 0; ///< slow-down since then; 0: not started
  };
  struct hash {
    std::size_t operator()(const std::vector<std::uint64_t>& codes) const noexcept {
      std::uint64_t h = 0xcbf29ce484222325;
      for (const std::uint64_t c : codes) h = (h ^ c ^ (c >> 29)) * 0x100000001b3;
      return static_cast<std::size_t>(h ^ (h >> 31));
    }
  };
  static constexpr std::size_t most_known = 1 << 17;

  [[nodiscard]] static std::uint64_t code(const batch_run& r) noexcept {
    return std::uint64_t{r.region} << 56 | std::uint64_t{r.sms.count() & 0xffff} << 40 |
           std::uint64_t{r.model & 0xffff} << 24 | r.batch;
  }

  [[nodiscard]] std::span<const double> factors(const std::vector<state>& here) {
    codes_.clear();
    for (const state& s : here) codes_.push_back(s.code);
    if (const auto at = known_.find(codes_); at != known_.end()) return at->second;
    std::vector<gpulet> all;
    for (const state& s : here) {
      gpulet& g = all.emplace_back(); // nvcc rejects initialisation by braces alone
      g.gpu = s.run.gpu;
      g.sms = s.run.sms;
      g.region = s.run.region;
      g.portions.push_back(portion{s.run.model, 0, s.run.batch});
    }
    std::vector<double> f;
    for (std::size_t i = 0; i < here.size(); ++i)
      f.push_back(here.size() > 1 && *truth_ ? (*truth_)(all, i, here[i].run.model) : 1.0);
    if (known_.size() >= most_known) known_.clear();
    return known_.emplace(codes_, std::move(f)).first->second;
  }

  template <class ReportEnd>
  void change_speeds(std::vector<state>& here, time_point now, ReportEnd&& report_end) {
    const std::span<const double> f = factors(here);
    for (std::size_t i = 0; i < here.size(); ++i) {
      state& s = here[i];
      if (s.factor == f[i]) continue;
      if (s.factor > 0)
        s.left = std::max(0.0, s.left - static_cast<double>((now - s.since).count()) / s.factor);
      s.since = now;
      s.factor = f[i];
      report_end(s.run.partition,
                 now + duration{static_cast<duration::rep>(std::ceil(s.left * s.factor))});
    }
  }

  const latency_table* table_;
  const interference_function* truth_;
  std::vector<std::vector<state>> gpus_; ///< by GPU; sorted by code
  std::vector<std::uint64_t> codes_;
  std::unordered_map<std::vector<std::uint64_t>, std::vector<double>, hash> known_;
};

} // namespace gsched::detail
