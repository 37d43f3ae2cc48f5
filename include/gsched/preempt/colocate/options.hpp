// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace gsched {

/// How real-time kernels are padded.
struct pad_options {
  /// Largest number of best-effort kernels in one padded kernel.
  static constexpr std::size_t most_parts = 15;

  sm_count sms{};                        ///< SMs of the device on which the times were measured
  level_rule level = level_rule::needed; ///< the form of rule 2
  std::uint32_t parts = 3; ///< largest number of best-effort kernels in one padded kernel
  double share = 1;        ///< fraction of the real-time kernel's time that they may use

  /// Refuses invalid options.
  ///
  /// Errors   bad_option, in one line.
  void check() const {
    const auto expect = [](bool holds, const std::string& what) {
      if (!holds) throw error(errc::bad_option, "padding: " + what);
    };
    expect(sms.count() > 0, "0 SMs, expected at least 1");
    expect(parts > 0 && parts <= most_parts,
           std::to_string(parts) + " parts, expected 1 to " + std::to_string(most_parts));
    expect(share > 0 && share <= 1,
           "share " + number_text(share) + ", expected more than 0 and at most 1");
  }
};

} // namespace gsched
