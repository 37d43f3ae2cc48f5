// SPDX-License-Identifier: Apache-2.0
#include "model_check.hpp"

#include "field_checks.hpp"
#include "structs.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gsched::abi {

namespace {

/// `first`: the buffers of the first instance, whose sizes all instances have.
void check_buffers(const gsched_buffer* all, const gsched_buffer* first, std::uint32_t count,
                   const std::string& whose) {
  if (count > 0 && all == nullptr) refuse(whose + ": NULL, expected " + std::to_string(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string which = whose + "[" + std::to_string(i) + "]: ";
    if (all[i].device == nullptr || all[i].bytes == 0)
      refuse(which + "expected device memory of at least a byte");
    if (all[i].bytes != first[i].bytes)
      refuse(which + std::to_string(all[i].bytes) + " bytes, expected " +
             std::to_string(first[i].bytes) + " as in the first instance");
  }
}

void check_durations(const gsched_model& m) {
  if (m.durations_us == nullptr) {
    if (m.durations_count != 0) refuse("durations_us: NULL, but durations_count is not 0");
    return;
  }
  if (m.durations_count == 0) refuse("durations_count: 0, expected one for each operation");
  for (std::uint32_t i = 0; i < m.durations_count; ++i)
    if (const double us = m.durations_us[i]; !(us >= 0 && us <= 1e9))
      refuse("durations_us[" + std::to_string(i) + "]: expected 0 to 1e9");
}

} // namespace

void check_model(const gsched_model& what) {
  if (what.name == nullptr || *what.name == '\0') refuse("name: expected one");
  if (what.instances == nullptr || what.instances_count == 0)
    refuse("instances: expected at least one");
  if (what.instances_count > 1024) refuse("instances_count: expected at most 1024");
  if (what.unmeasured > 1) refuse("unmeasured: expected 0 or 1");
  if (what.exclusive > 1) refuse("exclusive: expected 0 or 1");
  if (what.excludes == nullptr && what.excludes_count != 0)
    refuse("excludes: NULL, but excludes_count is not 0");
  check_durations(what);
  const gsched_instance first = instance_of(what, 0);
  for (std::uint32_t i = 0; i < what.instances_count; ++i) {
    const std::string whose = std::string(what.name) + ": instance " + std::to_string(i);
    const gsched_instance one = instance_of(what, i);
    if (one.graph == nullptr) refuse(whose + ".graph: NULL, expected a captured graph");
    check_buffers(one.inputs, first.inputs, what.inputs, whose + ".inputs");
    check_buffers(one.outputs, first.outputs, what.outputs, whose + ".outputs");
  }
}

} // namespace gsched::abi
