// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include "realtime/workload_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace realtime;
  gsched::fuzz::survives(
      data, size, [](const auto& text, const char* name) { return parse_workload(text, name); },
      [](std::ostream& out, const workload& w) { write_workload(out, w); }, [](const workload&) {});
  return 0;
}
