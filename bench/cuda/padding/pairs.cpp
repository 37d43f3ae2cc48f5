// SPDX-License-Identifier: Apache-2.0
#include "padding/pairs.hpp"

#include "padding/counted.hpp"
#include "padding/predictions.hpp"

#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/quiet.hpp>
#include <gsched/preempt/colocate/trials.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace padding {

namespace {

/// bytes / ns is GB/s.
double rate(std::uint64_t bytes, gsched::duration time) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(time.count(), 1));
}

gsched::moving_kernel moving(const subject& s) { return {s.facts, s.bytes, s.plain}; }

/// All numbers of blocks that a selection chooses for a real-time kernel and a co-runner.
std::vector<pair> pairs_of(const bench& b, const std::optional<predictions>& predicted,
                           std::size_t r, std::size_t g) {
  const subject& corunner = b.all.corunners()[g];
  const std::uint32_t within =
      blocks_within_rate(moving(b.all.real_time()[r]), moving(corunner), b.quiet);
  std::map<std::uint32_t, pair> counts;
  for (const selection by : every_selection) {
    if (predicted_limit(by) && !predicted) continue;
    const std::uint32_t n =
        predicted ? blocks_for(by, b, r, g, predicted->most(by, r, g)) : blocks_for(by, b, r, g);
    if (n == 0) continue;
    pair& p = counts.try_emplace(n, pair{r, g, n}).first->second;
    p.by[static_cast<std::size_t>(by)] = true;
    p.bandwidth = n <= within;
    p.work_us = gsched::to_us(corunner.facts.kernel_time) * n / corunner.facts.blocks;
    if (predicted) p.predicted = predicted->slowdown(r, g, n);
  }
  std::vector<pair> all;
  for (const auto& [_, p] : counts) all.push_back(p);
  return all;
}

/// The library's last step: a few short measurements of a pair when it is first chosen. The
/// reported values are measured separately.
void try_out(const bench& b, pair& p, std::span<const timeline::adder> kernels,
             gsched::pad_trials& trials) {
  constexpr unsigned rounds = 5;
  for (unsigned i = 0; trials.open(p.real, p.corunner); ++i) {
    const auto t = b.time.run(kernels, rounds, 1000 + i);
    trials.learn(p.real, p.corunner,
                 std::max(t[1].part_us / t[0].part_us, t[1].whole_us / t[0].whole_us) - 1);
  }
  p.kept = trials.may(p.real, p.corunner);
  p.trial = trials.slow_down(p.real, p.corunner);
}

void measure(const bench& b, pair& p, gsched::pad_trials& trials) {
  const share beside{p.corunner, 0, p.blocks};
  const std::array<timeline::adder, 3> kernels{
      [&](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add(g, a, p.real, form::plain, to);
      },
      [&](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add(g, a, p.real, form::proxy, to);
      },
      [&](cudaGraph_t g, subjects::after a, stamps* to) {
        return b.all.add_padded(g, a, p.real, {&beside, 1}, to);
      }};
  if (p.of(selection::quiet)) {
    const std::array<timeline::adder, 2> both{kernels[0], kernels[2]};
    try_out(b, p, both, trials);
  }
  const auto t = b.time.run(kernels, b.how.rounds, p.blocks);
  p.alone = t[0];
  p.proxy = t[1];
  p.padded = t[2];
}

} // namespace

double peak_of(const subjects& all) {
  double most = 0;
  for (const auto* list : {&all.real_time(), &all.corunners()})
    for (const subject& s : *list)
      if (s.function == "copy") most = std::max(most, rate(s.bytes, s.facts.kernel_time));
  return most;
}

std::uint32_t blocks_for(selection by, const bench& b, std::size_t real_time, std::size_t corunner,
                         std::uint32_t most) {
  subject other = b.all.corunners()[corunner];
  const share any{corunner, 0, 1};
  other.facts.level = b.all.launch_of(real_time, {&any, 1}).blocks_per_sm;
  return blocks_for(by, moving(b.all.real_time()[real_time]), moving(other), b.quiet, most);
}

void measure_pairs(const bench& b, results& out) {
  const double until = experiment::seconds_now() + b.how.seconds;
  const std::optional<predictions> predicted = predict(b, out);
  // All rows of a real-time kernel and a co-runner together, as summaries compare them.
  std::vector<std::vector<pair>> all;
  std::size_t rows = 0;
  for (std::size_t r = 0; r < b.all.real_time().size(); ++r)
    for (std::size_t g = 0; g < b.all.corunners().size(); ++g) {
      all.push_back(pairs_of(b, predicted, r, g));
      rows += all.back().size();
    }
  gsched::pad_trials trials(b.all.real_time().size(), b.all.corunners().size());
  facts_file facts(b);
  // Spread over the pairs, so that a short run does not omit a whole kernel.
  std::vector<pair> done;
  constexpr std::size_t stride = 7;
  for (std::size_t first = 0; first < stride; ++first)
    for (std::size_t i = first; i < all.size(); i += stride) {
      if (experiment::seconds_now() > until) break;
      for (pair& p : all[i]) {
        b.dog.step(
            b.all.real_time()[p.real].name() + " with " + b.all.corunners()[p.corunner].name(), 30);
        measure(b, p, trials);
        facts.add(b, p);
        done.push_back(p);
      }
    }
  b.dog.rest();
  report_pairs(b, done, rows, out);
}

} // namespace padding
