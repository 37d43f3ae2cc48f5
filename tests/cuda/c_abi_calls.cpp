// SPDX-License-Identifier: Apache-2.0
// Calls that need no GPU: versions, structs, and everything that is refused.
#include "cuda/needs_gpu.hpp"

#include <gsched/gsched_c.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include <unistd.h>

namespace {

/// The line of the call that has just failed.
[[nodiscard]] std::string line() {
  const std::string l = gsched_last_error();
  CHECK(!l.empty());
  CHECK(l.find('\n') == std::string::npos);
  return l;
}

[[nodiscard]] gsched_server_options defaults() {
  gsched_server_options o{};
  o.size = sizeof o;
  CHECK(gsched_default_options(&o) == GSCHED_OK);
  return o;
}

} // namespace

TEST_CASE("c abi: it says what it is") {
  CHECK(gsched_abi() == GSCHED_ABI);
  CHECK(std::string(gsched_version()).find('.') != std::string::npos);
  const std::string names = std::string(" ") + gsched_policy_names() + " ";
  for (const char* each : {"fifo", "srpt", "edf", "srpt+deficit", "direct", "single"})
    CHECK(names.find(std::string(" ") + each + " ") != std::string::npos);
}

TEST_CASE("c abi: its clock is the monotonic one") {
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  const std::chrono::nanoseconds now{gsched_now_ns()};
  CHECK(now >= before);
  CHECK(now - before < std::chrono::seconds(1));
}

