// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/replay_times.hpp>
#include <gsched/cuda_tools/waited_for_probe.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gsched::cuda {

/// The runs of an operation, in microseconds.
struct beside_times {
  std::vector<double> alone;
  std::vector<double> beside; ///< beside a probe; none of what is no kernel
  bool held_up = false;       ///< it waited for the probe
};

/// The runs of each_beside. `alone(i)` runs an operation by itself, and `beside(i, limit_us)`
/// beside a probe that ends after so long; both return its time. `is_kernel(i)`: whether it runs
/// beside the probe.
///
/// Each pass runs all operations in the order of the capture, and each once, as a kernel that runs
/// twice may wait for what the operation before it resets.
template <class IsKernel, class Alone, class Beside>
[[nodiscard]] std::vector<beside_times> beside_passes(std::size_t operations, std::size_t passes,
                                                      double limit_us, const IsKernel& is_kernel,
                                                      const Alone& alone, const Beside& beside) {
  std::vector<beside_times> all(operations);
  const auto median_of = [](const std::vector<double>& times) { return summarize(times).median; };
  const auto is_open = [&](std::size_t i) { // it may have waited
    const beside_times& t = all[i];
    return !t.held_up && !t.beside.empty() &&
           median_of(t.beside) > median_of(t.alone) + limit_us / 2;
  };
  const auto any_open = [&] {
    for (std::size_t i = 0; i < operations; ++i)
      if (is_open(i)) return true;
    return false;
  };
  // `measure` is called with each kernel; it returns whether it ran it.
  const auto run_all = [&](const auto& measure) {
    for (std::size_t i = 0; i < operations; ++i)
      if (!is_kernel(i) || !measure(i)) static_cast<void>(alone(i));
  };
  for (std::size_t pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < operations; ++i) all[i].alone.push_back(alone(i));
    run_all([&](std::size_t i) { // one that seems to wait would take the limit each time
      if (is_open(i)) return false;
      all[i].beside.push_back(beside(i, limit_us));
      return true;
    });
  }
  constexpr int looks = 3; // a host that is late makes a wait longer or shorter
  for (int look = 0; look < looks && any_open(); ++look) {
    if (look > 0)
      run_all([&](std::size_t i) {
        if (!is_open(i)) return false;
        all[i].beside.assign(1, beside(i, limit_us));
        return true;
      });
    run_all([&](std::size_t i) {
      if (!is_open(i)) return false;
      all[i].held_up =
          waited_for_probe(median_of(all[i].beside), beside(i, 2 * limit_us), limit_us);
      return true;
    });
  }
  const auto lacks = [&](std::size_t i, std::size_t runs) { // of those that are only slowed
    return is_kernel(i) && !all[i].held_up && all[i].beside.size() < runs;
  };
  for (std::size_t run = 2; run <= passes; ++run) {
    bool any = false;
    for (std::size_t i = 0; i < operations && !any; ++i) any = lacks(i, run);
    if (!any) continue;
    run_all([&](std::size_t i) {
      if (!lacks(i, run)) return false;
      all[i].beside.push_back(beside(i, limit_us));
      return true;
    });
  }
  return all;
}

} // namespace gsched::cuda
