// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/measured_files.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

machine machine_with_driver(std::string driver) {
  machine m;
  m.gpu = "NVIDIA H200";
  m.compute_capability = "9.0";
  m.sms = sm_count{132};
  m.sm_groups = {66, 66};
  m.driver = std::move(driver);
  return m;
}

/// Folders of measurements, removed at the end.
struct measured_folders {
  std::filesystem::path home = std::filesystem::temp_directory_path() /
                               ("gsched_measured_files_" + std::to_string(::getpid()));
  measured_folders() { std::filesystem::create_directories(home); }
  ~measured_folders() { std::filesystem::remove_all(home); }

  /// A folder, two levels deep as machine.json may be one above.
  std::filesystem::path folder(const std::string& name) const {
    const auto made = home / name / "here";
    std::filesystem::create_directories(made);
    return made;
  }
  std::filesystem::path folder(const std::string& name, const machine& of) const {
    const auto made = folder(name);
    std::ofstream to(made / "machine.json");
    write_machine(to, of);
    return made;
  }
};

using notes = std::vector<std::string>;

} // namespace

TEST_CASE("measured files: each option's is compared with the machine here") {
  const measured_folders all;
  const machine here = machine_with_driver("1");
  machine other = here;
  other.gpu = "NVIDIA H100";
  const auto same = all.folder("same", here) / "t.csv",
             later = all.folder("later", machine_with_driver("2")) / "t.csv",
             moved = all.folder("moved", other) / "t.csv";
  const auto of = [&](std::vector<measured_file> files) { return compare_with_here(files, here); };
  CHECK(of({}).notes.empty());
  CHECK(of({{"--table", same}, {"--solo", same}}).notes.empty());
  const machine_findings found = of({{"--table", same}, {"--solo", later}, {"--law", later}});
  CHECK(found.other_gpu.empty());
  CHECK(found.notes ==
        notes{"--solo " + later.string() + ": measured with driver 2, not 1 as here"});
  for (const char* option : {"--table", "--solo", "--profiles"}) {
    CAPTURE(option);
    CHECK(of({{"--first", same}, {option, moved}, {"--last", later}}).other_gpu ==
          std::string(option) + " " + moved.string() +
              ": measured on NVIDIA H100, not NVIDIA H200 as here");
  }
  CHECK(of({{"--profiles", moved.parent_path()}}).other_gpu.starts_with("--profiles "));
}

TEST_CASE("measured files: an unknown GPU is noted once for each folder") {
  const measured_folders all;
  const auto mine = all.folder("mine"), others = all.folder("others");
  const std::string unknown = ": no machine.json beside it, so its GPU is unknown";
  const std::string inside = ": no machine.json in it, so its GPU is unknown";
  std::filesystem::create_directories(mine / "profiles");
  const auto of = [&](std::vector<measured_file> files) {
    return compare_with_here(files, machine_with_driver("1")).notes;
  };
  const measured_file table{"--table", mine / "t.csv"}, solo{"--solo", mine / "s.csv"},
      profiles{"--profiles", mine / "profiles"}, law{"--law", others / "l.json"};
  CHECK(of({table, solo, profiles}) == notes{table.text() + unknown});
  CHECK(of({solo, law, table}) == notes{solo.text() + unknown, law.text() + unknown});
  CHECK(of({profiles}) == notes{profiles.text() + inside});
  CHECK(of({{"--profiles", mine / "profiles/"}, {"--profiles", mine / "profiles/a_b1.json"}}) ==
        notes{"--profiles " + (mine / "profiles/").string() + inside});
}
