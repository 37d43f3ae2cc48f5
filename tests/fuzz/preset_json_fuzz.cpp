// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/sim/preset_json.hpp>

namespace {

using gsched::fuzz::require;

std::string written(const gsched::sim::preset& p, const gsched::sim::preset_provenance& from) {
  std::ostringstream out;
  gsched::sim::write_preset(out, p, from);
  return out.str();
}

} // namespace

/// Any bytes either are refused in one line or are a preset that survives writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  gsched::sim::preset_provenance from;
  gsched::sim::preset p;
  try {
    p = gsched::sim::parse_preset(text, "input", &from);
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "input: ");
    return 0;
  }
  const std::string once = written(p, from); // whatever is thrown from here on is a fault
  gsched::sim::preset_provenance from_again;
  const gsched::sim::preset again = gsched::sim::parse_preset(once, "written", &from_again);
  require(from_again == from);
  require(written(again, from_again) == once);
  return 0;
}
