// SPDX-License-Identifier: Apache-2.0
// Predicted slow-downs of the C ABI, without a GPU.
#include "cuda/c_abi_rig.hpp"

#include "slow_downs.hpp"

#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/coefficients_json.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/occupancy/limits.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace gsched::testing {
namespace {

namespace fs = std::filesystem;

const fs::path data = fs::path(GSCHED_SOURCE_DIR) / "tools/data";
const std::string law = (data / "interference/h200.json").string();

/// A folder with profiles and machine.json, removed at the end.
struct profile_folder {
  fs::path home = fs::temp_directory_path() / ("gsched_predicted." + std::to_string(::getpid()));
  fs::path profiles = home / "profiles";

  profile_folder() {
    fs::remove_all(home);
    fs::create_directories(profiles);
    for (const char* each : {"lenet_b1.json", "vgg16_b1.json"})
      fs::copy_file(data / "profiles" / each, profiles / each);
    fs::copy_file(data / "machine.json", home / "machine.json");
  }
  ~profile_folder() { fs::remove_all(home); }
  profile_folder(const profile_folder&) = delete;
  profile_folder& operator=(const profile_folder&) = delete;

  [[nodiscard]] named_slowdowns predicted(const char* models = nullptr,
                                          const std::string& by = law) const {
    return abi::predicted_slow_downs(profiles.c_str(), by.c_str(), models).all;
  }
};

} // namespace

TEST_CASE("c abi slow-downs: those of the law, of each model beside each") {
  const profile_folder in;
  const auto chain = [&](const char* file) {
    return chain_of(load_profile(in.profiles / file, limits_for(9, 0)), limits_for(9, 0),
                    solo_metrics{});
  };
  const kernel_chain a = chain("lenet_b1.json"), b = chain("vgg16_b1.json");
  const interference_coefficients by = load_coefficients(law);
  const std::array<double, 2> both = pair_slowdowns(a, b, by);
  named_slowdowns all = in.predicted();
  CHECK(all.size() == 4);
  CHECK(all[{"lenet_b1", "vgg16_b1"}] == both[0]);
  CHECK(all[{"vgg16_b1", "lenet_b1"}] == both[1]);
  const std::array<double, 2> itself = pair_slowdowns(b, b, by);
  CHECK(all[{"vgg16_b1", "vgg16_b1"}] == std::max(itself[0], itself[1]));
  const named_slowdowns one = in.predicted("vgg16_b1");
  CHECK(one.size() == 1);
  CHECK(one.begin()->second == std::max(itself[0], itself[1]));
}

TEST_CASE("c abi slow-downs: a line says which predictions are extrapolations") {
  const profile_folder in;
  const auto line = [&](double seen) {
    interference_coefficients by = load_coefficients(law);
    for (double& each : by.seen.sum) each = seen;
    const fs::path file = in.home / "other.json";
    std::ofstream to(file);
    write_coefficients(to, by);
    to.close();
    const abi::predicted_slowdowns found =
        abi::predicted_slow_downs(in.profiles.c_str(), file.c_str(), nullptr);
    gsched_slow_down* const rows = abi::in_one_piece(found.all, found.beyond_fit);
    std::string said = abi::line_of(rows);
    CHECK(rows[0].model == std::string("lenet_b1"));
    abi::free_rows(rows);
    return said;
  };
  CHECK(line(10).empty());
  const std::string said = line(0);
  CHECK_MESSAGE(said.find("lenet_b1 beside lenet_b1: more ") == 0, said);
  CHECK_MESSAGE(said.find("dram") != std::string::npos, said);
  CHECK_MESSAGE(said.find(", and 2 pairs more") != std::string::npos, said);
}

TEST_CASE("c abi slow-downs: what cannot be predicted is refused in one line") {
  const profile_folder in;
  std::string said;
  const auto refused = [&](const char* models, gsched_code code, const std::string& text,
                           const std::string& by = law) {
    CHECK(code_of([&] { static_cast<void>(in.predicted(models, by)); }, &said) == code);
    CHECK_MESSAGE(said.find(text) != std::string::npos, said);
    CHECK(said.find('\n') == std::string::npos);
  };
  refused("lenet_b1,lenet_b1", GSCHED_BAD_ARGUMENT, "models: lenet_b1 twice, expected each once");
  refused("lenet_b1,", GSCHED_BAD_ARGUMENT, "models: ''");
  refused("", GSCHED_BAD_ARGUMENT, "models: ''");
  refused("../lenet_b1", GSCHED_BAD_ARGUMENT, "models: '../lenet_b1'");
  refused("vgg16_b2", GSCHED_IO, "vgg16_b2.json");
  refused(nullptr, GSCHED_IO, "none.json", (in.home / "none.json").string());
  for (const char* path : {static_cast<const char*>(nullptr), ""}) {
    CHECK(code_of([&] { static_cast<void>(abi::predicted_slow_downs(path, law.c_str(), nullptr)); },
                  &said) == GSCHED_BAD_ARGUMENT);
    CHECK(said == "profiles: no path, expected one");
  }
  CHECK(code_of([&] {
          static_cast<void>(abi::predicted_slow_downs("/nonexistent", law.c_str(), nullptr));
        }) == GSCHED_IO);

  // A law of another GPU, a profile without counters, no machine, no profile.
  fs::create_directories(in.home / "law");
  fs::copy_file(law, in.home / "law/law.json");
  std::ofstream(in.home / "law/machine.json")
      << R"({"gpu": "NVIDIA T4", "compute_capability": "7.5", "sms": 40, "sm_groups": [40]})";
  refused(nullptr, GSCHED_BAD_ARGUMENT, "measured on NVIDIA T4, not NVIDIA H200 as the profiles",
          (in.home / "law/law.json").string());
  fs::copy_file(in.profiles / "lenet_b1.json", in.profiles / "zz.json");
  refused(nullptr, GSCHED_BAD_ARGUMENT, "zz.json: lenet_b1 again, expected each model once");
  profile bare = load_profile(in.profiles / "lenet_b1.json");
  for (profile_operation& each : bare.operations) each.counters.reset();
  {
    std::ofstream to(in.profiles / "lenet_b1.json");
    write_profile(to, bare);
  }
  refused("lenet_b1", GSCHED_BAD_ARGUMENT, "lenet_b1.json: no counters of its kernels, expected");
  bare.operations.clear();
  {
    std::ofstream to(in.profiles / "lenet_b1.json");
    write_profile(to, bare);
  }
  refused("lenet_b1", GSCHED_BAD_ARGUMENT, "lenet_b1");
  fs::remove(in.home / "machine.json");
  refused(nullptr, GSCHED_BAD_ARGUMENT, "no machine.json in it, expected the one that");
  for (const auto& each : fs::directory_iterator(in.profiles)) fs::remove(each.path());
  refused(nullptr, GSCHED_BAD_ARGUMENT, "no profile in it, expected NAME_bBATCH.json");
}

} // namespace gsched::testing
