// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/profiling.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/io/profile_json.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace gsched {
namespace {

struct graph_destroyer {
  void operator()(CUgraph g) const noexcept { static_cast<void>(cudaGraphDestroy(g)); }
};
using owned_graph = std::unique_ptr<std::remove_pointer_t<CUgraph>, graph_destroyer>;

/// A kernel of which an SM holds one block.
operation wide_kernel(std::uint32_t blocks, double us) {
  operation op;
  op.launch.grid.x = blocks;
  op.launch.block.x = 1024;
  op.launch.registers_per_thread = 64;
  op.expected = from_us(us);
  return op;
}

operation set_of(std::uint64_t bytes) {
  operation op;
  op.kind = operation_kind::memset;
  op.bytes = byte_count{bytes};
  op.expected = from_us(2);
  return op;
}

/// With CUPTI, or without it if it is not installed.
profile profiled(const cuda::program& p, cuda::profiling_options how) {
  const owned_graph whole(p.make_range(0, p.host().size(), {}));
  try {
    return cuda::profile_graph(whole.get(), how);
  } catch (const error& e) {
    if (e.code() != errc::no_device) throw;
    MESSAGE(std::string(e.what()) << ": measured without it");
    how.cupti = false;
    return cuda::profile_graph(whole.get(), how);
  }
}

TEST_CASE("a profile has the operations of a graph and their times alone") {
  GSCHED_NEEDS_GPU();
  const std::uint32_t sms = cuda::find_gpu(0).sms.count();
  const std::vector<operation> work{wide_kernel(sms, 20), set_of(1 << 20),
                                    wide_kernel(2 * sms, 100), wide_kernel(1, 50)};
  const cuda::program graph = cuda::make_stand_in(gsched::program("made", work));
  cuda::profiling_options how;
  how.model = "made";
  how.batch = 3;
  how.partitions = {sm_count{16}};
  const profile p = profiled(graph, how);

  CHECK(p.full_name() == "made_b3");
  CHECK(p.sms.count() == sms);
  REQUIRE(p.operations.size() == work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    const profile_operation& op = p.operations[i];
    CAPTURE(i);
    CHECK(op.after == (i == 0 ? std::vector<std::uint32_t>{}
                              : std::vector<std::uint32_t>{static_cast<std::uint32_t>(i) - 1}));
    CHECK(op.work.kind == operation_kind::kernel);
    CHECK(op.work.handle == nullptr);
    if (work[i].kind == operation_kind::memset) { // what runs is a kernel of the library
      CHECK(op.name.find("set_memory") != std::string::npos);
      continue;
    }
    CHECK(op.work.launch.grid == work[i].launch.grid);
    CHECK(op.name.find("stand_in") != std::string::npos);
    CHECK(to_us(op.work.expected) > 0.85 * to_us(work[i].expected));
    CHECK(to_us(op.work.expected) < 1.15 * to_us(work[i].expected));
  }
  REQUIRE(p.graph_replay.has_value());
  CHECK(to_us(*p.graph_replay) > 150);
  CHECK(to_us(*p.graph_replay) < 200);

  if (p.durations_measured && sms > 32) {
    // A kernel of one block keeps its time; one that fills the GPU takes proportionally more waves.
    const auto& filled = p.operations[0].work.by_sms;
    const auto& lonely = p.operations[3].work.by_sms;
    REQUIRE(filled.size() == 1);
    REQUIRE(lonely.size() == 1);
    const double waves = static_cast<double>(sms) / filled[0].sms.count();
    CHECK(to_us(filled[0].time) > 0.8 * waves * 20);
    CHECK(to_us(lonely[0].time) < 1.15 * 50);
  }

  std::ostringstream text;
  write_profile(text, p);
  const profile back = parse_profile(text.str(), "written");
  CHECK(back.full_name() == p.full_name());
  CHECK(back.operations.size() == p.operations.size());
  CHECK(back.total() == p.total());
}

TEST_CASE("a profile can be made without CUPTI, and says so") {
  GSCHED_NEEDS_GPU();
  const cuda::program graph =
      cuda::make_stand_in(gsched::program("plain", {wide_kernel(8, 30), wide_kernel(8, 60)}));
  cuda::profiling_options how;
  how.model = "plain";
  how.cupti = false;
  const profile p = profiled(graph, how);
  CHECK(!p.durations_measured);
  REQUIRE(p.operations.size() == 2);
  CHECK(to_us(p.operations[0].work.expected) == doctest::Approx(30).epsilon(0.15));
  CHECK(to_us(p.operations[1].work.expected) == doctest::Approx(60).epsilon(0.15));
}

TEST_CASE("bad options of profiling are refused in one line") {
  GSCHED_NEEDS_GPU();
  const cuda::program made = cuda::make_stand_in(gsched::program("one", {wide_kernel(8, 30)}));
  const owned_graph graph(made.make_range(0, 1, {}));
  const auto refused = [&](const cuda::profiling_options& how, errc code, const char* what) {
    try {
      static_cast<void>(cuda::profile_graph(graph.get(), how));
      FAIL("no error");
    } catch (const error& e) {
      CHECK(e.code() == code);
      const std::string line = e.what();
      CHECK(line.find(what) != std::string::npos);
      CHECK(line.find('\n') == std::string::npos);
    }
  };
  cuda::profiling_options how;
  how.replays = 0;
  refused(how, errc::bad_option, "replays: 0, expected 1 to 1000");
  how.replays = 5;
  how.partitions.assign(9, sm_count{8});
  refused(how, errc::bad_option, "partitions: 9, expected at most 8");
}

} // namespace
} // namespace gsched
