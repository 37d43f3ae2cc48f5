// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/machine_json.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

using namespace gsched;

machine h200_machine() {
  machine m;
  m.gpu = "NVIDIA H200";
  m.compute_capability = "9.0";
  m.sms = sm_count{132};
  m.sm_groups.assign(15, 8);
  m.sm_groups.push_back(12);
  m.l2 = byte_count{62914560};
  m.memory = byte_count{150'000'000'000};
  m.driver = "580.65.06";
  m.cuda = "13.0";
  m.libraries = {{"torch", "2.11.0"}, {"cudnn", "9.1"}};
  m.gsched = "0.1.0";
  m.date = "2026-11-20";
  return m;
}

std::string written_machine(const machine& m) {
  std::ostringstream out;
  write_machine(out, m);
  return out.str();
}

std::string machine_refusal(const std::string& text) {
  try {
    static_cast<void>(parse_machine(text, "m.json"));
  } catch (const error& e) {
    return e.what();
  }
  return "accepted";
}

} // namespace

TEST_CASE("a machine reads back as it was written") {
  CHECK(parse_machine(written_machine(h200_machine()), "m.json") == h200_machine());
  CHECK(h200_machine().shape() == gpu_shape{sm_count{132}, sm_count{8}});
  machine least;
  least.gpu = "G";
  least.compute_capability = "8.0";
  least.sms = sm_count{2};
  least.sm_groups = {2};
  CHECK(parse_machine(R"({"gpu":"G","compute_capability":"8.0","sms":2,"sm_groups":[2],"new":1})",
                      "m.json") == least);
}

TEST_CASE("the limits of a machine are those of its compute capability") {
  CHECK(limits_of(h200_machine()).max_warps == limits_for(9, 0).max_warps);
  CHECK(limits_of(h200_machine()).major == 9);
  for (const char* const wrong : {"", "9", "9.", ".0", "9.0a", "nine", "-9.0", "99.9"}) {
    machine m = h200_machine();
    m.compute_capability = wrong;
    CHECK_THROWS_AS(static_cast<void>(limits_of(m)), error);
  }
}

TEST_CASE("a machine's errors are one line") {
  const std::string good = written_machine(h200_machine());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return machine_refusal(text.replace(at, from.size(), to));
  };
  CHECK(machine_refusal("") == "m.json: empty, expected a JSON object");
  CHECK(machine_refusal("[]") == "m.json: the document is an array, expected a JSON object");
  CHECK(with("\"gpu\"", "\"gpus\"") == "m.json: /gpu is missing, expected a string");
  CHECK(with("NVIDIA H200", "") == "m.json: /gpu is empty, expected the GPU's name");
  CHECK(with("132", "131") == "m.json: /sm_groups has 132 SMs, expected all 131");
  CHECK(with("132", "-1") == "m.json: /sms is -1, expected a whole number, 1 to 100000");
  CHECK(with("\"2.11.0\"", "2") == "m.json: /torch is 2, expected a string");
  CHECK(with("62914560", "1.5") ==
        "m.json: /l2_bytes is 1.5, expected a whole number, 0 to 1125899906842624");
}

TEST_CASE("machines differ by their GPU or by versions") {
  machine other = h200_machine();
  CHECK(gpu_difference(h200_machine(), other).empty());
  CHECK(version_difference(h200_machine(), other).empty());
  other.driver = "570.1";
  other.libraries["torch"] = "2.10.0";
  other.libraries.erase("cudnn"); // what one of them lacks is not compared
  CHECK(gpu_difference(h200_machine(), other).empty());
  CHECK(version_difference(h200_machine(), other) ==
        "driver 580.65.06, not 570.1; torch 2.11.0, not 2.10.0");
  other.gpu = "NVIDIA H100";
  CHECK(gpu_difference(h200_machine(), other) == "NVIDIA H200, not NVIDIA H100");
  other = h200_machine();
  other.sm_groups = std::vector<std::uint32_t>(66, 2);
  CHECK(gpu_difference(h200_machine(), other) == "other groups of SMs");
}

TEST_CASE("the machine of a file is beside it or one folder above") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("gsched_machine_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "profiles");
  CHECK_FALSE(machine_of(folder / "profiles" / "a_b1.json").has_value());
  std::ofstream(folder / "machine.json") << written_machine(h200_machine());
  CHECK(machine_of(folder / "profiles" / "a_b1.json") == h200_machine());
  CHECK(machine_of(folder / "latency.csv") == h200_machine());
  std::filesystem::remove_all(folder);
}
