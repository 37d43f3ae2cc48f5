// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/workload/trace_arrivals.hpp>

#include <memory>
#include <optional>

/// Any bytes are requests in order of time, up to a line that is refused in one line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gsched::trace_arrivals trace(std::make_unique<std::istringstream>(std::string(bytes)), "t",
                               {"a", "b"}, 3);
  gsched::time_point last{};
  try {
    while (const std::optional<gsched::arrival> r = trace.next()) {
      gsched::fuzz::require(r->at >= last && r->model < 2 && gsched::index(r->client) < 3);
      last = r->at;
    }
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "t:");
  }
  return 0;
}
