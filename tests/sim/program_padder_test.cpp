// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/sim/program_padder.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace gsched;

namespace {

operation kernel(std::uint32_t blocks, duration time, std::uint32_t threads = 256) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {threads, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = time;
  return op;
}

} // namespace

TEST_CASE("program padder: what is carried takes the idle SMs' time, and the program stays whole") {
  const sim::preset h200 = sim::preset_by_name("sim:h200");
  sim::program_padder pads(h200);
  const program narrow("narrow", std::vector<operation>(6, kernel(32, from_us(20))));
  const program small("small", std::vector<operation>(4, kernel(64, from_us(8))));
  const std::size_t host = pads.add(narrow), corunner = pads.add(small);
  const std::vector<pad_part> parts = pads.plan(host, corunner, 1);
  REQUIRE(parts.size() == 3);
  CHECK(parts.front().corunner_operation == 1);
  CHECK(parts.back().corunner_operation == 3);
  const program made = pads.make(host, corunner, parts);
  CHECK(made.name() == "narrow with small from 1");
  CHECK(made.size() == narrow.size());
  CHECK(made.is_whole());
  CHECK(made.operations()[0].launch.blocks() == 96);
  CHECK(made.operations()[5].launch.blocks() == 32);
  // Together they take little longer than the real-time program alone.
  CHECK(pads.longer(host, made) >= duration::zero());
  CHECK(pads.longer(host, made) < from_us(6));
  CHECK(pads.longer(host, pads.make(host, corunner, {})) == duration::zero());
}

TEST_CASE(
    "program padder: a kernel that fills the GPU carries nothing, nor does a longer block fit") {
  const sim::preset h200 = sim::preset_by_name("sim:h200");
  sim::program_padder pads(h200);
  const program full("full", {kernel(132 * 8, from_us(20))});
  const program narrow("narrow", {kernel(32, from_us(5))});
  const program slow("slow", {kernel(16, from_us(50))});
  const std::size_t a = pads.add(full), b = pads.add(narrow), c = pads.add(slow);
  CHECK(pads.plan(a, b, 0).empty());
  CHECK(pads.plan(b, c, 0).empty());
  CHECK(pads.plan(b, b, 1).empty()); // the co-runner has ended
}

TEST_CASE("program padder: parts that fit on no SM together are not planned") {
  const sim::preset h200 = sim::preset_by_name("sim:h200");
  sim::program_padder pads(h200, level_rule::needed);
  operation many_registers = kernel(32, from_us(20), 128);
  many_registers.launch.registers_per_thread = 255;
  const program wide("wide", {many_registers});
  const program threads("threads", {kernel(16, from_us(4), 1024)});
  const std::size_t host = pads.add(wide), corunner = pads.add(threads);
  CHECK(pads.plan(host, corunner, 0).empty());
}
