// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/job/profile_json.hpp>

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

std::string written(const gsched::profile& p) {
  std::ostringstream out;
  gsched::write_profile(out, p);
  return out.str();
}

} // namespace

/// Any bytes either are refused in one line or are a profile that survives writing and reading.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(size, '\0');
  if (size > 0) std::memcpy(text.data(), data, size);
  try {
    const gsched::profile p = gsched::parse_profile(text, "input");
    const std::string once = written(p);
    const gsched::profile again = gsched::parse_profile(once, "written");
    require(again == p);
    require(written(again) == once);
    require(gsched::to_program(p).size() == p.operations.size());
  } catch (const gsched::error& e) {
    const std::string_view line = e.what();
    require(line.starts_with("input: ") && line.find(", expected ") != std::string_view::npos);
    require(line.find_first_of("\n\r") == std::string_view::npos);
  }
  return 0;
}
