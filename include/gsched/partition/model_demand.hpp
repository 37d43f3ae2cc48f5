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

/// The load of one model: a request rate and the SLO of each request.
struct model_demand {
  std::size_t model = 0; ///< index into the latency table
  double rate = 0;       ///< requests a second; 0: none
  duration slo{};        ///< latency limit of a request
};

/// Whether `by` requests a second serve a rate. A shortfall of one millionth counts as rounding.
[[nodiscard]] constexpr bool is_served(double rate, double by) noexcept {
  return by >= rate * (1 - 1e-6);
}

/// The planned latency of a batch: the table's latency on that many SMs, times the slow-down
/// `factor` that other partitions cause.
///
/// Cost     that of latency_table::latency.
[[nodiscard]] inline duration planned_latency(const latency_table& t, std::size_t model,
                                              std::uint32_t batch, sm_count sms,
                                              double factor = 1) noexcept {
  const duration alone = t.latency(model, batch, sms);
  if (factor == 1) return alone;
  return duration{
      static_cast<duration::rep>(std::ceil(static_cast<double>(alone.count()) * factor))};
}

/// What serves requests: a plan, in which a request waits for one batch and takes another, or a GPU
/// without partitions, which may take it at once.
enum class served_by : std::uint8_t { plan, whole_gpu };

/// The shortest SLO of a model that can be met: its latency for the smallest batch on the most SMs
/// measured, or twice that.
[[nodiscard]] inline duration shortest_slo(const latency_table& t, std::size_t model,
                                           served_by by) noexcept {
  return (by == served_by::plan ? 2 : 1) * t.latency(model, 1, t.sizes(model).back());
}

/// Checks that each demand can be met.
///
/// Errors   one line that names the model. unknown_name: a model outside the table. bad_option: a
///          rate that is negative or not finite; an SLO below the shortest.
inline void check(std::span<const model_demand> demands, const latency_table& t,
                  served_by by = served_by::plan) {
  for (const model_demand& d : demands) {
    if (d.model >= t.size())
      throw error(errc::unknown_name, "model " + std::to_string(d.model) +
                                          ": not in the table of " + std::to_string(t.size()));
    if (!std::isfinite(d.rate) || d.rate < 0)
      throw error(errc::bad_option, t.name(d.model) + ": rate of " + number_text(d.rate) +
                                        " a second, expected 0 or more");
    const duration least = shortest_slo(t, d.model, by);
    if (d.rate > 0 && d.slo < least)
      throw error(errc::bad_option,
                  t.name(d.model) + ": SLO of " + number_text(to_us(d.slo)) +
                      " us, expected at least " + number_text(to_us(least)) +
                      (by == served_by::plan ? ", twice its fastest latency: a request waits for "
                                               "one batch and takes another"
                                             : ", its fastest latency"));
  }
}

} // namespace gsched
