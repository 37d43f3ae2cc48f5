// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/replays_csv.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace gsched;

corun_pair replayed_pair(const char* a, std::uint32_t a_sms, double a_us, const char* b,
                         std::uint32_t b_sms, double b_us) {
  const duration both = from_us(a_us + b_us);
  return {{corun_side{a, 1, sm_count{a_sms}, from_us(a_us), both},
           corun_side{b, 1, sm_count{b_sms}, from_us(b_us), both}}};
}

const std::vector<latency_row> replay_rows{{"a", 1, sm_count{64}, from_us(20)},
                                           {"a", 1, sm_count{8}, from_us(100)},
                                           {"a", 8, sm_count{8}, from_us(700)}};
const std::vector<corun_pair> replay_pairs{
    replayed_pair("a", 64, 21, "b", 68, 9), replayed_pair("a", 68, 19, "b", 64, 10),
    replayed_pair("a", 68, 17, "b", 64, 12), replayed_pair("a", 68, 18, "b", 64, 11)};

} // namespace

TEST_CASE("replays: the table has precedence, and pairs count by their median") {
  const replays_by_name all = replays_of(replay_rows, replay_pairs);
  CHECK(all.size() == 3);
  CHECK(all.at("a_b1") == std::vector<scaling_point>{{sm_count{8}, from_us(100)},
                                                     {sm_count{64}, from_us(20)},
                                                     {sm_count{68}, from_us(18)}});
  CHECK(all.at("a_b8") == std::vector<scaling_point>{{sm_count{8}, from_us(700)}});
  CHECK(all.at("b_b1") ==
        std::vector<scaling_point>{{sm_count{64}, from_us(11)}, {sm_count{68}, from_us(9)}});
}

TEST_CASE("replays: a profile gets those on fewer SMs than it has") {
  const replays_by_name all = replays_of(replay_rows, replay_pairs);
  profile p;
  p.model = "a";
  p.sms = sm_count{68};
  CHECK_FALSE(set_replays(p, all)); // what it takes on all SMs is not known
  p.graph_replay = from_us(17);
  CHECK(set_replays(p, all));
  CHECK(p.graph_replay_by_sms ==
        std::vector<scaling_point>{{sm_count{8}, from_us(100)}, {sm_count{64}, from_us(20)}});
  CHECK_FALSE(set_replays(p, all)); // nothing is new
  p.model = "unknown";
  CHECK_FALSE(set_replays(p, all));
  CHECK(p.graph_replay_by_sms.size() == 2);
}

TEST_CASE("replays: a folder may lack both files") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "gsched_replays_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  CHECK(load_replays(folder, sm_count{132}).empty());
  std::ofstream(folder / "latency_batch_partition.csv")
      << "model,batch,sms,latency_us\na,1,8,100\n";
  CHECK(load_replays(folder, sm_count{132}).at("a_b1").size() == 1);
  std::ofstream(folder / "corun_pairs.csv")
      << "model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,corun_a_us,corun_b_us\n"
         "a,1,64,a,1,68,20,19,30,29\n";
  CHECK(load_replays(folder, sm_count{132}).at("a_b1").size() == 3);
  fs::remove_all(folder);
}
