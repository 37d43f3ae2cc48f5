// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"
#include "interference/suites.hpp"
#include "measure/gpu_works.hpp"
#include "measure/probe_list.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/other_work.hpp>
#include <gsched/cuda_tools/partition_sms.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/occupancy/beside.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gsched {
namespace {

constexpr std::uint64_t l2_bytes = 60 << 20;

TEST_CASE("starting probes does not slow graphs of small kernels for good") {
  GSCHED_NEEDS_GPU();
  operation small;
  small.launch.grid = {1, 1, 1};
  small.launch.block = {32, 1, 1};
  small.launch.registers_per_thread = 32;
  small.expected = from_us(1);
  const cuda::program chain = cuda::make_stand_in(program("small", std::vector(300, small)));
  const CUgraph graph = chain.make_range(0, chain.host().size(), {});
  cuda::beside_options o;
  o.turns = 4;
  o.turn_ms = 4;
  std::vector<double> alone;
  // Each time on other streams, with more than 16 starts in all. A probe on all SMs, as the driver
  // makes no kernel of the smallest sets.
  for (int i = 0; i < 8; ++i) {
    const cuda::beside_result r = cuda::measure_beside(graph, {}, {}, o);
    CHECK(r.probe_rate_alone > 0);
    CHECK(r.last.stopped);
    CHECK(r.last.sms == r.probe_sms.count());
    alone.push_back(r.alone.median);
  }
  static_cast<void>(cudaGraphDestroy(graph));
  MESSAGE("at first " << alone.front() << " us, at last " << alone.back());
  CHECK(alone.back() < 1.05 * alone.front());
}

TEST_CASE("a probe covers a graph that is longer than its limit") {
  GSCHED_NEEDS_GPU();
  operation one;
  one.launch.grid = {1, 1, 1};
  one.launch.block = {32, 1, 1};
  one.launch.registers_per_thread = 32;
  one.expected = from_us(30'000);
  const cuda::program longer = cuda::make_stand_in(program("longer", {one}));
  const CUgraph graph = longer.make_range(0, 1, {});
  cuda::beside_options o;
  o.turns = 1;
  o.limit_s = 0.02;
  int steps = 0;
  o.progressed = [&] { ++steps; };
  const cuda::beside_result r = cuda::measure_beside(graph, {}, {}, o);
  static_cast<void>(cudaGraphDestroy(graph));
  CHECK(!r.held_up);
  CHECK(r.last.stopped);
  CHECK(r.probe_rate_alone > 0);
  CHECK(steps >= 4); // two that warm up, and two or more that count, alone and beside
}

std::string name_of(const std::string& text) {
  try {
    return cuda::parse_probe(text).name();
  } catch (const error& e) {
    return e.what();
  }
}

TEST_CASE("probes of options") {
  CHECK(name_of("fp32") == "probe_fp32_4");
  CHECK(name_of("copy:4096:34") == "probe_copy_4096_blocks34");
  CHECK(name_of("copy::34:256") == "probe_copy_4096_blocks34_threads256");
  CHECK(name_of("copy:8::256") == "probe_copy_8_threads256");
  CHECK(name_of("copy:") == "probe_copy_4096");
  CHECK(cuda::parse_probe("copy:0:0:0").level == 0);
  CHECK(name_of("fft").starts_with("probe \"fft\", expected one of sleep, copy, read, "));
  CHECK(name_of("").starts_with("probe \"\", expected one of sleep, "));
  CHECK(name_of("fp32:5") == "probe fp32: level 5, expected 1 to 4 (independent chains)");
  CHECK(name_of("sleep:1:2:100") ==
        "probe sleep: 100 threads, expected a multiple of 32 up to 1024");
  for (const char* text : {"fp32:x", "fp32:-1", "fp32:1:2x", "fp32:+1", "fp32:99999999999"})
    CHECK(name_of(text) == "probe \"" + std::string(text) + "\", expected " + cuda::probe_form +
                               ", in whole numbers");
  CHECK(name_of("sleep:registers=128") == "probe_sleep_1_registers128");
  CHECK(name_of("sleep:1:66:256:registers=255:shared=1024") ==
        "probe_sleep_1_blocks66_threads256_registers255_shared1024");
  CHECK(name_of("fp32::33:shared=65536") == "probe_fp32_4_blocks33_shared65536");
  for (const char* text : {"sleep:registers=", "sleep:registers=x", "sleep:shared=1k"})
    CHECK(name_of(text) == "probe \"" + std::string(text) + "\", expected " + cuda::probe_form +
                               ", in whole numbers");
  for (const char* text : {"fp32:1:2:32:4", "fp32:1:2:32:", "sleep:registers=32:1",
                           "sleep:registers=32:", "sleep:registers=32:registers=64"})
    CHECK(name_of(text) == "probe \"" + std::string(text) + "\", expected " + cuda::probe_form);
  CHECK(name_of("fp32:1:1000001") == "probe \"fp32:1:1000001\", expected at most 1000000 blocks");
}

TEST_CASE("bank conflicts are of 1 to 32 ways, by powers of two") {
  for (const char* ways : {"1", "2", "4", "8", "16", "32"})
    CHECK(name_of("shared:" + std::string(ways)) == "probe_shared_" + std::string(ways));
  for (const char* ways : {"3", "12", "31"})
    CHECK(name_of("shared:" + std::string(ways)) ==
          "probe shared: level " + std::string(ways) +
              ", expected 1, 2, 4, 8, 16 or 32 (ways of the conflicts)");
}

TEST_CASE("a probe has only what its kind has") {
  CHECK(name_of("fp32:registers=128") == "probe fp32: 128 registers, expected those as compiled; "
                                         "sleep alone has others");
  for (const char* count : {"15", "200", "256"})
    CHECK(name_of("sleep:registers=" + std::string(count)) ==
          "probe sleep: " + std::string(count) +
              " registers, expected 16, 24, 32, 64, 96, 128, 192 or 255");
  for (const char* text :
       {"upload:16:34", "upload:16::64", "download:shared=1024", "upload:registers=32"})
    CHECK(
        name_of(text).ends_with(": with blocks, threads, registers or shared memory, expected none "
                                "of them, as it is no kernel"));

  GSCHED_NEEDS_GPU();
  for (const std::uint32_t registers : {16u, 24u, 32u, 64u, 96u, 128u, 192u, 255u}) {
    const cuda::probe p({.kind = cuda::probe_kind::sleep, .registers = registers}, sm_count{1});
    CAPTURE(registers);
    CHECK((p.launch().registers_per_thread + 7) / 8 == (registers + 7) / 8);
    CHECK(p.launch().registers_per_thread <= registers);
  }
  const cuda::probe usual({.kind = cuda::probe_kind::sleep}, sm_count{1});
  CHECK(usual.launch().registers_per_thread < 32);
}

TEST_CASE("an experiment of many turns is no hang") {
  ::interference::run_options o;
  const double few = ::interference::hangs_after(o);
  CHECK(few > 40);
  CHECK(few < 60);
  o.turns = 1000;
  o.turn_ms = 1e4;
  CHECK(::interference::hangs_after(o) > 2.25 * 1000 * 10); // alone, beside, and the probe alone
}

TEST_CASE("a probe's blocks are on as many SMs as there are") {
  const auto sms = [](const char* text) {
    return cuda::sms_of_blocks(cuda::parse_probe(text), sm_count{68});
  };
  CHECK(sms("copy") == 68);
  CHECK(sms("copy::34") == 34);
  CHECK(sms("copy::136") == 68);
  CHECK(sms("upload") == 0);
  const auto line = [](const char* text, std::uint32_t seen) {
    try {
      cuda::check_sms(cuda::parse_probe(text), sm_count{68}, {.sms = seen});
    } catch (const error& e) {
      CHECK(e.code() == errc::device_failed);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(line("copy::34", 34) == "accepted");
  CHECK(line("copy::34", 30) == "probe_copy_4096_blocks34: on 30 SMs, expected its blocks on 34");
  CHECK(line("copy", 132) == "probe_copy_4096: on 132 SMs, expected its blocks on 68");
  CHECK(line("upload", 0) == "accepted");

  GSCHED_NEEDS_GPU();
  operation small;
  small.launch.grid = {1, 1, 1};
  small.launch.block = {32, 1, 1};
  small.launch.registers_per_thread = 32;
  small.expected = from_us(20);
  const cuda::program one = cuda::make_stand_in(program("small", {small}));
  const CUgraph graph = one.make_range(0, 1, {});
  cuda::beside_options o;
  o.turns = 2;
  o.turn_ms = 2;
  const std::uint32_t half = cuda::find_gpu(0).sms.count() / 2;
  const bool parts = cuda::group_sizes(0).size() > 1;
  for (const char* kind : {"sleep:1", "copy:64", "fp32:1"})
    for (const std::uint32_t blocks : {0u, 1u, half / 4, half, 2 * half, 3 * half})
      for (const bool shared : {true, false}) {
        if (!shared && !parts) continue;
        const cuda::probe_options p =
            cuda::parse_probe(std::string(kind) + ":" + std::to_string(blocks));
        CAPTURE(p.name());
        CAPTURE(shared);
        const cuda::probe_split split{shared ? sm_count{} : sm_count{half}, {}};
        const cuda::beside_result r = cuda::measure_beside(graph, p, split, o);
        CHECK(r.last.sms == cuda::sms_of_blocks(p, r.probe_sms));
        CHECK((r.probe_sms.count() == cuda::find_gpu(0).sms.count()) == shared);
      }
  static_cast<void>(cudaGraphDestroy(graph));
}

TEST_CASE("SMs of two partitions are apart, by their numbers") {
  using numbers = std::vector<std::uint32_t>;
  const auto line = [](const numbers& one, const numbers& other) {
    try {
      cuda::check_apart("graph beside x", one, other);
    } catch (const error& e) {
      CHECK(e.code() == errc::device_failed);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(line({0, 2, 4}, {1, 3, 5}) == "accepted");
  CHECK(line({}, {1}) == "accepted");
  CHECK(line({0, 2, 4}, {1, 2, 3}) ==
        "graph beside x: both ran on 1 SMs (2), expected SMs of their own");
  numbers all(132);
  std::iota(all.begin(), all.end(), 0u);
  CHECK(line(all, all) == "graph beside x: both ran on 132 SMs (0, 1, 2, 3, 4, 5, 6, 7, ...), "
                          "expected SMs of their own");

  GSCHED_NEEDS_GPU();
  const std::vector<std::uint32_t> sizes = cuda::group_sizes(0);
  std::set<std::uint32_t> seen;
  for (std::uint32_t g = 0; g < sizes.size(); ++g) {
    const std::vector<std::uint32_t> one{g};
    const cuda::partition part(0, one);
    const numbers found = cuda::sm_numbers(part);
    CHECK(found.size() == sizes[g]);
    CHECK(std::is_sorted(found.begin(), found.end()));
    seen.insert(found.begin(), found.end());
  }
  CHECK(seen.size() == std::accumulate(sizes.begin(), sizes.end(), 0u));
}

TEST_CASE("measure: probes by kind, by name, and each once") {
  using kind = cuda::probe_kind;
  const auto all = measure::probe_list(sm_count{132}, l2_bytes);
  const auto names = [&](const measure::probe_choice& choice) {
    std::string joined;
    for (const cuda::probe_options& p : measure::chosen(all, choice))
      joined += (joined.empty() ? "" : " ") + p.name();
    return joined;
  };
  CHECK(measure::chosen(all, {}).size() == all.size());
  // The slow copy beside which l2_loss shows is a usual probe.
  CHECK(names({{kind::copy}, {}}).find("probe_copy_4096_blocks4 ") != std::string::npos);
  CHECK(names({{kind::fp64}, {}}) == "probe_fp64_4 probe_fp64_1 probe_fp64_2 probe_fp64_3");
  const cuda::probe_options copy{.kind = kind::copy, .level = 4096, .blocks = 34};
  CHECK(names({{}, {copy}}) == "probe_copy_4096_blocks34");
  const cuda::probe_options usual{.kind = kind::sfu, .level = 4};
  CHECK(names({{kind::sfu}, {copy, usual}}) == "probe_sfu_4 probe_copy_4096_blocks34");
  CHECK(names({{}, {usual, usual}}) == "probe_sfu_4");
  CHECK(measure::chosen(all, {{kind::sfu}, {usual}})[0].level == 0); // also measured like a graph
  CHECK_FALSE(measure::probe_choice{{kind::sfu}, {}}.has(kind::copy));
  CHECK_FALSE(measure::probe_choice{{}, {copy}}.has(kind::copy));
}

TEST_CASE("measure: probes that are to stay in L2 fit there on any GPU") {
  using kind = cuda::probe_kind;
  for (const std::uint64_t mib : {4u, 6u, 24u, 40u, 50u, 60u, 126u}) {
    CAPTURE(mib);
    std::size_t copies = 0;
    std::set<kind> usual;
    for (const cuda::probe_options& p : measure::probe_list(sm_count{40}, mib << 20)) {
      if (measure::is_usual(p, mib << 20)) usual.insert(p.kind);
      const std::uint64_t level = p.level > 0 ? p.level : 16;
      if (p.kind == kind::read || p.kind == kind::chase) CHECK(2 * level <= mib);
      if (p.kind == kind::copy && p.threads == 256) CHECK(2 * p.level <= mib * ++copies / 2);
    }
    CHECK(copies == 2);
    CHECK(usual.size() == cuda::probe_kinds().size());
  }
  const auto read = [](std::uint64_t l2) {
    const auto all = measure::probe_list(sm_count{132}, l2);
    return std::find_if(all.begin(), all.end(), [](const auto& p) { return p.kind == kind::read; })
        ->name();
  };
  CHECK(read(l2_bytes) == "probe_read_16");
  CHECK(read(6 << 20) == "probe_read_1");
}

TEST_CASE("SMs of a split are rounded up to whole groups") {
  const std::vector<std::uint32_t> groups{8, 8, 8, 12};
  CHECK(cuda::groups_for(sm_count{0}, groups) == 0);
  CHECK(cuda::groups_for(sm_count{1}, groups) == 1);
  CHECK(cuda::groups_for(sm_count{8}, groups) == 1);
  CHECK(cuda::groups_for(sm_count{9}, groups) == 2);
  CHECK(cuda::groups_for(sm_count{24}, groups) == 3);
  CHECK(cuda::groups_for(sm_count{25}, groups) == 4);
  CHECK(cuda::groups_for(sm_count{1000}, groups) == 4);
}

TEST_CASE("measure: sleeping probes take each of an SM's resources") {
  for (const auto& [major, minor] : {std::pair(7, 5), {8, 0}, {8, 6}, {9, 0}, {10, 0}}) {
    CAPTURE(major * 10 + minor);
    const architecture_limits sm =
        limits_for(static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(minor));
    constexpr std::uint32_t sms = 40;
    std::set<std::string> lacking, names;
    for (const cuda::probe_options& p : measure::waiting_probes(sm_count{sms}, sm)) {
      CAPTURE(p.name());
      CHECK(names.insert(p.name()).second);
      cuda::check_probe(p);
      launch_shape resident;
      resident.grid = {p.blocks > 0 ? p.blocks : sms, 1, 1};
      resident.block = {p.threads > 0 ? p.threads : 128, 1, 1};
      resident.registers_per_thread = p.registers > 0 ? p.registers : 16;
      resident.dynamic_shared_bytes = p.shared_bytes;
      const auto on_each = static_cast<std::uint32_t>(resident.blocks() / sms);
      CHECK(max_blocks_per_sm(sm, resident) >= on_each);
      launch_shape large; // takes much of everything
      large.grid = {sms, 1, 1};
      large.block = {256, 1, 1};
      large.registers_per_thread = 200;
      large.dynamic_shared_bytes = sm.max_shared_per_block * 3 / 4;
      const occupancy_by_resource left = occupancy_beside(sm, resident, on_each, large);
      if (left.registers == 0) lacking.insert("registers");
      if (left.shared == 0) lacking.insert("shared");
      if (left.warps == 0) lacking.insert("warps");
      if (left.slots == 0) lacking.insert("slots");
    }
    CHECK(lacking == std::set<std::string>{"registers", "shared", "slots", "warps"});
  }
}

TEST_CASE("other work on the GPU is found in times of a graph") {
  GSCHED_NEEDS_GPU();
  const cuda::gpu on = cuda::find_gpu(0);
  CHECK(cuda::find_other_work(on) == "");
  cuda::probe other({.kind = cuda::probe_kind::fp32, .threads = 1024}, on.sms);
  cudaStream_t its = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&its, cudaStreamNonBlocking) == cudaSuccess);
  std::atomic<bool> done{false};
  std::thread busy([&] { // now and then
    REQUIRE(cudaSetDevice(on.ordinal) == cudaSuccess);
    while (!done) {
      other.start(its, 3e3);
      other.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds{3});
    }
  });
  const std::string line = cuda::find_other_work(on);
  done = true;
  busy.join();
  REQUIRE(cudaStreamDestroy(its) == cudaSuccess);
  CHECK(line.find("is the GPU in use?") != std::string::npos);
}

TEST_CASE("measure: counters are read of all usual probes but copies with the host") {
  using kind = cuda::probe_kind;
  const auto all = measure::probe_list(sm_count{132}, l2_bytes);
  const auto counted = measure::with_kernels(all);
  const auto has = [](const auto& probes, kind k) {
    return std::any_of(probes.begin(), probes.end(), [&](const auto& p) { return p.kind == k; });
  };
  for (const cuda::probe_description& d : cuda::probe_kinds()) {
    CAPTURE(d.name);
    CHECK(has(all, d.kind));
    CHECK(has(counted, d.kind) == (d.kind != kind::upload && d.kind != kind::download));
  }
  CHECK(all.size() == counted.size() + 2);
}

/// What is wrong with a probe; the GPU works on.
std::string refusal(const cuda::probe_options& o) {
  try {
    static_cast<void>(cuda::probe(o, sm_count{1}));
  } catch (const error& e) {
    CHECK(e.code() == errc::too_small);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    return e.what();
  }
  return "accepted";
}

TEST_CASE("a probe that fits on no SM is refused in one line") {
  GSCHED_NEEDS_GPU();
  const cuda::probe_options registers{
      .kind = cuda::probe_kind::sleep, .threads = 1024, .registers = 255};
  std::string line = refusal(registers);
  CHECK(line.starts_with("probe_sleep_1_threads1024_registers255: a block of 1024 threads, 25"));
  CHECK(line.ends_with(
      " registers and 0 bytes of shared memory fits on no SM, expected one that fits"));
  cuda::probe_options shared{.kind = cuda::probe_kind::sleep, .shared_bytes = 300 * 1024};
  line = refusal(shared);
  CHECK(line.starts_with("probe_sleep_1_shared307200: a block of 128 threads, "));
  CHECK(line.ends_with(
      " registers and 307200 bytes of shared memory fits on no SM, expected one that fits"));
  shared.shared_bytes = ~std::uint32_t{0}; // with that of the kind, beyond 32 bits
  shared.kind = cuda::probe_kind::shared;
  CHECK(refusal(shared).ends_with(" bytes of shared memory fits on no SM, expected one that fits"));

  int gpu = 0;
  int most = 0;
  REQUIRE(cudaGetDevice(&gpu) == cudaSuccess);
  REQUIRE(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) ==
          cudaSuccess);
  cuda::probe_options all{.kind = cuda::probe_kind::sleep};
  all.shared_bytes = static_cast<std::uint32_t>(most);
  CHECK(refusal(all) == "accepted");
  all.shared_bytes += 1024;
  CHECK(refusal(all).ends_with(" bytes of shared memory fits on no SM, expected one that fits"));
}

TEST_CASE("what a step of measure asks for in vain leaves no error behind") {
  GSCHED_NEEDS_GPU();
  void* none = nullptr;
  CHECK(cudaMalloc(&none, std::size_t{1} << 50) == cudaErrorMemoryAllocation);
  CHECK(cudaPeekAtLastError() != cudaSuccess);
  CHECK(measure::gpu_works());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

} // namespace
} // namespace gsched
