// SPDX-License-Identifier: Apache-2.0
// Selections and summaries of gsched.gpu.padding, which need no GPU.
#include "padding/pair.hpp"
#include "padding/pair_summary.hpp"
#include "padding/predictions.hpp"
#include "padding/selections.hpp"

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace padding {
namespace {

gsched::kernel_variant kernel(std::int64_t time, std::int64_t block, std::uint32_t blocks,
                              std::uint32_t level = 4) {
  gsched::kernel_variant k;
  k.kernel_time = gsched::duration{time};
  k.block_time = gsched::duration{block};
  k.blocks = blocks;
  k.level = level;
  k.threads_per_block = 256;
  return k;
}

gsched::quiet_options on_100_sms() {
  gsched::quiet_options o;
  o.sms = gsched::sm_count{100};
  return o;
}

bool any_pair(const pair&) { return true; }

TEST_CASE("limits take of the blocks that rules 1 and 2 allow") {
  const gsched::kernel_variant real = kernel(10'000, 9000, 60), other = kernel(9000, 6000, 500);
  const auto blocks = [&](selection by, std::uint32_t most) {
    return blocks_for(by, {real}, {other}, on_100_sms(), most);
  };
  constexpr std::uint32_t no_limit = gsched::pad_limits::no_limit;
  CHECK(blocks(selection::needed, no_limit) == 340); // 4 on each SM, less those of the kernel
  for (const selection by : {selection::within_5, selection::within_10, selection::within_20}) {
    CHECK(blocks(by, no_limit) == 340);
    CHECK(blocks(by, 341) == 340);
    CHECK(blocks(by, 70) == 70);
    CHECK(blocks(by, 0) == 0);
  }
  for (const selection by : {selection::paper, selection::needed}) CHECK(blocks(by, 70) == 340);
  for (const selection by : {selection::apart, selection::quiet}) CHECK(blocks(by, 3) == 40);
}

TEST_CASE("rule 2 as in the paper wants the level that the real-time kernel has alone") {
  const gsched::kernel_variant real = kernel(10'000, 9000, 60), other = kernel(9000, 6000, 500, 2);
  constexpr std::uint32_t no_limit = gsched::pad_limits::no_limit;
  CHECK(blocks_for(selection::paper, {real}, {other}, on_100_sms(), no_limit) == 0);
  CHECK(blocks_for(selection::needed, {real}, {other}, on_100_sms(), no_limit) == 140);
  CHECK(blocks_for(selection::within_5, {real}, {other}, on_100_sms(), 50) == 50);
}

gsched::chain_kernel reads(double blocks, double dram) {
  gsched::chain_kernel k;
  k.us = 20;
  k.blocks = blocks;
  k.per_sm = 4;
  k.warps = 8;
  k.takes.of(gsched::resource::dram) = dram;
  k.takes.of(gsched::resource::l2) = dram / 2;
  return k;
}

TEST_CASE("the most blocks of a selection are those that its slow-down allows") {
  gsched::kernel_chain real, others;
  real.sms = others.sms = 100;
  real.kernels = {reads(60, 0), reads(60, 0.6)};
  others.kernels = {reads(400, 0.1), reads(400, 0.9)};
  const predictions p(real, others, gsched::contention_law{});
  std::uint32_t last = 0;
  for (const selection by : {selection::within_5, selection::within_10, selection::within_20}) {
    const std::uint32_t most = p.most(by, 1, 1);
    CHECK(most > last);
    CHECK(most < 400);
    CHECK(p.slowdown(1, 1, most) <= limit_of(by));
    CHECK(p.slowdown(1, 1, most + 1) > limit_of(by));
    last = most;
  }
  for (const selection by : {selection::paper, selection::needed, selection::quiet})
    CHECK(p.most(by, 1, 1) == gsched::pad_limits::no_limit);
}

/// A pair of 10 us plain, with its times over that.
pair row(std::size_t real, std::uint32_t blocks, double proxy, double padded,
         std::initializer_list<selection> by, std::optional<double> predicted = {}) {
  pair p{real, 0, blocks};
  for (const selection s : by) p.by[static_cast<std::size_t>(s)] = true;
  p.predicted = predicted;
  p.work_us = blocks;
  p.alone = {10, 20};
  p.proxy = {10 * proxy, 20};
  p.padded = {10 * padded, 21};
  return p;
}

using enum selection;

TEST_CASE("slow-downs are over each form, and over the faster one") {
  const pair slow_proxy = row(0, 1, 1.5, 1.8, {}), fast_proxy = row(0, 1, 0.5, 1.1, {});
  CHECK(slow_proxy.of_plain() == doctest::Approx(1.8));
  CHECK(slow_proxy.of_proxy() == doctest::Approx(1.2));
  CHECK(slow_proxy.of_best() == doctest::Approx(1.8));
  CHECK(fast_proxy.of_plain() == doctest::Approx(1.1));
  CHECK(fast_proxy.of_best() == doctest::Approx(2.2));
  CHECK(fast_proxy.whole_percent() == doctest::Approx(5));
}

const std::vector<pair> rows{
    row(0, 100, 1, 1.02, {needed, within_5}), // rightly in, with all
    row(1, 100, 1, 1.5, {needed}),            // rightly less
    row(1, 10, 1, 1.04, {within_5, quiet}),
    row(2, 100, 1, 1.01, {needed}), // wrongly out
    row(3, 100, 1, 1.03, {needed}), // wrongly less
    row(3, 20, 1, 1.01, {within_5}),
    row(4, 100, 1, 1.3, {needed, within_5}),    // wrongly in
    row(5, 100, 1.2, 1.21, {needed, within_5}), // the same, for its proxy alone
    row(6, 100, 1, 1.4, {needed}),              // rightly out
};

TEST_CASE("a selection's pairs, work and slow-downs") {
  const selection_summary s = summary_of(rows, within_5, 1.05, any_pair);
  CHECK(s.pairs == 5);
  CHECK(s.work_us == 330);
  CHECK(s.gained == doctest::Approx(330.0 / 20 / 5));
  CHECK(s.best_mean == doctest::Approx((2 + 4 + 1 + 30 + 21) / 5.0));
  CHECK(s.part_mean == doctest::Approx(s.best_mean)); // no proxy is faster than the plain form
  CHECK(s.part_p50 == doctest::Approx(4));
  CHECK(s.best_p99 == doctest::Approx(30));
  CHECK(s.best_p95 == doctest::Approx(30));
  CHECK(s.part_max == doctest::Approx(30));
  CHECK(s.whole_p95 == doctest::Approx(5));
}

TEST_CASE("what a selection admits and refuses wrongly") {
  const selection_summary s = summary_of(rows, within_5, 1.05, any_pair);
  CHECK(s.false_safe == 2);
  CHECK(s.false_safe_of_proxy == 1);
  CHECK(s.false_unsafe == 2);
  CHECK(s.false_refused == 1);
  const selection_summary all = summary_of(rows, needed, 1.05, any_pair);
  CHECK(all.pairs == 7);
  CHECK(all.false_safe == 4);
  CHECK(all.false_unsafe == 0);
  const selection_summary one = summary_of(rows, quiet, 1.05, any_pair);
  CHECK(one.pairs == 1);
  CHECK(one.false_safe == 0);
  CHECK(one.false_unsafe == 3);
  CHECK(one.false_refused == 3);
  // The limit counts for both.
  CHECK(summary_of(rows, within_5, 1.35, any_pair).false_safe == 0);
  CHECK(summary_of(rows, quiet, 1.35, any_pair).false_unsafe == 5);
}

TEST_CASE("a filter refuses pairs that the selection admits") {
  const auto none = [](const pair&) { return false; };
  const selection_summary s = summary_of(rows, needed, 1.05, none);
  CHECK(s.pairs == 0);
  CHECK(s.best_mean == 0);
  CHECK(s.false_safe == 0);
  CHECK(s.false_refused == 3);
}

TEST_CASE("errors of predictions are parts of what was measured") {
  const std::vector<pair> all{row(0, 1, 1, 1.25, {needed}, 1.0), row(1, 1, 2, 2, {}, 1.5),
                              row(2, 1, 1, 9, {needed})}; // one without a prediction
  const prediction_errors e = errors_of(all, any_pair);
  CHECK(e.of_proxy.count == 2);
  CHECK(e.of_proxy.p50 == doctest::Approx((0.2 + 0.5) / 2));
  CHECK(e.of_proxy.p90 == doctest::Approx(0.47));
  CHECK(e.of_best.p50 == doctest::Approx((0.2 + 0.25) / 2));
  CHECK(errors_of(all, [](const pair& p) { return p.of(needed); }).of_proxy.count == 1);
}

} // namespace
} // namespace padding
