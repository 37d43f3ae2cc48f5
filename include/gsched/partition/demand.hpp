// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/latency_table.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gsched {

/// What is asked of a model: so many requests a second, each to be answered within its SLO.
struct demand {
  std::size_t model = 0; ///< in the latency table
  double rate = 0;       ///< requests a second; 0: none
  duration slo{};
};

/// Whether so many requests a second are as good as the rate: a millionth less is rounding.
[[nodiscard]] constexpr bool is_served(double rate, double by) noexcept {
  return by >= rate * (1 - 1e-6);
}

/// How long a batch takes, as planned with: the table's time on those SMs, times a factor of what
/// runs beside it.
[[nodiscard]] inline duration planned_latency(const latency_table& t, std::size_t model,
                                              std::uint32_t batch, sm_count sms,
                                              double factor = 1) noexcept {
  const duration alone = t.latency(model, batch, sms);
  if (factor == 1) return alone;
  return duration{
      static_cast<duration::rep>(std::ceil(static_cast<double>(alone.count()) * factor))};
}

/// Refuses demands that no plan can be for.
/// Errors   unknown_name for a model that the table has not; bad_option for a rate that is negative
///          or not finite, and for an SLO below the model's time for the smallest batch on the most
///          SMs measured: one line that names the model and that time.
inline void check(std::span<const demand> demands, const latency_table& t) {
  for (const demand& d : demands) {
    if (d.model >= t.size())
      throw error(errc::unknown_name, "model " + std::to_string(d.model) +
                                          ": not in the table of " + std::to_string(t.size()));
    if (!std::isfinite(d.rate) || d.rate < 0)
      throw error(errc::bad_option, t.name(d.model) + ": rate of " + number_text(d.rate) +
                                        " a second, expected 0 or more");
    const duration least = t.latency(d.model, 1, t.sizes(d.model).back());
    if (d.rate > 0 && d.slo < least)
      throw error(errc::bad_option, t.name(d.model) + ": SLO of " + number_text(to_us(d.slo)) +
                                        " us, expected at least " + number_text(to_us(least)) +
                                        ", its fastest latency");
  }
}

} // namespace gsched
