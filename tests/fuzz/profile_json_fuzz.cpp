// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"
#include "simulated_run.hpp"

#include <gsched/io/profile_json.hpp>

/// And a profile is a program of as many operations, which a simulated GPU runs.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gsched;
  fuzz::survives(
      data, size, [](const auto& text, const char* name) { return parse_profile(text, name); },
      [](std::ostream& out, const profile& p) { write_profile(out, p); },
      [](const profile& p) {
        fuzz::require(to_program(p).size() == p.operations.size());
        fuzz::run_simulated(sim::h200(), p);
      });
  return 0;
}
