// SPDX-License-Identifier: Apache-2.0
#include "interference/paper.hpp"

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/surroundings.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace interference {

using namespace gsched;

namespace {

constexpr double warps_of_probe = 4; ///< 128 threads a block, one block an SM

/// A kernel beside an older one, on the same SMs or on SMs of their own.
double beside(const contention_law& law, const demand& victim, double victim_warps,
              const demand& other, double other_warps, bool shares, bool older = true) {
  surroundings s;
  s.add(other, shares ? 1 : 0, 1, other_warps, older);
  return law.slowdown(victim, victim_warps, s);
}

/// Two equal kernels that start together: the time until both have ended, over the time of one.
double together(const contention_law& law, const demand& d, double warps) {
  const double first = beside(law, d, warps, d, warps, true, false);
  const double second = beside(law, d, warps, d, warps, true, true);
  return first + std::max(0.0, 1 - first / second);
}

/// The demand for which the law gives this slow-down; `of` sets it.
template <class Slow>
double solved(double slowdown, Slow slow) {
  double least = 0, most = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (least + most) / 2;
    (slow(middle) < slowdown ? least : most) = middle;
  }
  return (least + most) / 2;
}

demand with(resource r, double use) {
  demand d;
  d.of(r) = use;
  return d;
}

void table_1(const contention_law& law, std::vector<published>& to) {
  constexpr std::array<double, 4> l2{0.37, 0.68, 0.87, 0.95}, dram{0.27, 0.51, 0.69, 0.81},
      ms{17.6, 18.38, 19.92, 22};
  constexpr double alone_ms = 16.9;
  const auto slow = [&](double use, std::size_t i) {
    demand llm = with(resource::dram, use);
    llm.of(resource::l2) = use * l2.back() / dram.back(); // as the copy
    demand copy = with(resource::dram, dram[i]);
    copy.of(resource::l2) = l2[i];
    copy.steady = true;
    return beside(law, llm, 32, copy, 32, false);
  };
  const double use = solved(ms.back() / alone_ms, [&](double x) { return slow(x, 3); });
  for (std::size_t i = 0; i < ms.size(); ++i)
    to.push_back({"table 1",
                  "LLM decode beside a copy, " + std::to_string(34 * (i + 1)) + " blocks",
                  ms[i] / alone_ms, slow(use, i), i == 3});
}

void table_2(const contention_law& law, std::vector<published>& to) {
  constexpr std::array<double, 4> ipc{1.18, 2.06, 2.9, 3.45};
  constexpr std::array<std::array<double, 4>, 2> ms{
      {{5.75, 6.00, 6.24, 10.74}, {6.23, 6.56, 6.94, 12.52}}};
  constexpr std::array<double, 2> alone{5.59, 6.08};
  constexpr double victim_warps = 16;
  for (std::size_t batch = 0; batch < alone.size(); ++batch) {
    const auto slow = [&](double issue, std::size_t i) {
      return beside(law, with(resource::issue, issue), victim_warps,
                    with(resource::issue, ipc[i] / 4), warps_of_probe, true);
    };
    const double issue = solved(ms[batch][3] / alone[batch], [&](double x) { return slow(x, 3); });
    for (std::size_t i = 0; i < ipc.size(); ++i)
      to.push_back({"table 2",
                    "LLM decode (" + std::string(batch == 0 ? "1" : "8") +
                        ") beside a compute kernel, S" + std::to_string(i + 1),
                    ms[batch][i] / alone[batch], slow(issue, i), i == 3});
  }
}

void table_3(const contention_law& law, std::vector<published>& to) {
  constexpr std::array<double, 4> fp64{0.2422, 0.4771, 0.6942, 0.9068}, ipc{0.64, 1.10, 1.53, 1.96},
      gain{1.93, 1.87, 1.33, 1.03};
  for (std::size_t i = 0; i < gain.size(); ++i) {
    demand d = with(resource::fp64, fp64[i]);
    d.of(resource::issue) = ipc[i] / 4;
    to.push_back({"table 3", "two fp64 kernels, S" + std::to_string(i + 1), 2 / gain[i],
                  together(law, d, warps_of_probe)});
  }
}

void figure_3(const contention_law& law, std::vector<published>& to) {
  constexpr double mib = 1024 * 1024, l2_of_h100 = 50 * mib;
  const double scale = contention_law::l2_bytes / l2_of_h100;
  // The paper does not say what this copy takes of L2 or DRAM; that of table 1 is another one.
  // Alone it hits in L2, or from 26 MB on has no locality left, and then it is slower by its
  // misses.
  const auto slow = [&](double mb, double l2) {
    constexpr double no_locality_from = 26;
    const bool hits = mb < no_locality_from;
    demand d = with(resource::l2, hits ? l2 : l2 / (1 + contention_law::miss));
    d.kept = hits ? 1 : 0;
    d.of(resource::dram) = hits ? 0 : d.of(resource::l2) * contention_law::l2_over_dram;
    d.working_set = 2 * mb * mib * scale;
    d.steady = true;
    return beside(law, d, 32, d, 32, false);
  };
  constexpr double at_32 = 1.12;
  const double l2 = solved(at_32, [&](double x) { return slow(32, x); });
  to.push_back({"figure 3", "two copies of 8 MB", 1.0, slow(8, l2)});
  to.push_back({"figure 3", "two copies of 16 MB", 2.15, slow(16, l2)});
  to.push_back({"figure 3", "two copies of 32 MB", at_32, slow(32, l2), true});
}

void figure_4(const contention_law& law, std::vector<published>& to) {
  constexpr std::array<const char*, 2> what{"matrix product of 1024 beside 32-way conflicts",
                                            "matrix product of 2048 beside 32-way conflicts"};
  constexpr std::array<double, 2> measured{3.75, 1.79};
  for (std::size_t i = 0; i < what.size(); ++i) {
    const auto slow = [&](double use) {
      demand product = with(resource::shared_memory, use);
      product.conflict = 4; // loads of 128 bits a thread
      demand copy = with(resource::shared_memory, 1);
      copy.conflict = 32;
      return beside(law, product, 8, copy, warps_of_probe, true);
    };
    const double use = solved(measured[i], slow);
    to.push_back({"figure 4", what[i], measured[i], slow(use), true});
  }
}

void pitfalls(const contention_law& law, std::vector<published>& to) {
  const demand compute = with(resource::issue, 3.99 / 4);
  demand copy = with(resource::issue, 0.57 / 4);
  copy.of(resource::dram) = 0.8;
  copy.of(resource::l2) = 0.9;
  // Both take equally long: what the copy does not do beside the other kernel, it does after it.
  const double slow = beside(law, copy, 32, compute, 32, true);
  to.push_back({"pitfall 2", "copy beside a compute kernel of 3.99 instructions a cycle", 2.0,
                1 + (1 - 1 / slow)});
  demand fp32 = with(resource::fma, 0.91);
  fp32.of(resource::issue) = 0.93;
  to.push_back({"pitfall 1", "two fp32 kernels of one warp a scheduler", 1.73,
                together(law, fp32, warps_of_probe)});
}

} // namespace

std::vector<published> published_measurements(const interference_coefficients& c) {
  std::vector<published> all;
  table_1(c.contention, all);
  table_2(c.contention, all);
  table_3(c.contention, all);
  figure_3(c.contention, all);
  figure_4(c.contention, all);
  pitfalls(c.contention, all);
  return all;
}

} // namespace interference
