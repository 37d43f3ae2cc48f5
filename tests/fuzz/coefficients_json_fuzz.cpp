// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/io/coefficients_json.hpp>

/// Any bytes either are refused in one line, or are coefficients that survive writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gsched::interference_coefficients;
  gsched::fuzz::survives(
      data, size,
      [](const std::string& text, const char* name) {
        return gsched::parse_coefficients(text, name);
      },
      [](std::ostream& out, const interference_coefficients& c) {
        gsched::write_coefficients(out, c);
      },
      [](const interference_coefficients& c) {
        const gsched::mean_use half{0.5, 0.5, 0.5, 0.1};
        gsched::fuzz::require(gsched::mean_slowdown(c, half, half) >= 1);
      });
  return 0;
}
