// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/replay_law.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// The largest demands that a fit has seen. Predictions beyond them are extrapolations.
struct seen_range {
  std::array<double, resources>
      sum{};                ///< mean demands of all graphs that ran together, by resource
  std::uint32_t graphs = 2; ///< most graphs at once

  bool operator==(const seen_range&) const noexcept = default;
};

/// All fitted coefficients of one kind of GPU.
struct interference_coefficients {
  contention_law contention{};
  replay_law replay{};
  seen_range seen{};
  bool operator==(const interference_coefficients&) const noexcept = default;
};

} // namespace gsched
