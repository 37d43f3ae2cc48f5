// SPDX-License-Identifier: Apache-2.0
#include "slow_downs.hpp"

#include "refusal.hpp"

#include <gsched/io/corun_csv.hpp>
#include <gsched/io/machine_json.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

namespace gsched::abi {

named_slowdowns measured_slow_downs(const char* pairs) {
  if (pairs == nullptr || *pairs == '\0')
    throw refusal(GSCHED_BAD_ARGUMENT, "pairs: no path, expected one");
  const std::filesystem::path file(pairs);
  const std::optional<machine> on = machine_of(file);
  if (!on)
    throw refusal(GSCHED_BAD_ARGUMENT,
                  file.string() +
                      ": no machine.json beside it, expected the one that measure writes");
  named_slowdowns all = slowdowns_by_name(load_corun_pairs(file, on->sms), on->sms);
  if (all.empty())
    throw refusal(GSCHED_BAD_ARGUMENT, file.string() + ": no pair on all " +
                                           std::to_string(on->sms.count()) +
                                           " SMs, expected at least one");
  return all;
}

gsched_slow_down* in_one_piece(const named_slowdowns& all) {
  std::size_t bytes = all.size() * sizeof(gsched_slow_down);
  for (const auto& [names, by] : all) bytes += names.first.size() + names.second.size() + 2;
  auto* const rows = static_cast<gsched_slow_down*>(std::malloc(bytes));
  if (rows == nullptr) throw refusal(GSCHED_OUT_OF_MEMORY, "slow-downs: out of memory");
  char* text = reinterpret_cast<char*>(rows + all.size());
  const auto kept = [&](const std::string& name) {
    char* const at = text;
    std::memcpy(at, name.c_str(), name.size() + 1);
    text += name.size() + 1;
    return at;
  };
  gsched_slow_down* row = rows;
  for (const auto& [names, by] : all) *row++ = {kept(names.first), kept(names.second), by};
  return rows;
}

} // namespace gsched::abi
