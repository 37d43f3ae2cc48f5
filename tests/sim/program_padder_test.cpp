// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/sim/program_padder.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
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

TEST_CASE("program padder: predictions keep memory-heavy kernels apart, and admit others") {
  const sim::preset h200 = sim::preset_by_name("sim:h200");
  sim::program_padder pads(h200, level_rule::needed);
  // To the simulator, a kernel that half of the SMs do not slow is bound by memory.
  const auto scaling = [](std::uint32_t blocks, double us, std::uint32_t threads, double on_half) {
    operation op = kernel(blocks, from_us(us), threads);
    op.by_sms.push_back({sm_count{64}, from_us(us * on_half)});
    return op;
  };
  const program host_program("host", std::vector<operation>(6, scaling(64, 20, 1024, 1)));
  const program memory("memory", std::vector<operation>(3, scaling(132, 15, 1024, 1)));
  const program compute("compute", std::vector<operation>(3, scaling(64, 9, 256, 2.1)));
  const auto chain = [&](const program& p, resource r) {
    kernel_chain c;
    c.sms = h200.sms.count();
    for (const operation& op : p.operations()) {
      chain_kernel& k = c.kernels.emplace_back();
      k.us = to_us(op.expected);
      k.blocks = static_cast<double>(op.launch.blocks());
      k.per_sm = 8;
      k.warps = 8;
      k.takes.of(r) = 0.75;
      if (r == resource::dram) k.takes.of(resource::l2) = 0.4;
    }
    return c;
  };
  const std::size_t host = pads.add(host_program), m = pads.add(memory), c = pads.add(compute);
  const kernel_chain host_chain = chain(host_program, resource::dram);
  const pad_limits of_memory(host_chain, chain(memory, resource::dram), {});
  const pad_limits of_compute(host_chain, chain(compute, resource::fma), {});
  const auto slower = [&](std::size_t corunner, const pad_limits* by) {
    const std::vector<pad_part> parts = pads.plan(host, corunner, 0, by);
    return std::pair(parts.size(), to_us(pads.longer(host, pads.make(host, corunner, parts))) /
                                       to_us(host_program.expected()));
  };
  const auto [rules, by_rules] = slower(m, nullptr);
  CHECK(rules >= 3);
  CHECK(by_rules > 0.1); // rules 1 and 2 know nothing of memory
  const auto [none, nothing] = slower(m, &of_memory);
  CHECK(none < rules);
  CHECK(nothing < 0.05);
  const auto [all, by_prediction] = slower(c, &of_compute);
  CHECK(all >= 3);
  CHECK(by_prediction < 0.05);
}
