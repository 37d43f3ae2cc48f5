// SPDX-License-Identifier: Apache-2.0
#include "measure/folder.hpp"
#include "measure/part_report.hpp"
#include "measure/row_file.hpp"
#include "measure/schedule.hpp"
#include "measure/solo_row.hpp"
#include "measure/splits.hpp"
#include "measure/time_shares.hpp"

#include "common/run/step_watchdog.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/other_work.hpp>
#include <gsched/cuda_tools/replay_times.hpp>
#include <gsched/cuda_tools/waited_for_probe.hpp>
#include <gsched/io/machine_json.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/job/profile.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// A folder of its own, removed at the end.
struct scratch {
  scratch() { fs::create_directories(at); }
  ~scratch() { fs::remove_all(at); }
  fs::path at = fs::temp_directory_path() / ("gsched_measure_" + std::to_string(::getpid()));
};

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const gsched::error& e) {
    return e.what();
  }
  return "accepted";
}

} // namespace

TEST_CASE("measure: a file of rows goes on where it was interrupted") {
  const scratch here;
  const fs::path file = here.at / "rows.csv";
  const auto open = [&] { return measure::row_file(file, {"model", "sms", "us"}, 2); };
  {
    measure::row_file rows = open();
    CHECK(rows.size() == 0);
    rows.add({{"a", "8", "1.5"}, {"a", "16", "1.0"}});
    CHECK(rows.has({"a", "8"}));
    CHECK_FALSE(rows.has({"b", "8"}));
  }
  const std::string whole = "model,sms,us\na,8,1.5\na,16,1.0\n";
  CHECK(text_of(file) == whole);
  std::ofstream(file, std::ios::app) << "b,8,1"; // the process ended here
  {
    measure::row_file rows = open();
    CHECK(rows.size() == 2);
    CHECK_FALSE(rows.has({"b", "8"}));
    CHECK(text_of(file) == whole);
    rows.add({{"b", "8", "12.0"}});
  }
  CHECK(text_of(file) == whole + "b,8,12.0\n");
  CHECK(open().size() == 3);

  std::ofstream(file) << "model,sm"; // not even the header was complete
  open().add({{"c", "8", "1.0"}});
  CHECK(text_of(file) == "model,sms,us\nc,8,1.0\n");

  std::ofstream(file) << "model,sms,ms\n";
  CHECK(refusal(open) ==
        file.string() + ":1: other columns, expected model,sms,us; --anew starts over");
  std::ofstream(file) << "model,sms,us\na,8\n";
  CHECK(refusal(open) == file.string() + ":2: 2 fields, expected 3; --anew starts over");
}

TEST_CASE("measure: a file that lacks a newer column goes on without it") {
  const scratch here;
  const fs::path file = here.at / "rows.csv";
  const auto open = [&] { return measure::row_file(file, {"model", "us", "seen"}, 1, 1); };
  open().add({{"a", "1.5", "64"}});
  CHECK(text_of(file) == "model,us,seen\na,1.5,64\n");
  std::ofstream(file) << "model,us\na,1.5\n";
  open().add({{"b", "2.5", "64"}, {"c", "3.5", "32"}});
  CHECK(text_of(file) == "model,us\na,1.5\nb,2.5\nc,3.5\n");
  CHECK(open().size() == 3);
  measure::row_file two(file, {"model", "us", "seen", "most"}, 1,
                        2); // one of them is there, or none
  two.add({{"d", "4.5", "16", "5"}});
  CHECK(text_of(file) == "model,us\na,1.5\nb,2.5\nc,3.5\nd,4.5\n");
  std::ofstream(file) << "model,us,seen\na,1.5,64\n";
  measure::row_file(file, {"model", "us", "seen", "most"}, 1, 2).add({{"b", "2.5", "16", "5"}});
  CHECK(text_of(file) == "model,us,seen\na,1.5,64\nb,2.5,16\n");
  std::ofstream(file) << "model,seen\na,64\n";
  CHECK(refusal(open) ==
        file.string() + ":1: other columns, expected model,us,seen; --anew starts over");
}

