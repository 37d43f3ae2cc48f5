// SPDX-License-Identifier: Apache-2.0
#include "interference/refusal.hpp"

#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/solo_csv.hpp>

#include <doctest/doctest.h>

namespace gsched::testing {
namespace {

const std::string solo_head = "model,batch,solo_us,l2_pct,dram_pct,sm_active_pct,ipc\n";
const std::string corun_head = "model_a,batch_a,sms_a,model_b,batch_b,sms_b,solo_a_us,solo_b_us,"
                               "corun_a_us,corun_b_us\n";

std::vector<solo_metrics> solo(const std::string& rows) {
  return read_solo_metrics(csv(solo_head + rows, solo_columns()));
}
std::vector<corun_pair> corun(const std::string& rows) {
  return read_corun_pairs(csv(corun_head + rows, corun_columns()), sm_count{132});
}
std::string solo_refusal(const std::string& rows) {
  return refusal([&] { static_cast<void>(solo(rows)); });
}
std::string corun_refusal(const std::string& rows) {
  return refusal([&] { static_cast<void>(corun(rows)); });
}

solo_table table_of(const std::string& rows) {
  solo_table t;
  for (solo_metrics& m : solo(rows)) t.add(std::move(m), "t.csv");
  return t;
}

} // namespace

TEST_CASE("a row of solo metrics is read as parts of 1") {
  const std::vector<solo_metrics> rows = solo("a,8,1000.5,40,10,75.5,0\nb,1,7,0,101,100,0.3\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].model == "a");
  CHECK(rows[0].batch == 8);
  CHECK(rows[0].solo == from_us(1000.5));
  CHECK(rows[0].l2 == doctest::Approx(0.4));
  CHECK(rows[0].dram == doctest::Approx(0.1));
  CHECK(rows[0].active == doctest::Approx(0.755));
  CHECK(rows[1].dram == 1); // a little over 100% is what rescaling gives
}

TEST_CASE("throughput is the same bytes over another latency") {
  const solo_table t = table_of("a,1,100,20,10,50,0\na,9,500,40,20,50,0\n");
  const auto rates = [&](std::uint32_t batch, double us) {
    return t.rates("a", batch, from_us(us)).value();
  };
  CHECK(rates(1, 100).l2 == doctest::Approx(0.2));
  CHECK(rates(1, 200).l2 == doctest::Approx(0.1));         // half the SMs, twice the time
  CHECK(rates(5, 300).l2 == doctest::Approx(110.0 / 300)); // half-way from 20 to 200
  CHECK(rates(5, 300).dram == doctest::Approx(55.0 / 300));
  CHECK(rates(17, 1000).l2 == doctest::Approx(0.38)); // the line goes on: 200 + 180
  CHECK(rates(9, 1).l2 == 1);                         // never all and more
  CHECK(!t.rates("b", 1, from_us(1)));
  CHECK(!t.rates("a", 1, duration::zero()));

  const solo_table one = table_of("a,8,100,20,10,50,0\n");
  CHECK(one.rates("a", 2, from_us(100))->l2 == doctest::Approx(0.2));
  CHECK(one.rates("a", 16, from_us(100))->l2 == doctest::Approx(0.4));
}

TEST_CASE("further columns of solo metrics are read where they are") {
  const std::vector<solo_metrics> rows = read_solo_metrics(
      csv("l1_pct,model,batch,solo_us,l2_pct,dram_pct,sm_active_pct,ipc,dram_bytes,l2_sectors\n"
          "30,a,1,100,20,10,50,1.5,800,100\n",
          solo_columns(), more_solo_columns()));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].ipc == doctest::Approx(1.5));
  CHECK(rows[0].l1 == doctest::Approx(0.3));
  CHECK(rows[0].kept == doctest::Approx(0.75));
  const solo_metrics none = solo("a,1,100,20,10,50,3\n")[0]; // no bytes: all may hit
  CHECK(none.kept == 1);
  CHECK(none.l1 == 0);
}

TEST_CASE("factors are read where they are, and are 1 elsewhere") {
  const auto read = [](const std::string& rows) {
    return read_solo_metrics(
        csv("model,batch,solo_us,l2_pct,dram_pct,sm_active_pct,pressure,sensitivity\n" + rows,
            solo_columns(), more_solo_columns()));
  };
  CHECK(read("a,1,10,0,0,50,0.5,2\n").front().factors == corun_factors{2, 0.5});
  CHECK(solo("a,1,10,0,0,50,0\n").front().factors == corun_factors{});
  CHECK(refusal([&] { static_cast<void>(read("a,1,10,0,0,50,0,2\n")); }) ==
        "t.csv:2: '0', expected a number from 0.1 to 10");
  CHECK(refusal([&] { static_cast<void>(read("a,1,10,0,0,50,1,11\n")); }) ==
        "t.csv:2: '11', expected a number from 0.1 to 10");
}

