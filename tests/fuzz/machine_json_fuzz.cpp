// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/io/machine_json.hpp>

/// Any bytes either are refused in one line, or are a machine that survives writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gsched::machine;
  gsched::fuzz::survives(
      data, size,
      [](const std::string& text, const char* name) { return gsched::parse_machine(text, name); },
      [](std::ostream& out, const machine& m) { gsched::write_machine(out, m); },
      [](const machine& m) {
        gsched::fuzz::require(gpu_difference(m, m).empty() && version_difference(m, m).empty());
        gsched::fuzz::require(m.shape().sms == m.sms);
      });
  return 0;
}
