// SPDX-License-Identifier: Apache-2.0
#include "interference/probes.hpp"

#include <gsched/core/time.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/io/csv_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace interference {

using namespace gsched;

namespace {

/// The chain of a probe with another number of blocks than its profile. Its use of L2 and DRAM
/// falls with its blocks, by less where these compete with one another. Its code and arguments are
/// traffic too, by which it does not count as one that touches memory.
kernel_chain with_blocks(const kernel_chain& from, double blocks, double sms) {
  constexpr double of_code = 0.005;
  kernel_chain chain = from;
  chain.sms = sms;
  for (chain_kernel& k : chain.kernels) {
    const double part = std::min(1.0, blocks / std::max(1.0, k.blocks));
    for (std::size_t r = resources_on_sm; r < resources; ++r) {
      double& use = k.takes.use[r];
      use *= part * (1 + (1 - part) * use);
    }
    double& l2 = k.takes.of(resource::l2);
    if (l2 < of_code) l2 = 0;
    k.blocks = blocks;
  }
  return chain;
}

/// Whether a kernel of `graph` has to wait for an endless one that runs on all of its SMs: beside
/// the latter's blocks none of its own fits.
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

/// The name of a probe without its blocks and threads.
std::string usual_probe(const std::string& name) {
  return name.substr(0, std::min(name.find("_blocks"), name.find("_threads")));
}

/// Whether a probe copies between host and GPU: the law is of kernels alone.
bool transfers(std::string_view name) {
  return name.starts_with("probe_upload") || name.starts_with("probe_download");
}

/// A probe's name without its blocks.
std::string of_any_blocks(std::string name) {
  const std::size_t at = name.find("_blocks");
  if (at != std::string::npos) name.erase(at, name.find('_', at + 1) - at); // or to its end
  return name;
}

/// The probe with a profile whose blocks are nearest in number: the more of them there are, the
/// less each one adds to the use of L2 and DRAM.
model_batch nearest(const profile_set& profiles, const model_batch& probe, double blocks) {
  model_batch best = probe;
  double least = std::numeric_limits<double>::max();
  for (const auto& [key, p] : profiles) {
    if (key.second != probe.second || of_any_blocks(key.first) != of_any_blocks(probe.first))
      continue;
    const double has = static_cast<double>(p.operations.front().work.launch.blocks());
    const double apart = std::abs(std::log(std::max(1.0, has) / std::max(1.0, blocks)));
    if (apart < least) {
      least = apart;
      best = key;
    }
  }
  return best;
}

/// The chain of a probe whose blocks have so many times the threads of its profile's: they take
/// room in proportion, and no more of anything else.
kernel_chain with_threads(const kernel_chain& from, double times) {
  kernel_chain chain = from;
  for (chain_kernel& k : chain.kernels) {
    k.warps *= times;
    for (std::size_t part = 0; part < 2; ++part) // warps and registers
      k.shares[part] = std::min(1.0, k.shares[part] * times);
  }
  return chain;
}

/// Refuses a probe whose profile has anything but one kernel, which is endless where it is
/// measured.
void expect_one_kernel(const csv_table& table, const std::string& probe, const kernel_chain& its) {
  if (its.known && (its.kernels.size() != 1 || its.kernels.front().blocks == 0))
    table.refuse("the profile of " + probe + " is not one kernel", "one, which is endless");
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
    if (transfers(probe.model) || transfers(victim.model)) {
      ++into.transfers;
      continue;
    }
    victim.batch = table.count(2);
    victim.sms = sm_count{table.count(3)};
    probe.sms = sm_count{table.count(4)};
    const bool shares = victim.sms == device && probe.sms == device;
    if (!shares && std::uint64_t{victim.sms.count()} + probe.sms.count() > device.count())
      table.refuse(std::to_string(victim.sms.count()) + " and " +
                       std::to_string(probe.sms.count()) + " SMs",
                   "all " + std::to_string(device.count()) + " for both, or parts of them");
    const double blocks = table.count(6);
    victim.solo = from_us(table.number(7, 1e-3, most_us));
    victim.corun = from_us(table.number(8, 1e-3, most_us));
    const double alone = table.number(9, 0, most_rate), beside = table.number(10, 0, most_rate);
    const bool is_probe = victim.model.starts_with("probe_");
    corun_side whole = probe; // the chain of its profile, on all SMs
    whole.model = nearest(from.profiles(), {probe.model, probe.batch}, blocks).first;
    whole.sms = device;
    corun_side other = victim;
    if (is_probe) {
      other.sms = device;
      other.solo = duration::zero();
    }
    known_group both = from.group({whole, other}, file.string());
    expect_one_kernel(table, whole.model, *both.sides[0].chain);
    if (is_probe) expect_one_kernel(table, victim.model, *both.sides[1].chain);
    known_group g;
    g.name = table.text(5) + (is_probe ? ", probes" : "");
    g.shared = shares;
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

void read_kernels(group_set& into, workloads& from, const std::filesystem::path& file,
                  sm_count device) {
  csv_table table(file, {"probe", "model", "batch", "operation", "blocks", "threads", "alone_us",
                         "beside_us", "held_up"});
  constexpr double most_us = 3.6e9, least_us = 10, warp = 32;
  while (table.next()) {
    corun_side probe, graph;
    probe.model = table.text(0);
    graph.model = table.text(1);
    graph.batch = table.count(2);
    probe.sms = graph.sms = device;
    const std::uint32_t operation = table.count(3, 0);
    const double blocks = table.count(4), threads = table.count(5);
    const double alone = table.number(6, 1e-3, most_us), beside = table.number(7, 1e-3, most_us);
    if (table.number(8, 0, 1) > 0) {
      ++into.held_up;
      continue;
    }
    if (!from.has_profile({probe.model, probe.batch})) probe.model = usual_probe(probe.model);
    known_group g = from.group({probe, graph}, file.string());
    expect_one_kernel(table, probe.model, *g.sides[0].chain);
    const kernel_chain& whole = *g.sides[1].chain;
    const std::size_t known = whole.known ? whole.kernels.size() : 0;
    if (operation >= known)
      table.refuse("operation " + std::to_string(operation) + " of " + graph.model + ", batch " +
                       std::to_string(graph.batch),
                   known == 0 ? "a profile of it"
                              : "one of " + std::to_string(known) + " of its profile");
    kernel_chain one;
    one.sms = whole.sms;
    one.gap_us = whole.gap_us;
    one.kernels = {whole.kernels[operation]};
    const double us = one.kernels[0].us;
    if (us < least_us) {
      ++into.brief;
      continue;
    }
    const double times = threads / warp / std::max(1.0, g.sides[0].chain->kernels[0].warps);
    g.sides[0].chain = into.keep(
        with_blocks(times == 1 ? *g.sides[0].chain : with_threads(*g.sides[0].chain, times), blocks,
                    device.count()));
    g.sides[0].endless = true;
    g.sides[1].chain = into.keep(std::move(one));
    g.sides[1].endless = false;
    g.sides[1].row.solo = from_us(us);
    g.sides[1].row.corun = from_us(std::max(us / 2, us + beside - alone));
    g.name = table.text(0);
    g.operation = operation;
    constexpr double replays = 4, least_window_us = 300;
    g.window.us = std::max(least_window_us, replays * us);
    g.window.replays = 5;
    into.groups.push_back(std::move(g));
  }
}

} // namespace interference
