// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/sim/trace_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

} // namespace

/// Any bytes are requests in order of time, up to a line that is refused in one line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gsched::sim::trace_arrivals trace(std::make_unique<std::istringstream>(std::string(bytes)), "t",
                                    {"a", "b"}, 3);
  gsched::time_point last{};
  try {
    while (const std::optional<gsched::sim::request> r = trace.next()) {
      require(r->at >= last && r->model < 2 && gsched::index(r->client) < 3);
      last = r->at;
    }
  } catch (const gsched::error& e) {
    const std::string_view line = e.what();
    require(line.starts_with("t:") && line.find(", expected ") != std::string_view::npos);
    for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  return 0;
}