TEST_CASE("measure: rows of one key that were written in part are removed, and measured again") {
  const scratch here;
  const fs::path file = here.at / "rows.csv";
  const auto open = [&] { return measure::row_file(file, {"probe", "operation", "us"}, 1); };
  const std::string header = "probe,operation,us\n";
  const std::string a = "a,0,1.0\na,1,1.1\na,2,1.2\n";
  const std::string c = "c,0,3.0\nc,1,3.1\n";
  std::ofstream(file) << header << a << "b,0,2.0\nb,1,2.1\n"
                      << c; // the process ended at the end of b,1
  {
    measure::row_file rows = open();
    CHECK(rows.has_all({"a"}, 3));
    CHECK_FALSE(rows.has_all({"d"}, 3));
    CHECK(text_of(file) == header + a + "b,0,2.0\nb,1,2.1\n" + c);
    CHECK_FALSE(rows.has_all({"b"}, 3));
    CHECK_FALSE(rows.has({"b"}));
    CHECK(text_of(file) == header + a + c);
    rows.add({{"b", "0", "2.0"}, {"b", "1", "2.1"}, {"b", "2", "2.2"}});
    CHECK(rows.has_all({"b"}, 3));
  }
  CHECK(text_of(file) == header + a + c + "b,0,2.0\nb,1,2.1\nb,2,2.2\n");
  CHECK(open().has_all({"b"}, 3));
  for (const auto& entry : fs::directory_iterator(here.at)) CHECK(entry.path() == file);
}

TEST_CASE("measure: a step that goes on is no hang") {
  using std::chrono::milliseconds;
  const auto status_of = [](bool goes_on) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      static_cast<void>(std::freopen("/dev/null", "w", stderr));
      common::step_watchdog dog("measure");
      dog.step("a graph", std::chrono::seconds{1});
      for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(milliseconds{500});
        if (goes_on) dog.restart();
      }
      std::_Exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(status_of(true) == 0);
  CHECK(status_of(false) == 3);
}

TEST_CASE("measure: a run that is not complete counts what is missing") {
  std::vector<measure::part_report> parts(2);
  parts[0].measured = 9;
  parts[1].notes.emplace_back("net_b1 beside itself left out: it has one instance, expected two");
  CHECK(measure::what_is_missing(parts) == "");
  parts[0].left_out = 12;
  CHECK(measure::what_is_missing(parts) == "incomplete: 12 steps left by --minutes, expected none");
  parts[1].leave_out("net_b8 on 8 SMs", "out of memory");
  CHECK(parts[1].notes.back() == "net_b8 on 8 SMs left out: out of memory");
  CHECK(
      measure::what_is_missing(parts) ==
      "incomplete: 12 steps left by --minutes, 1 rows or graphs left out by errors, expected none");
  parts[0].left_out = 0;
  CHECK(measure::what_is_missing(parts) ==
        "incomplete: 1 rows or graphs left out by errors, expected none");
  parts[0].disturbed = 2;
  CHECK(measure::what_is_missing(parts) ==
        "incomplete: 1 rows or graphs left out by errors, 2 times the GPU was in use, so that rows "
        "may be wrong, expected none");
}

TEST_CASE("measure: parts share the time, and what one leaves") {
  const measure::time_shares shares(100, {1, 2, 1});
  CHECK(shares.until(0, 0) == doctest::Approx(25));
  CHECK(shares.until(1, 25) == doctest::Approx(75));
  CHECK(shares.until(1, 10) == doctest::Approx(70)); // of 90, two of three parts
  CHECK(shares.until(2, 70) == doctest::Approx(100));
  CHECK(shares.until(2, 130) == doctest::Approx(130)); // none is left
  CHECK(measure::seconds_left(0, 10, 0, 40) == doctest::Approx(40));
  CHECK(measure::seconds_left(4, 10, 8, 40) == doctest::Approx(12));
  CHECK(measure::seconds_left(4, 10, 80, 40) == doctest::Approx(40));
}

