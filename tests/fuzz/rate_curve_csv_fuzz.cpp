// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/io/rate_curve_csv.hpp>
#include <gsched/workload/rate_curve.hpp>
#include <gsched/workload/varying_poisson.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

/// Any bytes either are refused in one line, or are curves whose times rise, and of which requests
/// can be drawn that come in order, within the time given.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  auto text =
      std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const auto curves =
        read_rate_curves(csv_table(std::move(text), "t", {"time_s", "model", "rate"}));
    fuzz::require(!curves.empty());
    for (const auto& [name, curve] : curves) {
      fuzz::require(!name.empty() && !curve.empty());
      for (std::size_t i = 0; i < curve.size(); ++i) {
        fuzz::require(curve[i].at >= time_point{} && curve[i].rate >= 0 && curve[i].rate <= 1e9);
        fuzz::require(i == 0 || curve[i].at > curve[i - 1].at);
      }
      const time_point end = saturating_add(curve.back().at, std::chrono::seconds{1});
      const rate_curve off =
          with_error(curve, {0.2, false, end.time_since_epoch() / 3 + duration{1}}, end, 1);
      varying_poisson requests(off, end, 1);
      time_point last{};
      for (int n = 0; n < 100; ++n) {
        const std::optional<time_point> at = requests.next();
        if (!at) break;
        fuzz::require(*at >= last && *at <= end && *at >= curve.front().at);
        last = *at;
      }
    }
  } catch (const error& e) {
    fuzz::require_one_line(e, "t:");
  }
  return 0;
}
