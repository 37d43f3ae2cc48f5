// SPDX-License-Identifier: Apache-2.0
#include <gsched/io/latency_csv.hpp>
#include <gsched/partition/latency_table.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

latency_row row(const std::string& model, std::uint32_t batch, std::uint32_t sms, double us) {
  return {model, batch, sm_count{sms}, from_us(us)};
}

std::string refusal(const std::vector<latency_row>& rows) {
  try {
    const latency_table t(rows, "t");
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

std::string csv_refusal(const std::string& text) {
  try {
    const latency_table t(
        read_latency_rows(csv_table(std::make_unique<std::istringstream>(text), "t.csv",
                                    {"model", "batch", "sms", "latency_us"})),
        "t.csv");
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}

} // namespace

TEST_CASE("latencies are the measured ones, and interpolated between them") {
  const latency_table t(std::vector{row("a", 1, 8, 400), row("a", 1, 16, 250), row("a", 4, 8, 1000),
                                    row("a", 4, 16, 550), row("b", 2, 24, 7)});
  CHECK(t.size() == 2);
  CHECK(t.find("b") == 1);
  CHECK(!t.find("c"));
  CHECK(t.latency(0, 1, sm_count{8}) == from_us(400));
  CHECK(t.latency(0, 4, sm_count{16}) == from_us(550));
  CHECK(t.latency(0, 2, sm_count{8}) == from_us(600));  // a third of the way to batch 4
  CHECK(t.latency(0, 1, sm_count{12}) == from_us(300)); // 100 + 2400/p
  CHECK(t.latency(0, 1, sm_count{99}) == from_us(250)); // no better than the most measured
  CHECK(t.latency(1, 1, sm_count{24}) == from_us(7));   // no better than the smallest batch
}

TEST_CASE("latencies fall with SMs, rise with batches and are never below their rows") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<latency_row> rows;
    const std::uint32_t sizes[] = {8, 16, 24, 48, 132};
    const std::uint32_t batches[] = {1, 2, 5, 32};
    for (const std::uint32_t b : batches)
      for (const std::uint32_t s : sizes)
        rows.push_back(row("m", b, s, 1 + static_cast<double>(random() % 10000)));
    const latency_table t(rows);
    std::shuffle(rows.begin(), rows.end(), random);
    const latency_table shuffled(rows);
    double most_raised = 0;
    for (const latency_row& r : rows) {
      const duration l = t.latency(0, r.batch, r.sms);
      REQUIRE(l >= r.latency);
      most_raised = std::max(
          most_raised, static_cast<double>(l.count()) / static_cast<double>(r.latency.count()) - 1);
    }
    CHECK(t.raised(0) == doctest::Approx(most_raised));
    CHECK(t.doubts().size() == (most_raised > latency_table::doubtful ? 1 : 0));
    for (std::uint32_t b = 1; b <= 32; ++b)
      for (std::uint32_t s = 8; s <= 140; ++s) {
        REQUIRE(t.latency(0, b, sm_count{s}) == shuffled.latency(0, b, sm_count{s}));
        if (s > 8) REQUIRE(t.latency(0, b, sm_count{s}) <= t.latency(0, b, sm_count{s - 1}));
        if (b > 1) REQUIRE(t.latency(0, b, sm_count{s}) >= t.latency(0, b - 1, sm_count{s}));
      }
  }
}

TEST_CASE("bad rows are refused in one line") {
  CHECK(refusal({}) == "t: no rows, expected one");
  CHECK(refusal({row("a", 0, 8, 1)}) == "t: a, batch 0 on 8 SMs: expected at least 1 of both");
  CHECK(refusal({row("a", 1, 8, 0)}) == "t: a, batch 1 on 8 SMs: 0 ns, expected more than 0");
  CHECK(refusal({row("a", 1, 8, -4)}) == "t: a, batch 1 on 8 SMs: -4000 ns, expected more than 0");
  CHECK(refusal({row("a", 1, 8, 4), row("b", 1, 8, 4), row("a", 1, 8, 5)}) ==
        "t: a, batch 1 on 8 SMs: there twice, expected once");
  CHECK(refusal({row("a", 1, 8, 4), row("a", 2, 16, 4)}) ==
        "t: a, batch 1 on 16 SMs: no row, expected one for each batch and size of the model");
  CHECK(refusal({row("a", 1, 8, 4), row("a", 2, 8, 4), row("a", 1, 16, 4)}) ==
        "t: a, batch 2 on 16 SMs: no row, expected one for each batch and size of the model");
  // A missing row is found at once, however large the table would be.
  std::vector<latency_row> diagonal;
  for (std::uint32_t i = 1; i <= 100000; ++i) diagonal.push_back(row("a", i, i, 4));
  CHECK(refusal(diagonal).find("batch 1 on 2 SMs: no row") != std::string::npos);
}

TEST_CASE("bad files are refused with the line number") {
  const std::string head = "model,batch,sms,latency_us\n";
  CHECK(csv_refusal(head + "a,1,8,4\r\n\n") == "none");
  CHECK(csv_refusal("sms,latency_us,model,x,batch\n8,4,a,,1\n") == "none");
  CHECK(csv_refusal("") == "t.csv:1: is empty, expected a header line");
  CHECK(csv_refusal(head) == "t.csv: no rows, expected one");
  CHECK(csv_refusal("model,batch\n") ==
        "t.csv:1: has no column sms, expected model,batch,sms,latency_us");
  CHECK(csv_refusal(head + "a,1,8\n") == "t.csv:2: 3 fields, expected 4");
  CHECK(csv_refusal(head + "a,1,8,-4\n") ==
        "t.csv:2: '-4', expected microseconds above 0, at most 1e+12");
  CHECK(csv_refusal(head + "a,1,8,inf\n") ==
        "t.csv:2: 'inf', expected microseconds above 0, at most 1e+12");
  CHECK(csv_refusal(head + "a,x,8,4\n") == "t.csv:2: 'x', expected a whole number from 1");
  CHECK(csv_refusal(head + "a,1,8,1e30\n").find("t.csv:2: ") == 0);
  CHECK(csv_refusal(head + "a\x1b,1,8,4\n") == "t.csv:2: 'a?', expected a name one can print");
}

TEST_CASE("the shipped latency table is read") {
  const latency_table t =
      load_latency_table(GSCHED_SOURCE_DIR "/tools/data/latency_batch_partition.csv");
  CHECK(t.size() == 6);
  for (std::size_t m = 0; m < t.size(); ++m) {
    CAPTURE(t.name(m));
    CHECK(t.batches(m).back() == 32);
    CHECK(t.sizes(m).front() == sm_count{8});
    MESSAGE(t.name(m) << ": raised by at most " << 100 * t.raised(m) << "%");
  }
  for (const std::string& line : t.doubts()) MESSAGE(line);
  CHECK_THROWS_WITH_AS(static_cast<void>(load_latency_table("nowhere.csv")),
                       "nowhere.csv: cannot be opened, expected a CSV file", error);
}

} // namespace gsched::testing
