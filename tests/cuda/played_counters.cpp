// SPDX-License-Identifier: Apache-2.0
//
// Counters that are not permitted, not there or not sound, with a library in the place of CUPTI.
#include "profile/kernel_readings.hpp"
#include "profile/range_counters.hpp"
#include "profile/unseen.hpp"

#include <gsched/core/error.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

namespace gsched::testing {
namespace {

#ifdef GSCHED_FAKE_CUPTI

struct counted {
  cuda::range_values read{};
  std::string failure{};
  std::error_code code{};
};

/// Two ranges, by a library with which that is wrong.
counted count(const char* wrong) {
  counted made;
  ::setenv("FAKE_CUPTI", wrong, 1);
  try {
    made.read = cuda::count_ranges(cuda::counters_of_kernels(), 2,
                                   {[](std::size_t) {}, [](std::size_t) {}, "net_b1 (9 kernels)"},
                                   GSCHED_FAKE_CUPTI);
  } catch (const error& e) {
    made.failure = e.what();
    made.code = e.code();
  }
  ::unsetenv("FAKE_CUPTI");
  return made;
}

TEST_CASE("counters that the driver does not permit: how to permit them") {
  const counted denied = count("denied");
  CHECK(denied.code == errc::no_device);
  CHECK(denied.failure ==
        "counters: the driver permits them to administrators only; run as root, or load the "
        "driver's module with NVreg_RestrictProfilingToAdminUsers=0");
  CHECK(count("virtual").code == errc::no_device);
  CHECK(count("virtual").failure.starts_with("counters: not available on this virtual GPU, "));
  CHECK(count("busy").code == errc::device_failed);
  CHECK(count("busy").failure == "CUPTI: range profiler: CUPTI_ERROR_PLAYED (26)");
  CHECK(
      count("unseen").failure ==
      "net_b1 (9 kernels): 0 of 2 ranges have values from CUPTI, expected all; another profiler is "
      "at work, or CUPTI does not see this kind of operation");
}

TEST_CASE("a GPU without a pipe has other counters, and one without L2's has none") {
  const std::size_t all = cuda::counters_of_kernels().size();
  const counted whole = count("");
  CHECK(whole.failure == "");
  CHECK(whole.read.missing.empty());
  CHECK(whole.read.values == std::vector{std::vector<double>(all, 0), std::vector<double>(all, 1)});
  const counted fewer = count("without pipe_fp64");
  CHECK(fewer.read.missing ==
        std::vector<std::string>{"sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active"});
  REQUIRE(fewer.read.values.size() == 2);
  double sum = 0;
  for (const double value : fewer.read.values[1]) sum += value;
  CHECK(sum == static_cast<double>(all - 1));
  CHECK(count("without pipe_fp16").read.missing.empty()); // another name stands for it
  CHECK(count("without sm__inst_executed_pipe").read.missing.size() == 6);
  const counted none = count("without lts__throughput");
  CHECK(none.code == errc::no_device);
  CHECK(none.failure ==
        "counters: GX100 has no lts__throughput.avg.pct_of_peak_sustained_elapsed, expected a GPU "
        "and a CUPTI that have it");
}

#endif

TEST_CASE("counters of a kernel: none that is negative or no number, and some instructions") {
  const std::vector<cuda::counter_name> names = cuda::counters_of_kernels();
  const auto at = [&](const std::string& name) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i].names.front() == name) return i;
    FAIL("no counter " << name);
    return std::size_t{0};
  };
  const std::string where = cuda::operation_text("net_b1", 3, "gemm");
  const auto failure = [&](const std::vector<double>& range, const std::vector<double>& empty) {
    try {
      static_cast<void>(cuda::counters_of(range, empty, 10, where));
    } catch (const error& e) {
      CHECK(e.code() == errc::device_failed);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const std::vector<double> empty(names.size(), 0);
  const std::vector<double> sound(names.size(), 1);
  CHECK(failure(sound, empty) == "accepted");
  std::vector<double> values = sound;
  values[at("dram__bytes.sum")] = -4;
  CHECK(failure(values, empty) ==
        "net_b1: operation 3 (gemm): dram__bytes.sum is -4.000000, expected 0 or more");
  values[at("dram__bytes.sum")] = std::numeric_limits<double>::quiet_NaN();
  CHECK(failure(values, empty).ends_with("nan, expected 0 or more"));
  values = sound;
  values[at("sm__inst_issued.avg.per_cycle_active")] = 0;
  CHECK(failure(values, empty) ==
        "net_b1: operation 3 (gemm): the profiler saw no instruction, expected some; another "
        "profiler is at work, or CUPTI does not see this kind of operation");

  values = sound;
  values[at("gpu__time_duration.sum")] = 12'000; // of which 2 us are of the range
  values[at("dram__bytes.sum")] = 500;
  values[at("sm__warps_active.avg.pct_of_peak_sustained_active")] = 100.3;
  values[at("lts__throughput.avg.pct_of_peak_sustained_elapsed")] = 50;
  std::vector<double> beside = empty;
  beside[at("gpu__time_duration.sum")] = 2'000;
  beside[at("dram__bytes.sum")] = 100;
  beside[at("lts__throughput.avg.pct_of_peak_sustained_elapsed")] = 50;
  const kernel_counters k = cuda::counters_of(values, beside, 10, where);
  CHECK(k.us == 10);
  CHECK(k.dram_bytes == 400);
  CHECK(k.warps_active == 1);
  CHECK(k.l2 == doctest::Approx((0.5 * 12 - 0.5 * 2) / 10));
  CHECK(k.pipes.fp64 == doctest::Approx(0.01));
  CHECK(k.waits.load_cycles == 1);
  CHECK(k.waits.executing == doctest::Approx(0.02)); // of two counters
  // A kernel without loads has no mean latency.
  values[at("sm__average_inst_latency_pipe_lsu_mem_lg_cmd_read.ratio")] =
      std::numeric_limits<double>::quiet_NaN();
  CHECK(cuda::counters_of(values, beside, 10, where).waits.load_cycles == 0);
}

TEST_CASE("counters of several rounds: the median of each, and how far the rounds differ") {
  kernel_counters usual;
  usual.us = 10;
  usual.ipc = 2;
  usual.dram_bytes = 1000;
  usual.pipes.fma = 0.5;
  usual.waits.instructions = 0.25;
  kernel_counters off = usual; // the others are as in `usual`
  off.ipc = 1;
  off.waits.instructions = 0.9375;
  kernel_counters other = usual;
  other.dram_bytes = 5000;
  other.pipes.fma = 0.375;
  const cuda::counted_rounds three = cuda::over_rounds(std::vector{off, usual, other});
  CHECK(three.median == usual);
  kernel_counters spread;
  spread.ipc = 1;
  spread.dram_bytes = 4000;
  spread.pipes.fma = 0.125;
  spread.waits.instructions = 0.6875;
  CHECK(three.spread == spread);
  CHECK(three.widest == 0.6875);
  CHECK(std::string(three.widest_of) ==
        "smsp__warp_issue_stalled_no_instruction_per_warp_active.pct");
  const cuda::counted_rounds one = cuda::over_rounds(std::vector{off});
  CHECK(one.median == off);
  CHECK(one.spread == kernel_counters{});
  CHECK(one.widest == 0);
}

} // namespace
} // namespace gsched::testing
