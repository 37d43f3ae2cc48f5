// SPDX-License-Identifier: Apache-2.0
#include "slow_downs.hpp"

#include "field_checks.hpp"
#include "refusal.hpp"

#include <gsched/core/error.hpp>
#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/machine_json.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gsched::abi {

namespace {

[[nodiscard]] std::filesystem::path path_of(const char* text, const char* name) {
  if (text == nullptr || *text == '\0') refuse(std::string(name) + ": no path, expected one");
  return text;
}

/// The files of a folder that `models` names, as NAME_bBATCH; null: all of them.
[[nodiscard]] std::vector<std::filesystem::path> profile_files(const std::filesystem::path& folder,
                                                               const char* models) {
  std::vector<std::filesystem::path> files;
  if (models == nullptr) {
    std::error_code bad;
    for (std::filesystem::directory_iterator at(folder, bad), end; !bad && at != end;
         at.increment(bad))
      if (at->path().extension() == ".json" && at->path().filename() != "machine.json")
        files.push_back(at->path());
    if (bad) throw error(errc::io, folder.string() + ": " + bad.message() + ", expected a folder");
    std::sort(files.begin(), files.end());
    if (files.empty()) refuse(folder.string() + ": no profile in it, expected NAME_bBATCH.json");
    return files;
  }
  std::string_view left = models;
  for (bool more = true; more;) {
    const std::size_t comma = left.find(',');
    const std::string name(left.substr(0, comma));
    if (name.empty() || name.find('/') != std::string::npos)
      refuse("models: '" + name + "', expected NAME_bBATCH of a profile");
    files.push_back(folder / (name + ".json"));
    if (std::count(files.begin(), files.end(), files.back()) > 1)
      refuse("models: " + name + " twice, expected each once");
    more = comma != std::string_view::npos;
    if (more) left.remove_prefix(comma + 1);
  }
  return files;
}

} // namespace

named_slowdowns measured_slow_downs(const char* pairs) {
  const std::filesystem::path file = path_of(pairs, "pairs");
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

predicted_slowdowns predicted_slow_downs(const char* profiles, const char* law,
                                         const char* models) {
  const std::filesystem::path folder = path_of(profiles, "profiles"),
                              coefficients = path_of(law, "law");
  const std::vector<std::filesystem::path> files = profile_files(folder, models);
  const std::optional<machine> on = machine_of(folder / "any");
  if (!on)
    refuse(folder.string() + ": no machine.json in it, expected the one that measure writes");
  const interference_coefficients by = load_coefficients(coefficients);
  if (const std::optional<machine> its = machine_of(coefficients); its)
    if (const std::string other = gpu_difference(*its, *on); !other.empty())
      refuse("law " + coefficients.string() + ": measured on " + other +
             " as the profiles, expected measurements of one GPU");
  const architecture_limits sm = limits_of(*on);
  std::vector<std::string> names;
  std::vector<kernel_chain> chains;
  for (const std::filesystem::path& file : files) {
    const profile p = load_profile(file, sm);
    if (!has_counters(p))
      refuse(file.string() +
             ": no counters of its kernels, expected a profile that measure counters has written");
    if (std::find(names.begin(), names.end(), p.full_name()) != names.end())
      refuse(file.string() + ": " + p.full_name() + " again, expected each model once");
    names.push_back(p.full_name());
    chains.push_back(chain_of(p, sm, solo_metrics{}));
  }
  const std::vector<std::vector<double>> slow = all_pair_slowdowns(chains, by);
  predicted_slowdowns found;
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < names.size(); ++j) found.all[{names[i], names[j]}] = slow[i][j];
  found.beyond_fit = line_of_pairs(all_pairs_beyond_fit(by.seen, chains), names);
  return found;
}

gsched_slow_down* in_one_piece(const named_slowdowns& all, const std::string& line) {
  std::size_t bytes = (all.size() + 1) * sizeof(gsched_slow_down) + line.size() + 1;
  for (const auto& [names, by] : all) bytes += names.first.size() + names.second.size() + 2;
  auto* const head = static_cast<gsched_slow_down*>(std::malloc(bytes)); // its model is the line
  if (head == nullptr) throw refusal(GSCHED_OUT_OF_MEMORY, "slow-downs: out of memory");
  gsched_slow_down* const rows = head + 1;
  char* text = reinterpret_cast<char*>(rows + all.size());
  const auto kept = [&](const std::string& name) {
    char* const at = text;
    std::memcpy(at, name.c_str(), name.size() + 1);
    text += name.size() + 1;
    return at;
  };
  gsched_slow_down* row = rows;
  for (const auto& [names, by] : all) *row++ = {kept(names.first), kept(names.second), by};
  *head = {kept(line), nullptr, 0};
  return rows;
}

const char* line_of(const gsched_slow_down* rows) noexcept { return rows[-1].model; }

void free_rows(gsched_slow_down* rows) noexcept {
  if (rows != nullptr) std::free(rows - 1);
}

} // namespace gsched::abi
