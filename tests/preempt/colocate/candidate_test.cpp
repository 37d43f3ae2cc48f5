// SPDX-License-Identifier: Apache-2.0
#include "preempt/colocate/random_variants.hpp"

#include <gsched/preempt/colocate/program.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace gsched;
using test::draw;

namespace {

kernel_variant sound() {
  kernel_variant k;
  k.kernel_time = from_us(10);
  k.block_time = from_us(5);
  k.threads_per_block = 256;
  k.registers_per_thread = 64;
  k.shared_bytes = 16384;
  k.blocks = 100;
  k.level = 4;
  return k;
}

} // namespace

TEST_CASE("a variant's level is what the occupancy calculator says of its launch") {
  const architecture_limits h = limits_for(9, 0);
  CHECK(level_of(h, sound()) == 4); // registers: 64 K / (64 * 256)
  CHECK(level_of(h, sound(), 512) == 2);
  CHECK(level_of(h, sound(), 128) == 4); // its own block is larger
  kernel_variant k = sound();
  k.shared_bytes = 100 * 1024;
  CHECK(level_of(h, k) == 2);
  k.shared_bytes = 228 * 1024;
  CHECK(level_of(h, k) == 0);
}

TEST_CASE("with one block size for all, a proxy has the least of its parts' levels") {
  std::mt19937_64 random(7);
  for (const auto& [major, minor] : {std::pair{7u, 0u}, {8u, 6u}, {9u, 0u}, {12u, 0u}}) {
    const architecture_limits l = limits_for(major, minor);
    for (int i = 0; i < 5000; ++i) {
      kernel_variant a, b;
      for (kernel_variant* k : {&a, &b}) {
        k->threads_per_block = draw(random, 1, 1024);
        k->registers_per_thread = draw(random, 16, 255);
        k->shared_bytes = draw(random, 0, 3) == 0 ? draw(random, 0, 100 * 1024) : 0;
      }
      const std::uint32_t threads = std::max(a.threads_per_block, b.threads_per_block);
      CHECK(max_blocks_per_sm(l, proxy_shape(a, b)) ==
            std::min(level_of(l, a, threads), level_of(l, b, threads)));
    }
  }
  // And without one block size, it may not be any.
  const architecture_limits h = limits_for(9, 0);
  kernel_variant wide = sound(), deep = sound();
  wide.threads_per_block = 1024;
  wide.registers_per_thread = 32;
  deep.threads_per_block = 128;
  deep.registers_per_thread = 255;
  CHECK(level_of(h, wide) == 2);
  CHECK(level_of(h, deep) == 2);
  CHECK(max_blocks_per_sm(h, proxy_shape(wide, deep)) == 0);
}

TEST_CASE("a block's time is estimated as the kernel's over its waves") {
  const architecture_limits h = limits_for(9, 0);
  kernel_variant k = sound();
  k.block_time = duration::zero();
  CHECK(completed(k, h, sm_count{132}).block_time == from_us(10));
  k.blocks = 4 * 132;
  CHECK(completed(k, h, sm_count{132}).block_time == from_us(10));
  k.blocks = 4 * 132 + 1;
  CHECK(completed(k, h, sm_count{132}).block_time == from_us(5));
  CHECK(completed(k, h, sm_count{132}).level == 4);
  k.block_time = from_us(1); // measured: unchanged
  CHECK(completed(k, h, sm_count{132}).block_time == from_us(1));
}

