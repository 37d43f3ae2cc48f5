// SPDX-License-Identifier: Apache-2.0
#include "preempt/access_model.hpp"

#include <gsched/core/error.hpp>
#include <gsched/preempt/restrict_preemptibility.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

/// Operations for as many kernels, preemptible at checkpoints.
std::vector<operation> kernels(std::size_t n) {
  std::vector<operation> all(n);
  for (operation& op : all) op.preemptible = preemptibility::at_checkpoints;
  return all;
}

operation_access access(std::string name, byte_mask reads, byte_mask writes) {
  operation_access o;
  o.name = std::move(name);
  o.reads = set_of(reads);
  o.writes = set_of(writes);
  return o;
}

std::string refusal(std::vector<operation>& ops, const access_trace& t) {
  try {
    static_cast<void>(restrict_preemptibility(ops, t, "graph net"));
  } catch (const error& e) {
    CHECK(e.code() == errc::bad_option);
    return e.what();
  }
  return "accepted";
}

TEST_CASE(
    "a kernel that overwrites its own input leaves between blocks; another's does not count") {
  access_trace t;
  t.operations = {access("makes", 0b1, 0b110), // the next two overwrite their own ...
                  access("relu", 0b100, 0b100), access("adds", 0b110, 0b10),
                  access("reuses", 0b10, 0b1), // ... but this one only what the first has read
                  access("", 0b11, 0b11)};
  t.operations[2].assumed = true;
  auto ops = kernels(5);
  const auto restricted = restrict_preemptibility(ops, t, "net");
  REQUIRE(restricted.size() == 3);
  CHECK(restricted[0].operation == 1);
  CHECK(restricted[0].why == "operation 1, relu: overwrites its input, 1 bytes at 0x2");
  CHECK(restricted[1].operation == 2);
  CHECK(restricted[1].why == "operation 2, adds: may overwrite its input, 1 bytes at 0x1");
  CHECK(restricted[2].why == "operation 4: overwrites its input, 1 bytes at 0x0");
  const std::array expected{preemptibility::at_checkpoints, preemptibility::between_blocks,
                            preemptibility::between_blocks, preemptibility::at_checkpoints,
                            preemptibility::between_blocks};
  for (std::size_t k = 0; k < ops.size(); ++k) CHECK(ops[k].preemptible == expected[k]);
  CHECK(restrict_preemptibility(ops, t, "net").empty()); // nothing more to restrict
}

TEST_CASE("what is declared counts more, and what leaves less often stays as it is") {
  access_trace t;
  for (const declared says : {declared::idempotent, declared::saves, declared::clobbers}) {
    t.operations.push_back(access("in_place", 0b1, 0b1));
    t.operations.back().says = says;
  }
  t.operations.push_back(access("fine", 0b1, 0b10));
  t.operations.back().says = declared::clobbers;
  auto ops = kernels(4);
  const auto restricted = restrict_preemptibility(ops, t, "net");
  REQUIRE(restricted.size() == 2);
  CHECK(restricted[0].why == "operation 2, in_place: declared to clobber");
  CHECK(restricted[1].why == "operation 3, fine: declared to clobber");
  CHECK(ops[0].preemptible == preemptibility::at_checkpoints);
  CHECK(ops[1].preemptible == preemptibility::at_checkpoints);

  for (const preemptibility less : {preemptibility::never, preemptibility::between_blocks}) {
    for (operation& op : ops) op.preemptible = less;
    CHECK(restrict_preemptibility(ops, t, "net").empty());
    for (const operation& op : ops) CHECK(op.preemptible == less);
  }
}

TEST_CASE("accesses of another program are refused in one line, and nothing changes") {
  access_trace t;
  t.operations = {access("relu", 1, 1), access("relu", 1, 1)};
  auto ops = kernels(3);
  CHECK(refusal(ops, t) ==
        "graph net: accesses of 2 operations, expected 3, one for each operation");
  t.operations.push_back(access("set", 0, 1));
  t.operations.back().kind = operation_kind::memset;
  CHECK(refusal(ops, t) == "graph net: operation 2 is of another kind than its accesses, set, "
                           "expected those of this program");
  for (const operation& op : ops) CHECK(op.preemptible == preemptibility::at_checkpoints);
}

TEST_CASE("exactly the kernels of which a byte is both input and output: random programs") {
  std::mt19937_64 random(66);
  const random_mix mix{.barriers = 2,
                       .writes_first = 4,
                       .assumed = 2,
                       .declared_idempotent = 1,
                       .declared_clobbers = 1,
                       .declared_saves = 1};
  std::size_t restricted = 0;
  std::size_t left_alone = 0;
  for (int i = 0; i < 20000; ++i) {
    const access_trace t = random_trace(random, mix, 12);
    std::vector<operation> ops = kernels(t.operations.size());
    for (std::size_t k = 0; k < ops.size(); ++k) {
      ops[k].kind = t.operations[k].kind;
      if (ops[k].kind != operation_kind::kernel) ops[k].preemptible = preemptibility::never;
    }
    std::size_t next = 0;
    const auto told = restrict_preemptibility(ops, t, "random");
    for (std::size_t k = 0; k < ops.size(); ++k) {
      if (ops[k].kind != operation_kind::kernel) continue;
      const operation_access& o = t.operations[k];
      const bool clobbers = (read_mask(o) & write_mask(o)) != 0;
      const bool expected =
          o.says == declared::clobbers || (o.says == declared::nothing && clobbers);
      REQUIRE(ops[k].preemptible ==
              (expected ? preemptibility::between_blocks : preemptibility::at_checkpoints));
      if (expected) REQUIRE(told[next++].operation == k);
      ++(expected ? restricted : left_alone);
    }
    REQUIRE(next == told.size());
  }
  CHECK(restricted > 10000);
  CHECK(left_alone > 10000);
}

} // namespace
} // namespace gsched::testing
