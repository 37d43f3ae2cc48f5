// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <algorithm>
#include <numeric>

namespace gsched::cuda {

namespace {

/// Reorders what it is given.
double middle(std::vector<double>& v, bool mean) {
  if (mean) return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  const auto half = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), half, v.end());
  return *half;
}

} // namespace

std::vector<duration> times_of(std::span<const std::vector<std::uint64_t>> stamps, duration step,
                               bool mean) {
  std::vector<duration> times;
  std::vector<double> runs(stamps.size());
  // Between two readings stand the operation and a reading; what is left of the operation is its
  // own work and what any kernel costs in a row of them.
  const auto without = static_cast<double>(2 * step.count() - least_operation.count());
  for (std::size_t i = 0; i + 1 < stamps.front().size(); ++i) {
    for (std::size_t r = 0; r < runs.size(); ++r)
      runs[r] = static_cast<double>(stamps[r][i + 1]) - static_cast<double>(stamps[r][i]);
    const auto ns = static_cast<duration::rep>(middle(runs, mean) - without);
    times.push_back(std::max(duration{ns}, least_operation));
  }
  return times;
}

void fit(std::vector<duration>& times, duration whole) noexcept {
  const duration sum = std::accumulate(times.begin(), times.end(), duration{});
  if (whole <= duration::zero() || sum <= duration::zero()) return;
  const duration most = sum + most_gap * static_cast<duration::rep>(times.size());
  const double share =
      static_cast<double>(std::min(whole, most).count()) / static_cast<double>(sum.count());
  for (duration& t : times)
    t = duration{std::max(duration::rep{1},
                          static_cast<duration::rep>(static_cast<double>(t.count()) * share))};
}

} // namespace gsched::cuda