TEST_CASE("c abi: measured slow-downs are read, and what is wrong is refused") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("gsched_slow_downs." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "pairs.csv").string();
  const auto write = [&](const std::string& rows) {
    std::ofstream(file)
        << "model_a,batch_a,sms_a,solo_a_us,corun_a_us,model_b,batch_b,sms_b,solo_b_us,"
           "corun_b_us\n"
        << rows;
  };
  write("a,8,132,100,150,b,1,132,50,60\na,8,64,100,900,b,1,68,50,900\na,8,132,100,110,a,8,132,100,"
        "130\n"
        "b,1,132,50,55,a,8,132,100,170\n");
  gsched_slow_down* all = nullptr;
  uint32_t count = 7;
  CHECK(gsched_load_slow_downs(file.c_str(), &all, &count) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("no machine.json beside it, expected") != std::string::npos);
  std::ofstream(folder / "machine.json")
      << R"({"gpu": "G", "compute_capability": "9.0", "sms": 132, "sm_groups": [132]})";
  REQUIRE(gsched_load_slow_downs(file.c_str(), &all, &count) == GSCHED_OK);
  REQUIRE(count == 3);
  std::string text;
  for (uint32_t i = 0; i < count; ++i)
    text +=
        std::string(all[i].model) + " " + all[i].beside + " " + std::to_string(all[i].by) + ", ";
  CHECK(text == "a_b8 a_b8 1.300000, a_b8 b_b1 1.700000, b_b1 a_b8 1.200000, ");
  CHECK(gsched_slow_downs_beyond_fit(all) == std::string());
  CHECK(gsched_slow_downs_beyond_fit(nullptr) == std::string());
  gsched_free_slow_downs(all);
  gsched_free_slow_downs(nullptr);

  write("a,8,64,100,900,b,1,68,50,900\n");
  CHECK(gsched_load_slow_downs(file.c_str(), &all, &count) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("no pair on all 132 SMs, expected") != std::string::npos);
  CHECK(all == nullptr);
  CHECK(count == 3);
  for (const char* path : {static_cast<const char*>(nullptr), ""}) {
    CHECK(gsched_load_slow_downs(path, &all, &count) == GSCHED_BAD_ARGUMENT);
    CHECK(line() == "pairs: no path, expected one");
  }
  CHECK(gsched_load_slow_downs((folder / "none.csv").c_str(), &all, &count) == GSCHED_IO);
  CHECK(line().find("none.csv: cannot be opened") != std::string::npos);
  CHECK(gsched_load_slow_downs(file.c_str(), nullptr, &count) == GSCHED_BAD_ARGUMENT);
  CHECK(line() == "slow_downs: NULL");
  CHECK(gsched_load_slow_downs(file.c_str(), &all, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(line() == "count: NULL");
  CHECK(gsched_predict_slow_downs(nullptr, "law.json", nullptr, &all, &count) ==
        GSCHED_BAD_ARGUMENT);
  CHECK(line() == "profiles: no path, expected one");
  CHECK(gsched_predict_slow_downs("mine", "", nullptr, &all, &count) == GSCHED_BAD_ARGUMENT);
  CHECK(line() == "law: no path, expected one");
  CHECK(all == nullptr);
  CHECK(count == 3);
  std::filesystem::remove_all(folder);
}

TEST_CASE("c abi: defaults are what the header says, and no more is written than there is room") {
  const gsched_server_options o = defaults();
  CHECK(std::string(o.policy) == "boost");
  CHECK(o.lanes == 8);
  CHECK(o.spare_lanes == UINT32_MAX);
  CHECK(o.segments_per_job == 2);
  CHECK(o.quantum_us == 100);
  CHECK(o.most_quantum_us == 800);
  CHECK(o.overshoot == 4);
  CHECK(o.threshold_us == 10000);
  CHECK(o.spin_us == 50);
  CHECK(o.max_jobs == 65536);
  CHECK(o.watchdog_ms == 10000);
  CHECK(o.lease_us == 20000);
  CHECK(o.reserve_sms[0] == 0);
  CHECK(o.one_long == 0);
  CHECK(o.long_kernel_us == 100);
  CHECK(o.reserve_slow_down == 0.10);
  CHECK(o.reserve_tail == 0.50);
  CHECK(o.reserve_share == 0.80);
  CHECK(o.slice_us == 100);
  CHECK(o.slow_downs == nullptr);
  CHECK(o.slow_downs_count == 0);
  CHECK(o.slow_down_limit == 0);
  CHECK(o.apart_wait_us == 1000);
  struct {
    gsched_server_options known;
    unsigned char later[16];
  } longer{};
  std::memset(&longer, 0xff, sizeof longer);
  longer.known.size = sizeof longer;
  CHECK(gsched_default_options(&longer.known) == GSCHED_OK);
  CHECK(longer.known.size == sizeof longer);
  for (const unsigned char b : longer.later) CHECK(b == 0);
  longer.known.size = 4;
  CHECK(gsched_default_options(&longer.known) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("size") != std::string::npos);
  CHECK(gsched_default_options(nullptr) == GSCHED_BAD_ARGUMENT);
}

TEST_CASE("c abi: a caller who knows fewer options gets and gives those") {
  gsched_server_options o{};
  o.size = offsetof(gsched_server_options, time_driver);
  o.time_driver = 77;
  CHECK(gsched_default_options(&o) == GSCHED_OK);
  CHECK(o.instrumented == 0);
  CHECK(o.time_driver == 77); // beyond what is the caller's
  o.gpu = -1;
  gsched_server* s = nullptr;
  CHECK(gsched_server_open(&o, &s) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("gpu") != std::string::npos); // and not time_driver
}

TEST_CASE("c abi: an option out of range is refused by its name") {
  const auto refused = [](const gsched_server_options& o, const char* name) {
    gsched_server* s = reinterpret_cast<gsched_server*>(1);
    CHECK(gsched_server_open(&o, &s) == GSCHED_BAD_ARGUMENT);
    CHECK(s == nullptr);
    CHECK(line().find(name) != std::string::npos);
  };
  gsched_server_options o = defaults();
  o.policy = "best";
  refused(o, "policy 'best'");
  o = defaults();
  o.policy = nullptr;
  refused(o, "policy");
  o = defaults();
  o.lanes = 0;
  refused(o, "lanes");
  o = defaults();
  o.spare_lanes = 129 - o.lanes;
  refused(o, "spare_lanes");
  o = defaults();
  o.quantum_us = 0;
  refused(o, "quantum_us");
  o = defaults();
  o.quantum_us = std::numeric_limits<double>::quiet_NaN();
  refused(o, "quantum_us");
  o = defaults();
  o.low_mark_us = 500;
  o.high_mark_us = 400;
  refused(o, "marks");
  o = defaults();
  o.watchdog_ms = 0;
  refused(o, "watchdog_ms");
  o = defaults();
  o.time_driver = 2;
  refused(o, "time_driver");
  o = defaults();
  o.lease_us = 0;
  refused(o, "lease_us");
  o = defaults();
  o.gpu = -1;
  refused(o, "gpu");
  CHECK(gsched_server_open(nullptr, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_server_open(&o, nullptr) == GSCHED_BAD_ARGUMENT);
}

TEST_CASE("c abi: a struct with fields of a later version is refused unless they are zero") {
  struct {
    gsched_server_options known;
    unsigned char later[8];
  } longer{};
  longer.known = defaults();
  longer.known.size = sizeof longer;
  longer.later[3] = 1;
  gsched_server* s = nullptr;
  CHECK(gsched_server_open(&longer.known, &s) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("does not know") != std::string::npos);
}

TEST_CASE("c abi: without a GPU a server is refused in one line") {
  if (gsched::testing::gpus_here() > 0) return;
  const gsched_server_options o = defaults();
  gsched_server* s = reinterpret_cast<gsched_server*>(1);
  CHECK(gsched_server_open(&o, &s) == GSCHED_NO_DEVICE);
  CHECK(s == nullptr);
  CHECK(line().find("driver") != std::string::npos);
  gsched_profile_options p{};
  p.size = sizeof p;
  p.model = "m";
  p.batch = 1;
  CHECK(gsched_profile_graph(&p, &p, "/tmp/never.json") == GSCHED_NO_DEVICE);
}

TEST_CASE("c abi: nulls are refused, and releasing nothing does nothing") {
  uint32_t n = 0;
  double weight = 1.0;
  CHECK(gsched_server_close(nullptr, GSCHED_DRAIN, 0) == GSCHED_BAD_ARGUMENT);
  CHECK(line() == "server: NULL");
  CHECK(gsched_server_release(nullptr) == GSCHED_OK);
  CHECK(gsched_add_client(nullptr, weight, &n) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_add_model(nullptr, nullptr, &n) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_get_model_facts(nullptr, 0, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_remove_model(nullptr, 0, 0) == GSCHED_BAD_ARGUMENT);
  CHECK(line() == "server: NULL");
  CHECK(gsched_submit(nullptr, nullptr, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_wait(nullptr, 0) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_cancel(nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_status(nullptr, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_watch(nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_collect(nullptr, nullptr, 0, &n, 0) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_get_statistics(nullptr, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_profile_graph(nullptr, nullptr, nullptr) == GSCHED_BAD_ARGUMENT);
  gsched_release(nullptr);
}

TEST_CASE("c abi: plans: defaults, nulls and bad arguments, and no GPU in one line") {
  gsched_plan_options o{};
  o.size = sizeof o;
  CHECK(gsched_default_plan_options(&o) == GSCHED_OK);
  CHECK(std::string(o.planner) == "best");
  CHECK(o.table == nullptr);
  CHECK(o.replans == 1);
  CHECK(o.period_us == 20e6);
  CHECK(o.headroom == 1.2);
  CHECK(o.clusters == 1.25);
  CHECK(o.tolerance == 0.1);
  CHECK(o.fall == 0.3);
  CHECK(o.added_us == 30);
  CHECK(o.spin_us == 50);
  CHECK(o.watchdog_ms == 10000);
  CHECK(o.spare == 32);
  CHECK(o.at_once == 1);
  CHECK(o.profiles == nullptr);
  CHECK(o.libraries == nullptr);
  const char kept = 0; // a caller without the newest fields: they are neither written nor read
  o.size = 120;
  o.profiles = &kept;
  CHECK(gsched_default_plan_options(&o) == GSCHED_OK);
  CHECK(o.profiles == &kept);
  o.size = 112;
  CHECK(gsched_default_plan_options(&o) == GSCHED_BAD_ARGUMENT);
  o.size = 120;
  gsched_server* s = reinterpret_cast<gsched_server*>(1);
  CHECK(gsched_plan_open(&o, nullptr, 0, &s) == GSCHED_BAD_ARGUMENT);
  CHECK(s == nullptr);
  CHECK(line().find("table") == 0);
  o.table = "/nonexistent.csv";
  CHECK(gsched_plan_open(&o, nullptr, 0, &s) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("models") == 0);
  o.size = sizeof o;
  CHECK(gsched_plan_open(&o, nullptr, 0, &s) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("profiles: expected NULL") == 0);
  o.profiles = nullptr;
  CHECK(gsched_plan_open(nullptr, nullptr, 0, &s) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_plan_open(&o, nullptr, 0, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_get_plan_report(nullptr, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_get_plan_model_report(nullptr, 0, nullptr) == GSCHED_BAD_ARGUMENT);
  if (gsched::testing::gpus_here() > 0) return;
  gsched_buffer b{&o, 8};
  gsched_plan_graph g{};
  g.size = sizeof g;
  g.batch = 1;
  g.graph = &o;
  g.inputs = g.outputs = &b;
  gsched_plan_model m{};
  m.size = sizeof m;
  m.name = "m";
  m.graphs = &g;
  m.graphs_count = m.inputs = m.outputs = 1;
  m.slo_us = 1000;
  CHECK(gsched_plan_open(&o, &m, 1, &s) == GSCHED_NO_DEVICE);
  CHECK(line().find("driver") != std::string::npos);
}

TEST_CASE("c abi: a caller who knows no events asks for requests as before") {
  gsched_request r{};
  r.size = offsetof(gsched_request, wait_event);
  r.wait_event = &r; // beyond what is the caller's
  CHECK(gsched_submit(nullptr, &r, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(line() == "server: NULL");
  r.size -= 8;
  CHECK(gsched_submit(nullptr, &r, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("request.size") == 0);
}

TEST_CASE("c abi: each thread has its own last error") {
  CHECK(gsched_wait(nullptr, 0) == GSCHED_BAD_ARGUMENT);
  std::string there = "?";
  std::thread([&] { there = gsched_last_error(); }).join();
  CHECK(there.empty());
  CHECK(line() == "ticket: NULL");
}

TEST_CASE("c abi: a channel's arguments are checked before anything is made") {
  gsched_channel_options o{};
  o.size = sizeof o;
  CHECK(gsched_default_channel_options(&o) == GSCHED_OK);
  CHECK(o.mode == 0600);
  CHECK(o.most_clients == 1024);
  CHECK(o.in_flight == 256);
  CHECK(o.bytes == UINT64_MAX);
  CHECK(o.rate == 0);
  CHECK(o.weight == 1);
  o.size = 3;
  CHECK(gsched_default_channel_options(&o) == GSCHED_BAD_ARGUMENT);
  CHECK(line().find("options.size: 3") != std::string::npos);
  gsched_channel* c = nullptr;
  CHECK(gsched_channel_open(nullptr, "@x", nullptr, &c) == GSCHED_BAD_ARGUMENT);
  CHECK(c == nullptr);
  CHECK(gsched_channel_offer(nullptr, 0, nullptr) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_channel_withdraw(nullptr, 0) == GSCHED_BAD_ARGUMENT);
  CHECK(gsched_channel_close(nullptr) == GSCHED_OK);
}
