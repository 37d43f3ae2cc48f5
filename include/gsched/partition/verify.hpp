// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsched {

namespace detail {

/// A number with two decimals, for error lines.
[[nodiscard]] inline std::string rounded(double x) {
  constexpr double most = 1e15; // beyond it two decimals say nothing
  if (!(std::abs(x) < most)) return number_text(x);
  std::string s = std::to_string(x);
  return s.substr(0, s.find('.') + 3);
}

} // namespace detail

/// Verifies a plan, independently of the planners' code. It checks that each demand's rate is
/// served, that every batch meets its SLO, that each cycle has time for its batches and takes the
/// requests that arrive in it, that each GPU can be split into the planned sizes, as its shape
/// says, and that partitions of one region have one size and models whose slow-downs on shared SMs
/// are known.
///
/// `shapes` has one entry for each GPU. Returns one line for each fault, or nothing.
///
/// Source   the checks of Choi et al., USENIX ATC 2022, section 4.3, and of Nexus.
/// Cost     O(gpulets^2 + portions x demands); for set-up and tests.
template <interference_model Interference = no_interference>
[[nodiscard]] std::vector<std::string>
faults_of(const partition_plan& plan, std::span<const model_demand> demands, const latency_table& t,
          std::span<const gpu_shape> shapes, const Interference& interference = {}) {
  std::vector<std::string> faults;
  std::vector<double> served(t.size(), 0.0);
  for (std::uint32_t gpu = 0; gpu < shapes.size(); ++gpu) {
    std::vector<gpulet> here;
    for (const gpulet& g : plan.gpulets)
      if (g.gpu == gpu) here.push_back(g);
    const std::vector<sm_count> sizes = occupied_sizes(here);
    const std::string name = "GPU " + std::to_string(gpu);
    if (!shapes[gpu].can_make(sizes)) {
      std::string all;
      for (const sm_count s : sizes) all += (all.empty() ? "" : " + ") + std::to_string(s.count());
      all.insert(0, name + ": ");
      all += " SMs, expected sizes that its ";
      all += std::to_string(shapes[gpu].sms.count());
      faults.push_back(all += " can be cut into");
    }
    for (std::size_t i = 0; i < here.size(); ++i) {
      const std::string where = name + ", " + std::to_string(here[i].sms.count()) + " SMs: ";
      const bool shares = std::any_of(here.begin(), here.end(), [&](const gpulet& g) {
        return &g != &here[i] && share_sms(g, here[i]);
      });
      for (std::size_t j = 0; j < i; ++j)
        if (share_sms(here[j], here[i]) && here[j].sms != here[i].sms)
          faults.push_back(where + "region " + std::to_string(here[i].region) + " has " +
                           std::to_string(here[j].sms.count()) + " SMs too, expected one size");
      bool is_known = true; // what happens on shared SMs
      for (const portion& p : here[i].portions)
        is_known = is_known && (!shares || predicts_shared_sms(interference, p.model));
      if (!is_known) {
        faults.push_back(where + "on SMs of other partitions, expected interference that predicts "
                                 "that for their models");
        continue;
      }
      duration all{};
      for (const portion& p : here[i].portions) {
        const auto fault = [&](const std::string& what) {
          std::string line = where;
          line += p.model < t.size() ? t.name(p.model) : "model";
          line += ' ';
          faults.push_back(line += what);
        };
        if (p.model >= t.size() || p.batch == 0 || p.batch > t.batches(p.model).back() ||
            here[i].sms < t.sizes(p.model).front() || !(p.rate >= 0)) {
          fault("in batches of " + std::to_string(p.batch) + ", expected what the table has");
          continue;
        }
        const double factor = interference(std::span<const gpulet>(here), i, p.model);
        const duration time{static_cast<duration::rep>(std::ceil(
            static_cast<double>(t.latency(p.model, p.batch, here[i].sms).count()) * factor))};
        all += time;
        served[p.model] += p.rate;
        const double requests = p.rate * to_s(here[i].cycle);
        if (requests > p.batch * (1 + 1e-9))
          fault("gets " + detail::rounded(requests) +
                " requests a cycle, expected at most its batch of " + std::to_string(p.batch));
        for (const model_demand& d : demands)
          if (d.model == p.model && here[i].cycle + time > d.slo)
            fault("takes up to " + detail::rounded(to_us(here[i].cycle + time)) +
                  " us, expected its SLO of " + detail::rounded(to_us(d.slo)));
      }
      if (all > here[i].cycle)
        faults.push_back(where + "batches take " + detail::rounded(to_us(all)) +
                         " us, expected at most a cycle of " +
                         detail::rounded(to_us(here[i].cycle)));
    }
  }
  for (const gpulet& g : plan.gpulets)
    if (g.gpu >= shapes.size())
      faults.push_back("GPU " + std::to_string(g.gpu) + ": not there, expected one of " +
                       std::to_string(shapes.size()));
  for (const model_demand& d : demands)
    if (d.rate > 0 && d.model < t.size() && !is_served(d.rate, served[d.model]))
      faults.push_back(t.name(d.model) + ": served " + detail::rounded(served[d.model]) +
                       " a second, expected " + detail::rounded(d.rate));
  return faults;
}

} // namespace gsched