TEST_CASE("measure: times are summed up by percentiles") {
  using gsched::cuda::summarize;
  CHECK(summarize({}).count == 0);
  CHECK(summarize({}).spread() == 0);
  const auto one = summarize({5});
  CHECK(one.p10 == 5);
  CHECK(one.p90 == 5);
  std::vector<double> times;
  for (int i = 0; i <= 10; ++i) times.push_back((i * 7) % 11); // 0 to 10, in another order
  const auto t = summarize(times);
  CHECK(t.count == 11);
  CHECK(t.p10 == 1);
  CHECK(t.median == 5);
  CHECK(t.p90 == 9);
  CHECK(t.mean == doctest::Approx(5));
  CHECK(t.spread() == doctest::Approx(1.6));
}

TEST_CASE("measure: a GPU in use shows in the times of one graph") {
  gsched::cuda::replay_times t;
  t.count = 800;
  t.p10 = 100;
  t.mean = 109;
  CHECK(gsched::cuda::uneven_replays("GX100", t) == "");
  CHECK(gsched::cuda::late_replays("GX100", t, 129, 90) == "");
  CHECK(
      gsched::cuda::late_replays("GX100", t, 162, 90) ==
      "GX100: a graph that takes 100.0 us begins and ends in 162.0 us, in the mean of 90, expected "
      "at most 30% more: is the GPU in use?");
  t.mean = 111;
  CHECK(gsched::cuda::uneven_replays("GX100", t) ==
        "GX100: the same graph takes 100.0 us at best and 111.0 us in the mean of 800, expected at "
        "most 10% more: is the GPU in use?");
}

TEST_CASE("measure: each pair once, groups apart, and some of both at any time") {
  const std::vector<std::size_t> instances{2, 1, 2, 3};
  std::mt19937_64 random(1);
  const auto pairs = measure::pairs_of(instances, random);
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const measure::company& c : pairs) {
    REQUIRE(c.members.size() == 2);
    CHECK(c.members[0] != c.members[1]);
    CHECK(seen.emplace(c.members[0].graph, c.members[1].graph).second);
    CHECK(c.members[0].graph <= c.members[1].graph);
  }
  CHECK(seen.size() == 6 + 3); // and 1 beside itself has no second instance
  const std::vector<std::size_t> sizes{3, 5};
  const auto groups = measure::groups_of(instances, 12, sizes, random);
  CHECK(groups.size() > 6);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& members = groups[i].members;
    CHECK((members.size() == 3 || members.size() == 5));
    for (std::size_t k = 0; k < members.size(); ++k) {
      CHECK(members[k].instance < instances[members[k].graph]);
      for (std::size_t l = 0; l < k; ++l) CHECK(members[k] != members[l]);
    }
  }
  CHECK(std::any_of(groups.begin(), groups.end(),
                    [](const auto& g) { return g.members.size() == 5; }));
  CHECK(measure::groups_of(std::vector<std::size_t>{1, 1}, 4, sizes, random).empty());
  std::mt19937_64 again(1);
  CHECK(measure::pairs_of(instances, again) == pairs);

  const std::vector<std::size_t> named{1, 3};
  const auto some = measure::pairs_with(pairs, named);
  CHECK(some.size() == 9 - 3); // but 0 and 2 beside themselves and each other
  for (const measure::company& c : some)
    CHECK((c.members[0].graph % 2 == 1 || c.members[1].graph % 2 == 1));
  CHECK(measure::pairs_with(pairs, {}).empty());

  const auto both = measure::interleaved(pairs, groups);
  REQUIRE(both.size() == pairs.size() + groups.size());
  std::size_t of_two = 0;
  for (std::size_t i = 0; i < both.size(); ++i) {
    if (both[i].members.size() == 2) ++of_two;
    const double part = static_cast<double>(pairs.size()) / static_cast<double>(both.size());
    CHECK(std::abs(static_cast<double>(of_two) - part * static_cast<double>(i + 1)) < 1.5);
  }
  CHECK(measure::interleaved({}, groups) == groups);
  CHECK(measure::interleaved(pairs, {}) == pairs);
}

