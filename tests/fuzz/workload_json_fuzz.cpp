// SPDX-License-Identifier: Apache-2.0
#include "realtime/workload_json.hpp"

#include <gsched/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

std::string written(const realtime::workload& w) {
  std::ostringstream out;
  realtime::write_workload(out, w);
  return out.str();
}

} // namespace

/// Any bytes either are refused in one line or are a workload that survives writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(size, '\0');
  if (size > 0) std::memcpy(text.data(), data, size);
  try {
    const realtime::workload w = realtime::parse_workload(text, "input");
    const std::string once = written(w);
    const realtime::workload again = realtime::parse_workload(once, "written");
    require(again == w);
    require(written(again) == once);
  } catch (const gsched::error& e) {
    const std::string_view line = e.what();
    require(line.starts_with("input: ") && line.find(", expected ") != std::string_view::npos);
    require(line.find_first_of("\n\r") == std::string_view::npos);
  }
  return 0;
}
