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

namespace gsched::sim {

/// Batches side by side on GPUs, in virtual time: each takes what the table has for it on its
/// partition, while it runs times what the interference model says for those that run on the same
/// GPU at that moment. So a neighbour slows it for as long as they meet.
///
/// Units    work that is left is in nanoseconds alone.
/// Cost     begin and end O(batches on the GPU), and the model's where the same batches have not
/// met
///          before. Threads  one owner; table and model outlive it.
class batch_runs {
public:
  batch_runs(const latency_table& table, const interference_function& truth, std::size_t gpus)
      : table_(&table), truth_(&truth), gpus_(gpus) {}

  /// tell(partition, time) says when a batch ends as things stand now: of this one, and of each
  /// that it changes.
  template <class Tell>
  void begin(const batch_run& r, time_point now, Tell&& tell) {
    std::vector<state>& here = gpus_[r.gpu];
    const state s{r, code(r), static_cast<double>(table_->latency(r.model, r.batch, r.sms).count()),
                  now, 0};
    here.insert(std::upper_bound(here.begin(), here.end(), s,
                                 [](const state& a, const state& b) { return a.code < b.code; }),
                s);
    change_speeds(here, now, tell);
  }

  template <class Tell>
  void end(std::uint32_t gpu, std::uint32_t partition, time_point now, Tell&& tell) {
    std::vector<state>& here = gpus_[gpu];
    const auto at = std::find_if(here.begin(), here.end(),
                                 [&](const state& s) { return s.run.partition == partition; });
    assert(at != here.end());
    here.erase(at);
    change_speeds(here, now, tell);
  }

private:
  struct state {
    batch_run run;
    std::uint64_t code; ///< what it does to others, and they to it
    double left;
    time_point since;  ///< when that was left
    double factor = 0; ///< since then; 0: it has not begun
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
    return std::uint64_t{r.sms.count()} << 40 | std::uint64_t{r.model & 0xffff} << 24 | r.batch;
  }

  [[nodiscard]] std::span<const double> factors(const std::vector<state>& here) {
    codes_.clear();
    for (const state& s : here) codes_.push_back(s.code);
    if (const auto at = known_.find(codes_); at != known_.end()) return at->second;
    std::vector<gpulet> all;
    for (const state& s : here) {
      gpulet& g = all.emplace_back(); // by braces alone nvcc's front end does not take it
      g.gpu = s.run.gpu;
      g.sms = s.run.sms;
      g.portions.push_back(portion{s.run.model, 0, s.run.batch});
    }
    std::vector<double> f;
    for (std::size_t i = 0; i < here.size(); ++i)
      f.push_back(here.size() > 1 && *truth_ ? (*truth_)(all, i, here[i].run.model) : 1.0);
    if (known_.size() >= most_known) known_.clear();
    return known_.emplace(codes_, std::move(f)).first->second;
  }

  template <class Tell>
  void change_speeds(std::vector<state>& here, time_point now, Tell&& tell) {
    const std::span<const double> f = factors(here);
    for (std::size_t i = 0; i < here.size(); ++i) {
      state& s = here[i];
      if (s.factor == f[i]) continue;
      if (s.factor > 0)
        s.left = std::max(0.0, s.left - static_cast<double>((now - s.since).count()) / s.factor);
      s.since = now;
      s.factor = f[i];
      tell(s.run.partition,
           now + duration{static_cast<duration::rep>(std::ceil(s.left * s.factor))});
    }
  }

  const latency_table* table_;
  const interference_function* truth_;
  std::vector<std::vector<state>> gpus_; ///< by code
  std::vector<std::uint64_t> codes_;
  std::unordered_map<std::vector<std::uint64_t>, std::vector<double>, hash> known_;
};

} // namespace gsched::sim
