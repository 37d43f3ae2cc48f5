// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/figures.hpp"
#include "padding/selections.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace padding {

/// A co-runner with that many blocks beside a real-time kernel, the selections that choose it, and
/// the measured times.
struct pair {
  std::size_t real = 0, corunner = 0;
  std::uint32_t blocks = 0;
  std::array<bool, every_selection.size()> by{};
  bool bandwidth = false;            ///< both stay within the memory rate
  bool kept = true;                  ///< after a trial, if the library selects it
  double trial = 0;                  ///< slow-down in that
  double work_us = 0;                ///< of the co-runner alone, for these blocks of it
  std::optional<double> predicted{}; ///< slow-down over the proxy; empty without counters
  figures alone{}, proxy{}, padded{};

  [[nodiscard]] bool of(selection s) const { return by[static_cast<std::size_t>(s)]; }
  [[nodiscard]] double of_plain() const { return padded.part_us / alone.part_us; }
  [[nodiscard]] double of_proxy() const { return padded.part_us / proxy.part_us; }
  /// Relative to the faster of the plain kernel and the proxy without co-runners.
  [[nodiscard]] double of_best() const { return std::max(of_plain(), of_proxy()); }
  [[nodiscard]] double part_percent() const { return 100 * (of_plain() - 1); }
  [[nodiscard]] double whole_percent() const {
    return 100 * (padded.whole_us / alone.whole_us - 1);
  }
  [[nodiscard]] double of_best_percent() const { return 100 * (of_best() - 1); }
};

} // namespace padding
