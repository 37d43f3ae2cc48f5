// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched::test {

/// One padded kernel, block by block: its slots at its level, with the real-time kernel's blocks
/// first and the co-runners' blocks after them in grid order. Empty if a rule is violated.
struct placed_kernel {
  std::vector<duration> free; ///< slots that the last wave leaves, and from when
  duration until{};
  std::uint32_t level = 0;
};

inline placed_kernel place(const kernel_variant& host, std::uint32_t level, const pad_options& o) {
  const auto waves = [&](std::uint32_t at) {
    std::uint64_t n = 0;
    for (std::uint64_t b = 0; b < host.blocks; b += std::uint64_t{at} * o.sms.count()) ++n;
    return n;
  };
  CHECK(level <= host.level);
  CHECK(waves(level) == waves(host.level)); // no slower than alone
  if (o.level == level_rule::own) CHECK(level == host.level);
  placed_kernel k;
  k.level = level;
  k.until = host.kernel_time / static_cast<duration::rep>(waves(level));
  k.free.resize(waves(level) * level * o.sms.count() - host.blocks);
  return k;
}

/// Checks the contract of a plan. `before` and `after` are the states of the co-runners. `cut`: it
/// ended because `out` was full, so the last kernel may have unused capacity.
inline void check_plan(const pad_program& rt, std::size_t first,
                       std::span<const pad_corunner> before, std::span<const pad_corunner> after,
                       std::span<const pad_part> plan, const pad_options& o, bool cut = false) {
  std::vector<pad_corunner> at(before.begin(), before.end());
  std::size_t next = 0;
  for (std::size_t host = first; host < rt.size(); ++host) {
    const std::size_t begin = next;
    while (next < plan.size() && plan[next].host_operation == host) ++next;
    const auto parts = plan.subspan(begin, next - begin);
    if (rt.variants(host).empty()) {
      CHECK(parts.empty());
      continue;
    }
    const kernel_variant& h = rt.variants(host)[0];
    CHECK(parts.size() <= o.parts);
    placed_kernel places;
    if (!parts.empty()) places = place(h, parts[0].level, o);
    std::vector<bool> used(at.size());
    const std::vector<pad_corunner> start = at;
    for (const pad_part& p : parts) {
      REQUIRE(p.corunner < at.size());
      CHECK_FALSE(used[p.corunner]);
      used[p.corunner] = true;
      pad_corunner& g = at[p.corunner];
      CHECK(p.corunner_operation == g.operation); // in order, nothing omitted
      CHECK(p.first_block == g.block);            // each block once
      if (g.block > 0) CHECK(p.variant == g.variant);
      REQUIRE(p.corunner_operation < g.program->size());
      REQUIRE(p.variant < g.program->variants(p.corunner_operation).size());
      const kernel_variant& k = g.program->variants(p.corunner_operation)[p.variant];
      CHECK(p.blocks > 0);
      CHECK(p.first_block + p.blocks <= k.blocks);
      CHECK(rule_1(h, k));
      CHECK((o.level == level_rule::own ? rule_2(h, k) : rule_2_needed(h, k, o.sms)));
      CHECK(p.level == parts[0].level);
      CHECK(k.level >= p.level);
      for (std::uint32_t b = 0; b < p.blocks; ++b) { // capacity
        REQUIRE(!places.free.empty());
        duration& free = *std::min_element(places.free.begin(), places.free.end());
        free += k.block_time;
        CHECK(free < places.until);
      }
      g.block += p.blocks;
      g.variant = p.variant;
      if (g.block == k.blocks) g = {g.program, g.operation + 1, 0, 0};
    }
    // No capacity is wasted: no co-runner without a part could have had one.
    if (parts.size() == o.parts || (cut && next == plan.size())) {
      if (cut && next == plan.size()) break;
      continue;
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      const pad_corunner& g = start[i];
      if (used[i] || g.operation >= g.program->size()) continue;
      const auto all = g.program->variants(g.operation);
      for (std::size_t v = 0; v < all.size(); ++v) {
        if (g.block > 0 && v != g.variant) continue;
        if (parts.empty()) {
          CHECK(pad_capacity(h, o).take(all[v], 1) == 0);
        } else if (all[v].level >= places.level && !places.free.empty()) {
          const duration free = *std::min_element(places.free.begin(), places.free.end());
          CHECK(free + all[v].block_time >= places.until);
        }
      }
    }
  }
  CHECK(next == plan.size());
  CHECK(std::vector<pad_corunner>(after.begin(), after.end()) == at);
}

} // namespace gsched::test
