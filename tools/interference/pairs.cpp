// SPDX-License-Identifier: Apache-2.0
#include "interference/pairs.hpp"

#include "common/input/measured_on.hpp"

#include <gsched/core/error.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <optional>

namespace interference {

using namespace gsched;

namespace {

/// The mean use of a chain whose kernels have counters.
mean_use use_of(const kernel_chain& chain) {
  const demand d = mean_demand(chain);
  return {d.of(resource::l2), d.of(resource::dram), d.kept};
}

/// sm__warps_active of a graph, as a part of all SMs' warp slots in the mean of its kernels' time.
double achieved_occupancy(const profile& p) {
  double sum = 0, us = 0;
  for (const profile_operation& o : p.operations) {
    if (!o.counters) continue;
    sum += o.counters->us * o.counters->sm_active * o.counters->warps_active;
    us += o.counters->us;
  }
  return us > 0 ? sum / us : 0;
}

/// The same of a chain without counters, by the warps of its blocks.
double resident_warps(const kernel_chain& c, double slots) {
  double sum = 0, us = 0;
  for (const chain_kernel& k : c.kernels) {
    sum += std::min(1.0, k.warps_per_sm(c.sms) / slots) * k.coverage(c.sms) * k.us;
    us += k.us;
  }
  return sum / us;
}

} // namespace

bool known_group::has(const std::string& model) const {
  return std::any_of(sides.begin(), sides.end(),
                     [&](const known_side& s) { return s.row.model == model; });
}

void workloads::add(const corun_side& s, bool shared, const std::string& file, known_side& to) {
  const model_batch key{s.model, s.batch};
  const solo_metrics* const alone = solo_.find(s.model, s.batch);
  const auto known = profiles_->find(key);
  const bool profiled = known != profiles_->end();
  const bool counted = profiled && has_counters(known->second);
  if (alone == nullptr && !counted)
    throw error(errc::unknown_name, file + ": " + s.model + ", batch " + std::to_string(s.batch) +
                                        " has no row in " + solo_file_ +
                                        ", expected its solo metrics, or counters in its profile");
  if (!profiled) {
    without_.insert(key);
  } else if (known->second.sms != gpu_.sms) {
    throw error(errc::bad_profile, known->second.full_name() + ": a profile of " +
                                       std::to_string(known->second.sms.count()) +
                                       " SMs, expected the GPU's " +
                                       std::to_string(gpu_.sms.count()));
  } else if (gpu_.known) {
    common::check_device(known->second, *gpu_.known);
  }
  std::optional<chain_place> where;
  if (!shared) where = chain_place{s.sms, s.solo};
  const place at{s.model, s.batch, shared ? 0 : s.sms.count(), shared ? 0 : s.solo.count()};
  if (!chains_.contains(at)) {
    if (alone != nullptr) stand_ins_.emplace(at, stand_in_chain(*alone, gpu_.sms, where));
    chains_.emplace(at, profiled ? chain_of(known->second, gpu_.sm,
                                            alone != nullptr ? *alone : solo_metrics{}, where)
                                 : stand_ins_.at(at));
  }
  to.row = s;
  if (s.solo == duration::zero()) to.row.solo = from_us(chains_.at(at).replay_us());
  to.chain = &chains_.at(at);
  to.stand_in = alone != nullptr ? &stand_ins_.at(at) : nullptr;
  to.use = alone != nullptr ? *solo_.rates(s.model, s.batch, to.row.solo) : use_of(*to.chain);
  if (counted) use_kernels(to.use, *to.chain);
  to.mean_pressure =
      &mean_pressures_.try_emplace(key, alone != nullptr ? alone->mean_pressure : 1).first->second;
  to.occupancy =
      counted ? achieved_occupancy(known->second) : resident_warps(*to.chain, gpu_.sm.max_warps);
}

void workloads::set_factors(const model_batch& of, const corun_factors& factors) {
  for_each_chain(of, [&](kernel_chain& chain) { chain.factors = factors; });
}

void workloads::set_loss(const model_batch& of, l2_loss lost) {
  for_each_chain(of, [&](kernel_chain& chain) { chain.lost = lost; });
}

void workloads::set_start_loss(const model_batch& of, start_loss at_start) {
  for_each_chain(of, [&](kernel_chain& chain) { chain.at_start = at_start; });
}

std::vector<model_batch> workloads::counted(const latency_table& table) const {
  std::vector<model_batch> all;
  for (const auto& [graph, p] : *profiles_)
    if (const auto m = table.find(graph.first);
        m && graph.second <= table.batches(*m).back() && !graph.first.starts_with("probe_") &&
        p.sms == gpu_.sms && has_counters(p) && solo_.find(graph.first, graph.second) != nullptr)
      all.push_back(graph);
  return all;
}

chain_and_mean workloads::on_half(const model_batch& of, const latency_table& table,
                                  const solo_metrics& losses) const {
  const std::size_t model = *table.find(of.first);
  const sm_count sms = std::max(sm_count(gpu_.sms.count() / 2), table.sizes(model).front());
  const chain_place half{sms, table.latency(model, of.second, sms)};
  chain_and_mean graph{chain_of(profiles_->at(of), gpu_.sm, losses, half), {}};
  graph.use = *solo_.rates(of.first, of.second, half.solo);
  graph.use.lost = losses.lost;
  use_kernels(graph.use, graph.chain);
  return graph;
}

known_group workloads::group(const std::vector<corun_side>& sides, const std::string& file) {
  known_group g;
  g.shared = std::all_of(sides.begin(), sides.end(),
                         [&](const corun_side& s) { return s.sms == gpu_.sms; });
  g.sides.resize(sides.size());
  const auto is_probe = [](const corun_side& s) { return s.model.starts_with("probe_"); };
  const bool all_probes = std::all_of(sides.begin(), sides.end(), is_probe);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    add(sides[i], g.shared, file, g.sides[i]);
    g.sides[i].endless = !all_probes && is_probe(sides[i]) && g.sides[i].chain->kernels.size() == 1;
  }
  return g;
}

void group_set::add(workloads& from, const std::vector<corun_side>& sides,
                    const std::string& file) {
  groups.push_back(from.group(sides, file));
  for (const corun_side& s : sides) models.insert(s.model);
}

} // namespace interference