TEST_CASE("a variant that cannot be reasoned about is refused in one line") {
  CHECK_NOTHROW(check(sound(), "gemm"));
  const auto refused = [](auto change, errc code, const char* line) {
    kernel_variant k = sound();
    change(k);
    CHECK_THROWS_WITH_AS(check(k, "gemm"), line, error);
    try {
      check(k, "gemm");
    } catch (const error& e) {
      CHECK(e.code() == make_error_code(code));
    }
  };
  refused([](auto& k) { k.blocks = 0; }, errc::bad_option,
          "gemm: 0 blocks, expected 1 to 2147483647");
  refused([](auto& k) { k.blocks = 0x80000000u; }, errc::bad_option,
          "gemm: 2147483648 blocks, expected 1 to 2147483647");
  refused([](auto& k) { k.threads_per_block = 0; }, errc::bad_option,
          "gemm: blocks of 0 threads, expected 1 or more");
  refused([](auto& k) { k.kernel_time = -from_us(1); }, errc::bad_option,
          "gemm: kernel time of -1000 ns, expected more than 0");
  refused([](auto& k) { k.block_time = duration::zero(); }, errc::bad_option,
          "gemm: block time of 0 ns, expected more than 0");
  refused([](auto& k) { k.level = 0; }, errc::does_not_fit,
          "gemm: a block of 256 threads, 64 registers each and 16384 bytes of shared memory, "
          "expected one that fits on an SM");
}

TEST_CASE("a proxy that no SM can run is refused in one line") {
  const architecture_limits h = limits_for(9, 0);
  kernel_variant a = sound(), b = sound();
  CHECK_NOTHROW(check_proxy(h, a, b, "gemm with copy"));
  b.shared_bytes = 300 * 1024;
  CHECK_THROWS_WITH_AS(check_proxy(h, a, b, "gemm with copy"),
                       "gemm with copy: proxy kernel with 307200 bytes of shared memory a block, "
                       "expected at most 232448",
                       error);
  b = sound();
  a.threads_per_block = 1024;
  b.registers_per_thread = 255;
  CHECK_THROWS_WITH_AS(check_proxy(h, a, b, "gemm with copy"),
                       "gemm with copy: proxy kernel with 255 registers for each of 1024 threads, "
                       "expected at most 65536 in all",
                       error);
}

TEST_CASE("a program's variants are pruned, the fastest first; what has none is not padded") {
  kernel_variant slow = sound(), slim = sound(), fast = sound();
  slow.kernel_time = from_us(20);
  slim.kernel_time = from_us(15);
  slim.registers_per_thread = 32;
  const std::vector<std::vector<kernel_variant>> operations{{slow, slim, fast}, {}, {slow}};
  const pad_program p("net", operations);
  CHECK(p.size() == 3);
  CHECK(p.most_variants() == 2);
  REQUIRE(p.variants(0).size() == 2);
  CHECK(p.variants(0)[0] == fast);
  CHECK(p.variants(0)[1] == slim);
  CHECK(p.variants(1).empty());
  CHECK(p.variants(2).size() == 1);

  std::vector<std::vector<kernel_variant>> bad = operations;
  bad[2][0].blocks = 0;
  CHECK_THROWS_WITH_AS(pad_program("net", bad),
                       "net: operation 2: 0 blocks, expected 1 to 2147483647", error);
}

TEST_CASE("a program as it was profiled becomes one to pad; copies and unknown times do not") {
  operation gemm;
  gemm.launch.grid = {600, 1, 1};
  gemm.launch.block = {256, 1, 1};
  gemm.launch.registers_per_thread = 64;
  gemm.launch.static_shared_bytes = 1024;
  gemm.expected = from_us(10);
  operation copy;
  copy.kind = operation_kind::memcpy;
  copy.expected = from_us(3);
  operation unknown = gemm;
  unknown.expected = duration::zero();
  const pad_program p =
      estimated_pad_program(program("net", {gemm, copy, unknown}), limits_for(9, 0), sm_count{132});
  REQUIRE(p.size() == 3);
  REQUIRE(p.variants(0).size() == 1);
  CHECK(p.variants(0)[0].level == 4);
  CHECK(p.variants(0)[0].block_time == from_us(5)); // 600 blocks are two waves of 528
  CHECK(p.variants(0)[0].shared_bytes == 1024);
  CHECK(p.variants(1).empty());
  CHECK(p.variants(2).empty());

  gemm.launch.dynamic_shared_bytes = 230 * 1024;
  CHECK_THROWS_AS(static_cast<void>(estimated_pad_program(program("net", {gemm}), limits_for(9, 0),
                                                          sm_count{132})),
                  error);
}