TEST_CASE("the pressure in means is 1 where it is not given") {
  const auto read = [](const std::string& pressure) {
    return read_solo_metrics(csv("model,batch,solo_us,l2_pct,dram_pct,sm_active_pct,mean_pressure\n"
                                 "a,1,10,0,0,50," +
                                     pressure + "\n",
                                 solo_columns(), more_solo_columns()))[0];
  };
  CHECK(read("1.25").mean_pressure == 1.25);
  CHECK(read("1.25").factors == corun_factors{});
  CHECK(solo("a,1,10,0,0,50,0\n").front().mean_pressure == 1);
  CHECK(refusal([&] { static_cast<void>(read("0")); }) ==
        "t.csv:2: '0', expected a number from 0.1 to 10");
  CHECK(refusal([&] { static_cast<void>(read("-")); }) ==
        "t.csv:2: '-', expected a number from 0.1 to 10");
}

TEST_CASE("losses are read where they are known") {
  const auto read = [](const std::string& l2, const std::string& starts) {
    return read_solo_metrics(
        csv("model,batch,solo_us,l2_pct,dram_pct,sm_active_pct,l2_loss,start_loss_us\n"
            "a,1,100,20,10,50," +
                l2 + "," + starts + "\n",
            solo_columns(), more_solo_columns()))[0];
  };
  CHECK(read("-", "0.25").at_start == start_loss{0.25});
  CHECK(read("-", "0").at_start == start_loss{0.0});
  CHECK(!read("0", "-").at_start.known());
  CHECK(read("0.25", "-").lost == l2_loss{0.25});
  CHECK(read("0", "-").lost == l2_loss{0.0});
  CHECK(!read("-", "0").lost.known());
  for (const char* const bad : {"-0.1", "100.5", "x", "--"}) {
    CHECK_THROWS_AS(read("-", bad), error);
    CHECK_THROWS_AS(read(bad, "-"), error);
  }
}

TEST_CASE("groups of graphs are read, and refused in one line") {
  const auto groups = [](const std::string& rows) {
    return read_corun_groups(
        csv("group,model,batch,sms,solo_us,corun_us\n" + rows, corun_group_columns()),
        sm_count{132});
  };
  const std::vector<corun_group> two =
      groups("g,a,1,64,10,12\ng,b,8,32,20,30\ng,a,1,36,10,11\nh,a,1,132,1,2\nh,a,1,132,1,2\n");
  REQUIRE(two.size() == 2);
  CHECK(two[0].sides.size() == 3);
  CHECK(two[0].sides[1].batch == 8);
  CHECK(two[0].sides[1].slowdown() == doctest::Approx(1.5));
  CHECK(two[1].sides[0].sms == sm_count{132});
  const auto refused = [&](const std::string& rows) {
    return refusal([&] { static_cast<void>(groups(rows)); });
  };
  CHECK(refused("g,a,1,64,10,12\n") == "t.csv:2: group g has one graph, expected two or more");
  CHECK(refused("g,a,1,64,10,12\ng,a,1,132,10,12\n").find("group g has 196 SMs") !=
        std::string::npos);
  CHECK(refused("g,a,1,64,10,-1\n").find("'-1', expected") != std::string::npos);
  // Named by its graphs: a row of each, as a write that was interrupted leaves fewer.
  const std::string name = "a_b1@64+b_b8@32+a_b1@36";
  const std::string a = name + ",a,1,64,10,12\n", b = name + ",b,8,32,20,30\n";
  CHECK(groups(a + b + name + ",a,1,36,10,11\n").front().name == name);
  CHECK(refused(a + b) == "t.csv:3: group " + name +
                              " has rows of a_b1@64+b_b8@32, expected one of each of its graphs");
  CHECK(refused(a + b + "h,a,1,132,1,2\nh,a,1,132,1,2\n").find(" has rows of a_b1@64+b_b8@32,") !=
        std::string::npos);
  CHECK(refused(a + name + ",a,1,36,10,11\n").find(" has rows of a_b1@64+a_b1@36,") !=
        std::string::npos);
}

