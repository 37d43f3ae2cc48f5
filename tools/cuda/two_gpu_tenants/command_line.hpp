// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "two_gpu_tenants/tenant.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace two_gpu_tenants {

struct options {
  int gpu = 0;
  std::size_t requests = 2000;    ///< of the first tenant
  double gap_us = 400;            ///< mean time between them
  std::size_t in_flight = 2;      ///< jobs of the second tenant
  std::size_t keys = 1u << 22;    ///< that a job of the second tenant sorts
  std::size_t samples = 1u << 20; ///< that a job of the first tenant smooths
  std::uint64_t seed = 1;
  unsigned limit_s = 60;
  std::string json; ///< a file, or - for standard output
};

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse(int argc, char** argv);

/// The first tenant's arrivals are Poisson's.
[[nodiscard]] arrivals arrivals_of(const options& o);

/// Prints a table, and the JSON where it is asked for.
void tell(const options& o, const std::string& gpu, const std::array<tenant, 2>& tenants,
          const outcome& unscheduled, const outcome& scheduled);

/// Ends the process, with a line, when something has hung for that long.
void end_after(std::chrono::seconds limit);

} // namespace two_gpu_tenants
