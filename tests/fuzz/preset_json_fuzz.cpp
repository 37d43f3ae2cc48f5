// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"
#include "simulated_run.hpp"

#include <gsched/io/preset_json.hpp>

namespace {

using gsched::fuzz::require;

std::string written(const gsched::sim::preset& p, const gsched::preset_provenance& from) {
  std::ostringstream out;
  gsched::write_preset(out, p, from);
  return out.str();
}

} // namespace

/// Any bytes either are refused in one line or are a preset that survives writing and reading, of
/// a GPU on which a copy, kernels and a set run.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  gsched::preset_provenance from;
  gsched::sim::preset p;
  try {
    p = gsched::parse_preset(text, "input", &from);
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "input: ");
    return 0;
  }
  const std::string once = written(p, from); // whatever is thrown from here on is a fault
  gsched::preset_provenance from_again;
  const gsched::sim::preset again = gsched::parse_preset(once, "written", &from_again);
  require(from_again == from);
  require(written(again, from_again) == once);
  gsched::profile few;
  few.model = "few";
  few.operations.resize(4);
  few.operations[0].work.kind = gsched::operation_kind::memcpy;
  few.operations[0].work.direction = gsched::copy_direction::host_to_device;
  few.operations[0].work.bytes = gsched::byte_count{1 << 20};
  few.operations[3].work.kind = gsched::operation_kind::memset;
  few.operations[3].work.bytes = gsched::byte_count{4096};
  for (const std::size_t i : {1u, 2u}) {
    few.operations[i].work.launch = {.grid = {300}, .block = {256}, .registers_per_thread = 32};
    few.operations[i].work.expected = gsched::from_us(20);
  }
  gsched::fuzz::run_simulated(p, few);
  return 0;
}
