// SPDX-License-Identifier: Apache-2.0
#include "interference/rules.hpp"

#include "interference/study.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace interference {

using namespace gsched;

namespace {

/// The mean of something over a chain's kernels, by their time.
template <class Of>
double mean(const kernel_chain& chain, Of of) {
  double sum = 0;
  for (const chain_kernel& k : chain.kernels) sum += of(k) * k.us;
  return sum / chain.replay_us();
}

double sms_needed(const kernel_chain& c) {
  return mean(c,
              [&](const chain_kernel& k) { return std::min(1.0, k.blocks / (c.sms * k.per_sm)); });
}

double busy(const kernel_chain& c) {
  return mean(c, [](const chain_kernel&) { return 1.0; });
}

/// 1: only memory work; 0: only instructions.
double memory_work(const kernel_chain& c) {
  const demand d = mean_demand(c);
  const double issue = d.of(resource::issue), dram = d.of(resource::dram);
  return issue + dram > 0 ? dram / (issue + dram) : 0.5;
}

/// What a kernel does of the floating-point operations that its busiest pipe could do. Over its
/// part of DRAM's throughput, this is its operations for each byte over those at the pipe's ridge.
double operations(const chain_kernel& k, double sms) {
  double most = 0;
  for (const resource pipe : {resource::fma, resource::fp16, resource::fp64, resource::tensor})
    most = std::max(most, k.takes.of(pipe));
  return most * k.coverage(sms);
}

/// 1: each kernel is memory-bound; 0: each is compute-bound. Kernels count by their time.
double memory_bound(const kernel_chain& c) {
  double memory = 0, all = 0;
  for (const chain_kernel& k : c.kernels) {
    const double done = operations(k, c.sms), dram = k.takes.of(resource::dram);
    if (done + dram > 0) all += k.us;
    if (done < dram) memory += k.us;
  }
  return all > 0 ? memory / all : 0.5;
}

template <class Of>
double sum_of(const known_group& g, Of of) {
  return std::accumulate(g.sides.begin(), g.sides.end(), 0.0,
                         [&](double sum, const known_side& s) { return sum + of(*s.chain); });
}

/// 0 for two graphs of which one is above a half of something from 0 to 1 and one is not, else 1.
double is_alike(const known_group& g, double (*of)(const kernel_chain&)) {
  if (g.sides.size() != 2) return 1;
  return (of(*g.sides[0].chain) > 0.5) == (of(*g.sides[1].chain) > 0.5) ? 1 : 0;
}

/// Small for groups whose graphs differ most in something from 0 to 1.
double likeness(const known_group& g, double (*of)(const kernel_chain&)) {
  double least = 1, most = 0;
  for (const known_side& s : g.sides) {
    least = std::min(least, of(*s.chain));
    most = std::max(most, of(*s.chain));
  }
  return 1 - (most - least);
}

} // namespace

std::vector<rule_result> compare_rules(const group_set& groups, const interference_coefficients& c,
                                       double safe) {
  std::vector<const known_group*> all;
  for (const known_group& g : groups.groups)
    if (g.shared) all.push_back(&g);
  std::vector<bool> is_safe;
  std::vector<double> predicted;
  for (const known_group* g : all) {
    bool none = true;
    for (const known_side& s : g->sides) none = none && s.row.slowdown() <= safe;
    is_safe.push_back(none);
    const std::vector<double> slow = predict(c, *g, true);
    predicted.push_back(*std::max_element(slow.begin(), slow.end()));
  }
  const auto admitted = static_cast<std::size_t>(
      std::count_if(predicted.begin(), predicted.end(), [&](double slow) { return slow <= safe; }));

  std::vector<rule_result> results;
  const auto decide = [&](decisions& made, std::size_t group, bool admits) {
    made.admitted += admits;
    made.false_safe += admits && !is_safe[group];
    made.false_unsafe += !admits && is_safe[group];
  };
  /// The smaller its score, the better a rule likes a group; within its own limit is one up to
  /// `most`.
  const auto judge = [&](const char* name, const std::vector<double>& score,
                         const std::vector<double>& own_score, double most) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return score[a] < score[b]; });
    rule_result r{name, {}, {}};
    for (std::size_t i = 0; i < order.size(); ++i) {
      decide(r.as_many, order[i], i < admitted);
      decide(r.its_own, order[i], own_score[order[i]] <= most);
    }
    results.push_back(r);
  };
  const auto scores_of = [&](auto score) {
    std::vector<double> scores;
    for (const known_group* g : all) scores.push_back(score(*g));
    return scores;
  };
  const auto by = [&](const char* name, auto score) { // a sum, up to 100%
    const std::vector<double> scores = scores_of(score);
    judge(name, scores, scores, 1);
  };
  const auto by_kind = [&](const char* name, double (*of)(const kernel_chain&)) {
    judge(name, scores_of([&](const known_group& g) { return likeness(g, of); }),
          scores_of([&](const known_group& g) { return is_alike(g, of); }), 0.5);
  };
  judge("contention law", predicted, predicted, safe);
  by("sum of occupancies", [](const known_group& g) {
    return std::accumulate(g.sides.begin(), g.sides.end(), 0.0,
                           [](double sum, const known_side& s) { return sum + s.occupancy; });
  });
  by_kind("compute beside memory", memory_work);
  by_kind("arithmetic intensity", memory_bound);
  by("SMs needed", [](const known_group& g) { return sum_of(g, sms_needed); });
  by("time with a kernel", [](const known_group& g) { return sum_of(g, busy); });
  return results;
}

} // namespace interference
