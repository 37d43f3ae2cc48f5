// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <gsched/io/access_json.hpp>
#include <gsched/preempt/idempotence.hpp>

/// And a trace's operations go on from themselves or before.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  fuzz::survives(
      data, size, [](const auto& text, const char* name) { return parse_access_trace(text, name); },
      [](std::ostream& out, const access_trace& t) { write_access_trace(out, t); },
      [](const access_trace& t) {
        const auto verdicts = find_verdicts(t);
        fuzz::require(verdicts.size() == t.operations.size());
        for (std::size_t k = 0; k < verdicts.size(); ++k) {
          fuzz::require(verdicts[k].group_first <= k);
          const auto from = restore_point(verdicts, k, true);
          fuzz::require(from.has_value() == (verdicts[k].how != restart::never));
        }
      });
  return 0;
}
