// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/stand_in.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace gsched {
namespace {

std::vector<std::filesystem::path> shipped_profiles() {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path where = GSCHED_SOURCE_DIR "/tools/data/profiles";
  for (const auto& f : std::filesystem::directory_iterator(where)) files.push_back(f.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// The time of the whole program as one graph on a busy GPU: minimum of five, in microseconds.
double replay_us(const cuda::program& p) {
  const CUgraph graph = p.make_range(0, p.host().size(), {});
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  std::vector<cudaEvent_t> marks(6);
  for (cudaEvent_t& m : marks) REQUIRE(cudaEventCreate(&m) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  for (const cudaEvent_t m : marks) {
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    REQUIRE(cudaEventRecord(m, stream) == cudaSuccess);
  }
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  float least = 1e9f;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    float ms = 0;
    REQUIRE(cudaEventElapsedTime(&ms, marks[i - 1], marks[i]) == cudaSuccess);
    least = std::min(least, ms);
  }
  for (const cudaEvent_t m : marks) static_cast<void>(cudaEventDestroy(m));
  static_cast<void>(cudaGraphExecDestroy(exec));
  static_cast<void>(cudaGraphDestroy(graph));
  static_cast<void>(cudaStreamDestroy(stream));
  return 1e3 * static_cast<double>(least);
}

operation kernel_of(std::uint32_t blocks, std::uint32_t threads, std::uint32_t registers,
                    double us) {
  operation op;
  op.launch.grid.x = blocks;
  op.launch.block.x = threads;
  op.launch.registers_per_thread = registers;
  op.expected = from_us(us);
  return op;
}

TEST_CASE("stand-ins of every shipped profile keep grid, block, shared memory, cluster and blocks "
          "an SM holds") {
  GSCHED_NEEDS_GPU();
  const cuda::gpu gpu = cuda::find_gpu(0);
  for (const auto& file : shipped_profiles()) {
    const profile p = load_profile(file);
    CAPTURE(file.filename().string());
    const cuda::program made = cuda::make_stand_in(p);
    REQUIRE(made.host().size() == p.operations.size());
    if (gpu.sm.major == 9) CHECK(cuda::count_mismatches(p, made) == 0);
    for (std::size_t i = 0; i < p.operations.size(); ++i) {
      const operation& want = p.operations[i].work;
      const operation& got = made.host().operations()[i];
      CAPTURE(i);
      CHECK(got.kind == want.kind);
      CHECK(got.expected == want.expected);
      if (want.kind != operation_kind::kernel) {
        CHECK(got.bytes == want.bytes);
        continue;
      }
      CHECK(got.launch.grid == want.launch.grid);
      CHECK(got.launch.block == want.launch.block);
      CHECK(got.launch.cluster_blocks == want.launch.cluster_blocks);
      // The profile counted these blocks on a GPU of compute capability 9.0.
      if (gpu.sm.major == 9) CHECK(got.max_blocks_per_sm == want.max_blocks_per_sm);
      CHECK(made.facts()[i].instrumented);
      CHECK(made.facts()[i].after == p.operations[i].after);
    }
  }
}

TEST_CASE("stand-ins have the registers of the original kernel, in allocation units") {
  GSCHED_NEEDS_GPU();
  std::vector<operation> operations;
  for (std::uint32_t r = 8; r <= 248; r += 8) operations.push_back(kernel_of(8, 128, r, 3));
  operations.push_back(kernel_of(8, 128, 255, 3));
  const gsched::program all("registers", operations);
  const cuda::program made = cuda::make_stand_in(all);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const std::uint32_t asked = std::max(operations[i].launch.registers_per_thread, 32u);
    const std::uint32_t got = made.host().operations()[i].launch.registers_per_thread;
    CAPTURE(asked);
    CHECK((got + 7) / 8 == (asked + 7) / 8);
  }
}

TEST_CASE("a chain of stand-ins replays in the profile's time") {
  GSCHED_NEEDS_GPU();
  for (const char* name : {"resnet18_b1", "resnet50_b8", "bert_base_b32", "vgg16_b32"}) {
    const profile p =
        load_profile(GSCHED_SOURCE_DIR "/tools/data/profiles/" + std::string(name) + ".json");
    const double want = to_us(p.graph_replay.value());
    const double got = replay_us(cuda::make_stand_in(p));
    MESSAGE(name << ": " << got << " us, profile " << want << " us");
    CHECK(got > 0.9 * want);
    CHECK(got < 1.1 * want);
  }
}

TEST_CASE("a stand-in's time is that of all its waves") {
  GSCHED_NEEDS_GPU();
  const std::uint32_t sms = cuda::find_gpu(0).sms.count();
  for (const std::uint32_t blocks : {1u, sms, 16 * sms, 16 * sms + 1, 160 * sms}) {
    const gsched::program one("waves", std::vector(8, kernel_of(blocks, 128, 32, 200)));
    const double got = replay_us(cuda::make_stand_in(one)) / 8;
    CAPTURE(blocks);
    CHECK(got > 190);
    CHECK(got < 210);
  }
}

TEST_CASE("stand-ins are preemptible as their operations say or as requested, with equal times") {
  GSCHED_NEEDS_GPU();
  const std::uint32_t sms = cuda::find_gpu(0).sms.count();
  std::vector<operation> operations;
  for (const preemptibility how :
       {preemptibility::never, preemptibility::between_blocks, preemptibility::at_checkpoints}) {
    operations.push_back(kernel_of(4 * sms, 256, 64, 100));
    operations.back().preemptible = how;
    operations.back().checkpoint =
        how == preemptibility::at_checkpoints ? from_us(3) : duration::zero();
  }
  const auto told = [](const cuda::program& p, std::size_t i) {
    return p.host().operations()[i].preemptible;
  };
  // A program is preemptible only as a whole, so each operation is a program.
  for (const operation& op : operations) {
    const gsched::program one("one", std::vector(8, op));
    const cuda::program made = cuda::make_stand_in(one);
    CHECK(told(made, 0) == op.preemptible);
    CHECK(made.host().operations()[0].checkpoint == op.checkpoint);
    CHECK(made.host().operations()[0].launch.registers_per_thread == 64);
    const double got = replay_us(made) / 8;
    CHECK(got > 95);
    CHECK(got < 105);
  }
  const gsched::program plain("plain", {operations[0]});
  const cuda::program asked =
      cuda::make_stand_in(plain, {.preemptible = preemptibility::at_checkpoints});
  CHECK(told(asked, 0) == preemptibility::at_checkpoints);
  CHECK(asked.host().operations()[0].checkpoint == from_us(1));
  const gsched::program leaves("leaves", {operations[2]});
  CHECK(told(cuda::make_stand_in(leaves, {.preemptible = preemptibility::never}), 0) ==
        preemptibility::never);
  if (cuda::find_gpu(0).sm.major < 9) return;
  operations[2].launch.cluster_blocks = 2;
  const gsched::program clusters("clusters", {operations[2]});
  CHECK(told(cuda::make_stand_in(clusters), 0) == preemptibility::never);
}

TEST_CASE("copies and sets of stand-ins use memory of their own") {
  GSCHED_NEEDS_GPU();
  std::vector<operation> operations;
  for (const std::uint64_t bytes : {0ull, 1ull, 4096ull, 8ull << 20})
    for (const copy_direction d : {copy_direction::host_to_device, copy_direction::device_to_host,
                                   copy_direction::device_to_device}) {
      operation op;
      op.kind = operation_kind::memcpy;
      op.direction = d;
      op.bytes = byte_count{bytes};
      op.expected = from_us(2);
      operations.push_back(op);
      op.kind = operation_kind::memset;
      operations.push_back(op);
    }
  const gsched::program all("copies", operations);
  CHECK(replay_us(cuda::make_stand_in(all)) > 0);
}

TEST_CASE("a kernel that no SM holds is named") {
  GSCHED_NEEDS_GPU();
  std::vector<operation> operations{kernel_of(8, 128, 32, 3), kernel_of(8, 512, 255, 3)};
  try {
    static_cast<void>(cuda::make_stand_in(gsched::program("big", operations)));
    FAIL("no error");
  } catch (const error& e) {
    CHECK(e.code() == errc::does_not_fit);
    const std::string line = e.what();
    CHECK(line.find("big: operation 1: a block of 512 threads, 255 registers") == 0);
    CHECK(line.find('\n') == std::string::npos);
  }
}

} // namespace
} // namespace gsched
