// SPDX-License-Identifier: Apache-2.0
#include "interference/probes.hpp"

#include <gsched/core/time.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/io/csv_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace interference {

using namespace gsched;

namespace {

/// The chain of a probe with another number of blocks than its profile. Its use of L2 and DRAM
/// falls with its blocks, by less where these compete with one another.
kernel_chain with_blocks(const kernel_chain& from, double blocks, double sms) {
  kernel_chain chain = from;
  chain.sms = sms;
  for (chain_kernel& k : chain.kernels) {
    const double part = std::min(1.0, blocks / std::max(1.0, k.blocks));
    for (std::size_t r = resources_on_sm; r < resources; ++r) {
      double& use = k.takes.use[r];
      use *= part * (1 + (1 - part) * use);
    }
    k.blocks = blocks;
  }
  return chain;
}

/// Whether a kernel of `graph` has to wait for an endless one that runs on all of its SMs: beside the
/// latter's blocks none of its own fits.
bool waits_for(const kernel_chain& graph, const kernel_chain& endless) {
  constexpr double tiny = 1e-6;
  const chain_kernel& other = endless.kernels.front();
  const double on_each = std::floor(other.blocks / endless.sms);
  return std::any_of(graph.kernels.begin(), graph.kernels.end(), [&](const chain_kernel& k) {
    for (std::size_t i = 0; i < k.shares.size(); ++i)
      if (k.blocks > 0 && k.shares[i] + on_each * other.shares[i] > 1 + tiny) return true;
    return false;
  });
}

} // namespace

void read_probes(group_set& into, workloads& from, const std::filesystem::path& file,
                 sm_count device) {
  csv_table table(file,
                  {"probe", "victim", "batch", "victim_sms", "probe_sms", "kind", "blocks",
                   "alone_us", "beside_us", "probe_rate_alone", "probe_rate_beside"},
                  {"held_up"});
  constexpr std::size_t held_up = 11;
  constexpr double most_us = 3.6e9, most_rate = 1e12;
  constexpr double unit_us = 1000; // only the ratio of the rates counts
  constexpr double stopped = 1000;
  while (table.next()) {
    if (table.has(held_up) && table.number(held_up, 0, 1) > 0) {
      ++into.held_up;
      continue;
    }
    corun_side victim, probe;
    probe.model = table.text(0);
    victim.model = table.text(1);
    victim.batch = table.count(2);
    victim.sms = sm_count{table.count(3)};
    probe.sms = sm_count{table.count(4)};
    const double blocks = table.count(6);
    victim.solo = from_us(table.number(7, 1e-3, most_us));
    victim.corun = from_us(table.number(8, 1e-3, most_us));
    const double alone = table.number(9, 0, most_rate), beside = table.number(10, 0, most_rate);
    const bool is_probe = victim.model.starts_with("probe_");
    corun_side whole = probe; // the chain of its profile, on all SMs
    whole.sms = device;
    corun_side other = victim;
    if (is_probe) {
      other.sms = device;
      other.solo = duration::zero();
    }
    known_group both = from.group({whole, other}, file.string());
    known_group g;
    g.name = table.text(5) + (is_probe ? ", probes" : "");
    g.shared = victim.sms == device && probe.sms == device;
    if (!is_probe && g.shared != both.shared)
      both.sides[1] = from.group({other, other}, file.string()).sides[0];
    g.sides = std::move(both.sides);
    g.sides[0].chain = into.keep(with_blocks(*g.sides[0].chain, blocks, probe.sms.count()));
    if (is_probe)
      g.sides[1].chain = into.keep(
          with_blocks(*g.sides[1].chain,
                      std::min<double>(g.sides[1].chain->kernels[0].blocks, victim.sms.count()),
                      victim.sms.count()));
    if (g.shared && waits_for(*g.sides[1].chain, *g.sides[0].chain)) {
      ++into.held_up;
      continue;
    }
    probe.solo = from_us(unit_us);
    probe.corun =
        from_us(unit_us * (beside > 0 && alone > 0 ? std::min(stopped, alone / beside) : stopped));
    g.sides[0].row = probe;
    g.sides[0].endless = true;
    g.sides[1].row = victim;
    g.sides[1].endless = false;
    into.groups.push_back(std::move(g));
    into.models.insert(victim.model);
    into.models.insert(probe.model);
  }
}

} // namespace interference
