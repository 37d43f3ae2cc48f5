// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/preempt/access_json.hpp>
#include <gsched/preempt/idempotence.hpp>

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

std::string written(const gsched::access_trace& t) {
  std::ostringstream out;
  gsched::write_access_trace(out, t);
  return out.str();
}

} // namespace

/// Any bytes either are refused in one line or are a trace that survives writing and reading, and
/// whose operations go on from themselves or before.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(size, '\0');
  if (size > 0) std::memcpy(text.data(), data, size);
  try {
    const gsched::access_trace t = gsched::parse_access_trace(text, "input");
    const std::string once = written(t);
    const gsched::access_trace again = gsched::parse_access_trace(once, "written");
    require(again == t);
    require(written(again) == once);
    const auto verdicts = gsched::find_verdicts(t);
    require(verdicts.size() == t.operations.size());
    for (std::size_t k = 0; k < verdicts.size(); ++k) {
      require(verdicts[k].group_first <= k);
      const auto from = gsched::restore_point(verdicts, k, true);
      require(from.has_value() == (verdicts[k].how != gsched::restart::never));
    }
  } catch (const gsched::error& e) {
    const std::string_view line = e.what();
    require(line.starts_with("input: ") && line.find(", expected ") != std::string_view::npos);
    require(line.find_first_of("\n\r") == std::string_view::npos);
  }
  return 0;
}
