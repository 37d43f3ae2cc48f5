// SPDX-License-Identifier: Apache-2.0
#include "measure/folder.hpp"

#include "common/cli/run_error.hpp"
#include "common/report/save.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/io/replays_csv.hpp>
#include <gsched/job/profile.hpp>

#include <array>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

namespace measure {

using namespace gsched;

namespace {

constexpr std::array tables{"latency_batch_partition.csv",
                            "corun_pairs.csv",
                            "corun_groups.csv",
                            start_pairs_name,
                            "probes.csv",
                            "held_up.csv",
                            "kernels.csv",
                            "solo_metrics.csv"};
constexpr const char* machine_name = "machine.json";

} // namespace

void check_folder(const std::filesystem::path& out, const machine& here) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path file = out / machine_name;
  if (fs::exists(file, ignored)) {
    const machine there = load_machine(file);
    std::string difference = gpu_difference(there, here);
    if (difference.empty()) difference = version_difference(there, here);
    if (!difference.empty())
      throw error(errc::bad_option, file.string() + ": measured with " + difference +
                                        ", expected the same; --anew removes what is there");
    return;
  }
  for (const char* const table : tables)
    if (fs::exists(out / table, ignored))
      throw error(errc::bad_option, (out / table).string() +
                                        ": there without machine.json, expected a folder of "
                                        "this program; --anew removes it");
}

void open_folder(const std::filesystem::path& out, bool anew, machine here) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed)
    throw common::run_error(errc::io, out.string() + ": cannot be made (" + failed.message() +
                                          "), expected a folder");
  const fs::path file = out / machine_name;
  if (anew) {
    std::error_code ignored;
    for (const char* const table : tables) fs::remove(out / table, ignored);
    fs::remove(file, ignored);
    for (const auto& entry : fs::directory_iterator(out / "profiles", ignored))
      if (entry.path().extension() == ".json") fs::remove(entry.path(), ignored);
  }
  check_folder(out, here);
  if (fs::exists(file, failed)) {
    const machine there = load_machine(file);
    here.libraries.insert(there.libraries.begin(), there.libraries.end());
    here.date = there.date;
  }
  common::save(file, [&](std::ostream& to) { write_machine(to, here); });
}

void complete_profiles(const std::filesystem::path& out, sm_count device) {
  const replays_by_name replays = load_replays(out, device);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(out / "profiles", none)) {
    if (entry.path().extension() != ".json") continue;
    profile p = load_profile(entry.path());
    if (set_replays(p, replays))
      common::save(entry.path(), [&](std::ostream& to) { write_profile(to, p); });
  }
}

} // namespace measure
