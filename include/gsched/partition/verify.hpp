// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsched {

namespace detail {

[[nodiscard]] inline std::string rounded(double x) {
  constexpr double most = 1e15; // beyond it two decimals say nothing
  if (!(std::abs(x) < most)) return number_text(x);
  std::string s = std::to_string(x);
  return s.substr(0, s.find('.') + 3);
}

} // namespace detail

/// Says what is wrong with a plan, a line for each fault; none if it keeps what it promises. It
/// knows the table and the GPUs' shapes, and works out nothing in the way in which plans are made:
/// each demand's rate is served, no batch is late, each cycle has the time for its batches and
/// takes all requests that come in it, and each GPU can be cut so.
///
/// `shapes` has each GPU's.
///
/// Source   the checks of Choi et al., USENIX ATC 2022, section 4.3, and of Nexus.
/// Cost     O(gpulets^2 + portions x demands); set-up and tests.
template <interference_model Interference = no_interference>
[[nodiscard]] std::vector<std::string>
faults_of(const partition_plan& plan, std::span<const demand> demands, const latency_table& t,
          std::span<const gpu_shape> shapes, const Interference& interference = {}) {
  std::vector<std::string> faults;
  std::vector<double> served(t.size(), 0.0);
  for (std::uint32_t gpu = 0; gpu < shapes.size(); ++gpu) {
    std::vector<gpulet> here;
    std::vector<sm_count> sizes;
    for (const gpulet& g : plan.gpulets)
      if (g.gpu == gpu) {
        here.push_back(g);
        sizes.push_back(g.sms);
      }
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
        const double coming = p.rate * to_s(here[i].cycle);
        if (coming > p.batch * (1 + 1e-9))
          fault("gets " + detail::rounded(coming) +
                " requests a cycle, expected at most its batch of " + std::to_string(p.batch));
        for (const demand& d : demands)
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
  for (const demand& d : demands)
    if (d.rate > 0 && d.model < t.size() && !is_served(d.rate, served[d.model]))
      faults.push_back(t.name(d.model) + ": served " + detail::rounded(served[d.model]) +
                       " a second, expected " + detail::rounded(d.rate));
  return faults;
}

} // namespace gsched