TEST_CASE("measure: splits of the SMs are disjoint, whole, or not there") {
  using measure::split;
  CHECK(measure::splits_for_two(16) ==
        std::vector<split>{
            {{0, 8}, {8, 16}}, {{0, 4}, {4, 16}}, {{0, 12}, {12, 16}}, {{0, 16}, {0, 16}}});
  CHECK(measure::splits_for_two(2) == std::vector<split>{{{0, 1}, {1, 2}}, {{0, 2}, {0, 2}}});
  CHECK(measure::splits_for_two(1) == std::vector<split>{{{0, 1}, {0, 1}}});
  CHECK(measure::equal_split(2, 3).empty());
  CHECK(measure::shared_split(5, 3) == split(3, {0, 5}));
  for (std::size_t groups = 1; groups < 40; ++groups)
    for (std::size_t n = 1; n <= groups && n < 6; ++n) {
      const split s = measure::equal_split(groups, n);
      REQUIRE(s.size() == n);
      std::size_t at = 0;
      for (const measure::group_range& r : s) {
        CHECK(r.first == at);
        CHECK(r.last > r.first);
        CHECK(r.last - r.first <= groups / n + 1);
        at = r.last;
      }
      CHECK(at == groups);
    }
}

TEST_CASE("measure: a folder is of one machine") {
  const scratch here;
  const fs::path out = here.at / "made" / "here";
  bool anew = false;
  gsched::machine m;
  m.gpu = "NVIDIA H200";
  m.compute_capability = "9.0";
  m.sms = gsched::sm_count{132};
  m.sm_groups = {66, 66};
  m.driver = "580.1";
  m.libraries = {{"torch", "2.11"}};
  m.date = "2026-11-20";
  const auto open = [&](const gsched::machine& machine) {
    return refusal([&] { measure::open_folder(out, anew, machine); });
  };
  CHECK(open(m) == "accepted");
  CHECK(gsched::load_machine(out / "machine.json") == m);
  gsched::machine later = m; // without a library, with another one, on another day
  later.libraries = {{"cudnn", "9"}};
  later.date = "2026-12-01";
  CHECK(open(later) == "accepted");
  CHECK(gsched::load_machine(out / "machine.json").libraries.size() == 2);
  CHECK(gsched::load_machine(out / "machine.json").date == "2026-11-20");

  std::ofstream(out / "corun_pairs.csv") << "rows\n";
  gsched::machine other = m;
  other.driver = "590.1";
  const std::string file = (out / "machine.json").string();
  CHECK(open(other) == file + ": measured with driver 580.1, not 590.1, expected the same; "
                              "--anew removes what is there");
  other.gpu = "NVIDIA H100";
  CHECK(open(other) == file + ": measured with NVIDIA H200, not NVIDIA H100, expected the same; "
                              "--anew removes what is there");
  const auto checked = [&](const gsched::machine& machine) {
    return refusal([&] { measure::check_folder(out, machine); });
  };
  CHECK(checked(m) == "accepted");
  CHECK(checked(other) == open(other));
  CHECK(gsched::load_machine(out / "machine.json").driver == "580.1");
  CHECK(fs::exists(out / "corun_pairs.csv"));
  anew = true;
  CHECK(open(other) == "accepted");
  CHECK(gsched::load_machine(out / "machine.json") == other);
  CHECK_FALSE(fs::exists(out / "corun_pairs.csv"));

  anew = false;
  fs::remove(out / "machine.json");
  std::ofstream(out / "corun_pairs.csv") << "rows\n";
  CHECK(open(m) == (out / "corun_pairs.csv").string() +
                       ": there without machine.json, expected a folder of this program; --anew "
                       "removes it");
}

