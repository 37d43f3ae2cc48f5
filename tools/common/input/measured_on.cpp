// SPDX-License-Identifier: Apache-2.0
#include "common/input/measured_on.hpp"

#include "common/cli/option_values.hpp"

#include <gsched/core/error.hpp>

#include <cstdio>
#include <utility>

namespace common {

namespace {

using gsched::machine;

void compare(const char* program, const measured_file& file, const machine& found,
             const std::string& with, const machine& expected) {
  const std::string where = file.text();
  if (const std::string other = gsched::gpu_difference(found, expected); !other.empty())
    refuse(where, "measured on " + other + " as " + with, "measurements of one GPU");
  if (const std::string other = gsched::version_difference(found, expected); !other.empty())
    std::fprintf(stderr, "%s: %s: measured with %s as %s\n", program, where.c_str(), other.c_str(),
                 with.c_str());
}

} // namespace

std::optional<machine> check_machines(const char* program,
                                      const std::vector<measured_file>& files) {
  std::optional<std::pair<const measured_file*, machine>> first;
  for (const measured_file& f : files) {
    std::optional<machine> its = gsched::machine_of(f.file);
    if (!its) continue;
    if (first)
      compare(program, f, *its, first->first->text(), first->second);
    else
      first.emplace(&f, std::move(*its));
  }
  if (!first) return std::nullopt;
  return std::move(first->second);
}

void check_machines_here(const char* program, const std::vector<measured_file>& files,
                         const machine& here) {
  const gsched::machine_findings found = gsched::compare_with_here(files, here);
  if (!found.other_gpu.empty())
    throw gsched::error(gsched::errc::bad_option,
                        found.other_gpu + ", expected measurements of this GPU");
  for (const std::string& note : found.notes)
    std::fprintf(stderr, "%s: %s\n", program, note.c_str());
}

void check_device(const gsched::profile& p, const machine& expected) {
  if (!p.device.empty() && p.device != expected.gpu)
    throw gsched::error(gsched::errc::bad_profile, p.full_name() + ": a profile of " +
                                                       in_quotes(p.device) + ", expected one of " +
                                                       in_quotes(expected.gpu));
}

} // namespace common
