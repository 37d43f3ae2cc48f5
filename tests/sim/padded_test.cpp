// SPDX-License-Identifier: Apache-2.0
#include <gsched/sim/padded.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using namespace gsched;
using sim::padded_kernels;
using sim::padded_times;
using sim::padded_work;

namespace {

/// Half the time on twice the SMs; or the same time.
padded_work kernel(std::uint32_t blocks, double us, bool bandwidth, std::uint32_t part = 0) {
  padded_work w;
  operation& op = w.kernel;
  op.launch.grid.x = blocks;
  op.launch.block.x = 256;
  op.launch.registers_per_thread = bandwidth ? 32 : 128;
  op.launch.dynamic_shared_bytes = bandwidth ? 0 : 32768;
  op.expected = from_us(us);
  for (const std::uint32_t sms : {33u, 66u})
    op.by_sms.push_back({sm_count{sms}, bandwidth ? op.expected : from_us(us * 132 / sms)});
  w.blocks = part != 0 ? part : blocks;
  return w;
}

} // namespace

TEST_CASE("padded: alone, a kernel takes what it was measured to take") {
  padded_kernels model(sim::h200());
  for (const bool bandwidth : {false, true})
    for (const std::uint32_t blocks : {1u, 100u, 132u, 264u, 5000u}) {
      const padded_work k = kernel(blocks, 100, bandwidth);
      const padded_times t = model.predict(k, {}, 16);
      CHECK(to_us(t.alone) == doctest::Approx(98.6).epsilon(0.001)); // as in a graph
      CHECK(t.together == t.one_by_one);
      CHECK(t.real_time == t.together);
      CHECK(to_us(t.together) == doctest::Approx(to_us(t.alone)).epsilon(0.001));
    }
}

TEST_CASE(
    "padded: compute and bandwidth bound kernels gain, and take between the longer and both") {
  padded_kernels model(sim::h200());
  for (const std::uint32_t blocks : {66u, 100u, 132u})
    for (const double us : {20.0, 50.0, 100.0}) {
      const padded_work gemm = kernel(blocks, 100, false);
      const padded_work copy = kernel(132, us, true);
      for (const bool swapped : {false, true}) {
        const padded_work& rt = swapped ? copy : gemm;
        const padded_work& be = swapped ? gemm : copy;
        const padded_times t = model.predict(rt, {&be, 1}, 2);
        const duration other = model.predict(be, {}, 2).alone;
        CHECK(t.together >= std::max(t.alone, other));
        CHECK(t.together < t.alone + other);
        CHECK(t.real_time >= t.alone);
        CHECK(t.real_time <= t.together);
        CHECK(t.slowdown() >= 1);
        CHECK(t.speed_up() > 1.05);
      }
    }
}

TEST_CASE("padded: two kernels that wait for the same memory gain less than two that do not") {
  padded_kernels model(sim::h200());
  const padded_work gemm = kernel(132, 100, false), copy = kernel(132, 100, true);
  const double mixed = model.predict(gemm, {&copy, 1}, 2).speed_up();
  const double same = model.predict(copy, {&copy, 1}, 2).speed_up();
  CHECK(mixed > same + 0.05);

  padded_work light = copy; // measured otherwise
  light.takes.emplace().of(resource::dram) = 0.1;
  CHECK(model.predict(light, {&light, 1}, 2).speed_up() > same + 0.05);
}

TEST_CASE("padded: a part of a kernel takes its part of the time") {
  padded_kernels model(sim::h200());
  const padded_work host = kernel(64, 40, false);
  duration last{};
  for (const std::uint32_t blocks : {50u, 200u, 800u, 3200u}) {
    const padded_work part = kernel(3200, 200, false, blocks);
    const padded_times t = model.predict(host, {&part, 1}, 1);
    CHECK(t.together >= last);
    last = t.together;
  }
  // Blocks that fit beside it end before it does; additional ones do not.
  const padded_work few = kernel(3200, 200, false, 132 - 64);
  CHECK(model.predict(host, {&few, 1}, 1).slowdown() < 1.05);
  const padded_work many = kernel(3200, 200, false, 1000);
  CHECK(model.predict(host, {&many, 1}, 1).slowdown() > 1.5);
}