TEST_CASE("measure: solo metrics are sums over kernels, over the undisturbed time") {
  gsched::profile p;
  p.model = "m";
  p.batch = 8;
  const auto add = [&](double us, double active, double l2) {
    gsched::profile_operation& op = p.operations.emplace_back();
    op.name = "kernel";
    op.work.expected = gsched::from_us(us);
    gsched::kernel_counters& c = op.counters.emplace();
    c.us = us;
    c.sm_active = active;
    c.l2 = l2;
    c.warps_active = 0.5;
    c.ipc = 2;
    c.dram = 0.1;
    c.pipes.fma = 0.25;
    c.dram_bytes = 1000;
    c.l2_bytes = 3200;
  };
  add(30, 1, 0.5);
  add(10, 0.2, 0.1);
  p.operations.emplace_back().work.kind = gsched::operation_kind::memset; // has no counters
  const gsched::cuda::replay_times alone{
      .count = 9, .mean = 51, .p10 = 49, .median = 50, .p90 = 53};
  const measure::row_file::row row = measure::solo_metrics_row(p, alone);
  CHECK(row == measure::row_file::row{"m", "8", "50.000", "2000", "200", "8.000", "32.000",
                                      "32.000", "1.280", "32.000", "0.000", "64.000", "2.0",
                                      "70.000", "49.000", "53.000"});
  const scratch here;
  const fs::path file = here.at / "solo_metrics.csv";
  measure::row_file(file, measure::solo_metrics_columns(), 2).add({row});
  const gsched::solo_table table = gsched::load_solo_table(file);
  REQUIRE(table.find("m", 8) != nullptr);
  CHECK(table.find("m", 8)->l2 == doctest::Approx(0.32));
  CHECK(table.find("m", 8)->active == doctest::Approx(0.64));
  CHECK(table.find("m", 8)->starts == doctest::Approx(2));
  CHECK(table.find("m", 8)->exposed == doctest::Approx(0.7));
  CHECK(table.rates("m", 8, gsched::from_us(100))->starts == doctest::Approx(0.02));
  CHECK(table.rates("m", 8, gsched::from_us(100))->exposed == doctest::Approx(0.7));

  p.operations[1].counters.reset();
  CHECK(refusal([&] { static_cast<void>(measure::solo_metrics_row(p, alone)); }) ==
        "m_b8: operation 1 (kernel): no counters, expected those of each kernel");
  p.operations.clear();
  CHECK(refusal([&] { static_cast<void>(measure::solo_metrics_row(p, alone)); }) ==
        "m_b8: no kernel, expected one to count");
}

TEST_CASE("measure: a kernel waited for a probe if twice the probe takes it that much longer") {
  constexpr double limit = 3000;
  // Beside a probe that ends after `until`: it waits for it, or makes 1 / slower of its progress.
  const auto waits = [](double alone, double until) { return until - 60 + alone; };
  const auto slowed = [](double alone, double slower, double until) {
    const double done = until / slower;
    return done < alone ? until + alone - done : alone * slower;
  };
  for (const double alone : {5.0, 100.0, 500.0, 5000.0}) {
    CAPTURE(alone);
    CHECK(gsched::cuda::waited_for_probe(waits(alone, limit), waits(alone, 2 * limit), limit));
    for (double slower = 1; slower < 19; slower += 0.1) {
      CAPTURE(slower);
      CHECK(!gsched::cuda::waited_for_probe(slowed(alone, slower, limit),
                                            slowed(alone, slower, 2 * limit), limit));
    }
  }
  // A depthwise convolution of 490 us beside fp32 that leaves few slots, as measured the first
  // time.
  CHECK(!gsched::cuda::waited_for_probe(3067, 490 * 9.4, limit));
}