TEST_CASE("override_with replaces the rows that both tables have") {
  solo_table t = table_of("a,1,100,20,10,50,0\nb,1,100,20,10,50,0\n");
  t.override_with(table_of("a,1,300,30,10,50,0\nc,1,100,20,10,50,0\n"));
  CHECK(t.find("a", 1)->solo == from_us(300));
  CHECK(t.find("b", 1)->solo == from_us(100));
  CHECK(t.has("c"));
  CHECK(t.find("c", 2) == nullptr);
}

TEST_CASE("bad solo metrics are refused in one line") {
  CHECK(solo_refusal("a,1,100,20,10,50\n") == "t.csv:2: 6 fields, expected 7");
  CHECK(solo_refusal("a,1,,20,10,50,0\n").find("t.csv:2: '', expected a number from") == 0);
  CHECK(solo_refusal("a,1,100,-20,10,50,0\n") == "t.csv:2: '-20', expected a number from 0 to 200");
  CHECK(solo_refusal("a,1,-100,20,10,50,0\n").find("'-100', expected") != std::string::npos);
  CHECK(solo_refusal("a,1,100,20,10,nan,0\n") == "t.csv:2: 'nan', expected a number from 0 to 200");
  CHECK(solo_refusal("a,0,100,20,10,50,0\n").find("whole number from 1") != std::string::npos);
  CHECK(solo_refusal(",1,100,20,10,50,0\n").find("expected a name") != std::string::npos);
  CHECK(refusal([] { table_of("a,1,100,20,10,50,0\na,1,90,20,10,50,0\n"); }) ==
        "t.csv: a, batch 1 is there twice, expected once");
  CHECK(refusal([] {
          static_cast<void>(csv("model,batch\n", solo_columns()));
        }).find("has no column solo_us, expected model,batch") != std::string::npos);
}

TEST_CASE("the graphs of a pair have disjoint SMs or share all") {
  const std::vector<corun_pair> rows =
      corun("a,1,64,b,8,68,10,20,12,30\na,1,132,b,8,132,10,20,12,15\n");
  REQUIRE(rows.size() == 2);
  CHECK(!rows[0].shares(sm_count{132}));
  CHECK(rows[1].shares(sm_count{132}));
  CHECK(rows[0].side[1].model == "b");
  CHECK(rows[0].side[1].batch == 8);
  CHECK(rows[0].side[0].slowdown() == doctest::Approx(1.2));
  CHECK(rows[1].side[1].slowdown() == doctest::Approx(0.75));
  CHECK(corun_refusal("a,1,64,b,8,72,10,20,12,30\n") ==
        "t.csv:2: 64 and 72 SMs, expected all 132 for both, or parts of them");
  CHECK(corun_refusal("a,1,132,b,8,8,10,20,12,30\n").find("132 and 8 SMs") != std::string::npos);
}

TEST_CASE("bad pairs are refused in one line") {
  CHECK(corun_refusal("a,1,64,b,8,68,10,20,12\n") == "t.csv:2: 9 fields, expected 10");
  CHECK(corun_refusal("a,1,64,b,8,68,10,20,12,-3\n").find("t.csv:2: '-3', expected") == 0);
  CHECK(corun_refusal("a,1,64,b,8,68,0,20,12,3\n").find("t.csv:2: '0', expected") == 0);
  CHECK(corun_refusal("a,1,64,,8,68,1,20,12,3\n").find("expected a name") != std::string::npos);
  CHECK(corun_refusal("a,1,64,b,8.5,68,1,20,12,3\n").find("'8.5'") != std::string::npos);
}

TEST_CASE("a pair is there once for each batch and number of SMs") {
  const std::string row = "a,1,64,b,8,68,10,20,12,30\n";
  CHECK(corun(row + "a,1,68,b,8,64,10,20,12,30\n" + "a,8,64,b,8,68,10,20,12,30\n").size() == 3);
  CHECK(corun_refusal(row + "a,1,132,b,8,132,10,20,12,30\n" + "a,1,64,b,8,68,11,21,13,31\n") ==
        "t.csv:4: a beside b is there twice, expected each pair of batches and SMs once");
}

TEST_CASE("a byte order mark before the header is skipped") {
  csv_table t = csv("\xEF\xBB\xBFmodel,batch\nlenet,8\n", {"model", "batch"});
  REQUIRE(t.next());
  CHECK(t.text(0) == "lenet");
  CHECK(t.count(1) == 8);
}

} // namespace gsched::testing