TEST_CASE("padded: the same kernels give the same times, whatever was asked before") {
  padded_kernels model(sim::h200());
  std::mt19937_64 random(5);
  std::vector<padded_work> parts;
  for (int i = 0; i < 4; ++i)
    parts.push_back(kernel(1 + static_cast<std::uint32_t>(random() % 400), 5 + i, i % 2 == 0));
  const padded_times a = model.predict(parts[0], std::span(parts).subspan(1), 2);
  static_cast<void>(model.predict(parts[1], {&parts[2], 1}, 3));
  const padded_times b = model.predict(parts[0], std::span(parts).subspan(1), 2);
  CHECK(a.together == b.together);
  CHECK(a.real_time == b.real_time);
  CHECK(a.one_by_one == b.one_by_one);
}

TEST_CASE("padded: a plan is the sum of its kernels") {
  padded_kernels model(sim::h200());
  const std::array<padded_work, 2> hosts{kernel(100, 50, false), kernel(132, 20, true)};
  const padded_work corunner = kernel(64, 10, true);
  const std::array<pad_part, 2> plan{{{0, 0, 0, 0, 0, 32, 2}, {1, 0, 0, 0, 32, 32, 2}}};
  const auto host = [&](std::size_t i) { return hosts[i % 2]; };
  const auto part = [&](const pad_part& p) {
    padded_work w = corunner;
    w.blocks = p.blocks;
    return w;
  };
  const padded_times t = model.predict(plan, 0, 3, host, part);
  padded_work half = corunner;
  half.blocks = 32;
  padded_times sum = model.predict(hosts[0], {&half, 1}, 2);
  sum += model.predict(hosts[1], {&half, 1}, 2);
  sum += model.predict(hosts[0], {}, 2);
  CHECK(t.together == sum.together);
  CHECK(t.one_by_one == sum.one_by_one);
  CHECK(t.speed_up() > 1);
}

TEST_CASE("padded: facts of a variant are an operation") {
  const kernel_variant k{from_us(10), from_us(5), 64, 1024, 128, 300, 7, 0};
  const operation op = sim::operation_of(k);
  CHECK(op.launch.blocks() == 300);
  CHECK(op.launch.threads_per_block() == 128);
  CHECK(op.launch.registers_per_thread == 64);
  CHECK(op.launch.dynamic_shared_bytes == 1024);
  CHECK(op.max_blocks_per_sm == 7);
  CHECK(op.expected == from_us(10));
}

TEST_CASE("padded: what cannot be run is refused in one line") {
  padded_kernels model(sim::h200());
  const padded_work k = kernel(100, 10, false);
  padded_work none = k, large = k;
  none.blocks = 0;
  large.kernel.launch.dynamic_shared_bytes = 300 * 1024;
  const auto predict = [&](const padded_work& a, const padded_work& b, std::uint32_t level) {
    static_cast<void>(model.predict(a, {&b, 1}, level));
  };
  CHECK_THROWS_WITH_AS(predict(k, none, 1), "padded kernel: a part of 0 blocks, expected 1 or more",
                       error);
  CHECK_THROWS_WITH_AS(predict(k, k, 0), "padded kernel: level 0, expected 1 or more", error);
  for (const auto& [a, b] : {std::pair{large, k}, std::pair{k, large}})
    CHECK_THROWS_WITH_AS(predict(a, b, 1),
                         "padded kernel: 307200 bytes of shared memory a block, expected at most "
                         "232448",
                         error);
  padded_work copy = k;
  copy.kernel.kind = operation_kind::memcpy;
  for (const auto& [a, b] : {std::pair{copy, k}, std::pair{k, copy}})
    CHECK_THROWS_WITH_AS(predict(a, b, 1),
                         "padded kernel: a part that is no kernel, expected kernels", error);
  CHECK(model.predict(copy, {}, 1).slowdown() == 1);
  CHECK_NOTHROW(predict(k, k, 1));
}
