// SPDX-License-Identifier: Apache-2.0
#include <gsched/preempt/idempotence.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

/// Bytes by letters: A is the byte at address 0.
access_set letters(std::string_view which) {
  std::vector<byte_range> bytes;
  for (const char c : which) {
    const auto at = static_cast<std::uint64_t>(c - 'A');
    bytes.push_back({at, at + 1});
  }
  return access_set(std::move(bytes));
}

operation_access does(std::string_view reads, std::string_view writes,
                      operation_kind kind = operation_kind::kernel) {
  operation_access o;
  o.kind = kind;
  o.reads = letters(reads);
  o.writes = letters(writes);
  return o;
}

std::vector<idempotence_verdict> verdicts_of(std::vector<operation_access> operations) {
  return find_verdicts({"test", std::move(operations)});
}

// K3 reads C and E and writes E; of (K1, K2, K3) the inputs are C and D, the outputs E and F; K0 is
// not needed.
TEST_CASE("the paper's example: K3 runs again from K1") {
  const auto v = verdicts_of({does("AB", "C"), does("CD", "E"), does("D", "F"), does("CE", "E")});
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(v[k].how == restart::alone);
    CHECK(v[k].group_first == k);
    CHECK_FALSE(v[k].why);
  }
  CHECK(v[3].how == restart::with_group);
  CHECK(v[3].group_first == 1);
  CHECK(v[3].why == clobber{{4, 5}, 3, 3}); // E
  CHECK(restore_point(v, 3, true) == std::size_t{1});
  CHECK(restore_point(v, 3, false) == std::size_t{3});
  CHECK(restore_point(v, 2, true) == std::size_t{2});
}

TEST_CASE("why a shorter group will not do: who reads and who overwrites") {
  // B is written by 0, read by 1 and overwritten by 2, which is idempotent alone; 3 overwrites its
  // own input A, which 0 wrote: from 1 on B is clobbered as well.
  const auto v = verdicts_of({does("", "AB"), does("B", "C"), does("", "B"), does("A", "A")});
  CHECK(v[2].how == restart::alone);
  CHECK(v[3].how == restart::with_group);
  CHECK(v[3].group_first == 0);
  REQUIRE(v[3].why);
  CHECK(v[3].why->range == byte_range{1, 2});
  CHECK(v[3].why->read_by == 1);
  CHECK(v[3].why->overwritten_by == 2);
}

TEST_CASE("a longer group can do where a shorter one cannot, past one that spoils it") {
  // 1 reads B, which 2 overwrites; but 0 writes B first, so the group from 0 is idempotent.
  const auto v = verdicts_of({does("", "AB"), does("B", "D"), does("A", "AB")});
  CHECK(v[2].how == restart::with_group);
  CHECK(v[2].group_first == 0);
}

TEST_CASE("what overwrites the program's input is only waited for") {
  const auto v = verdicts_of({does("A", "B"), does("AB", "A")});
  CHECK(v[0].how == restart::alone);
  CHECK(v[1].how == restart::never);
  CHECK(v[1].group_first == 1);
  CHECK(v[1].why == clobber{{0, 1}, 1, 1});
  CHECK_FALSE(restore_point(v, 1, true));
  CHECK(restore_point(v, 1, false) == std::size_t{1});
}

TEST_CASE("no group reaches across a copy, a set or an event") {
  for (const operation_kind kind :
       {operation_kind::memcpy, operation_kind::memset, operation_kind::event_wait,
        operation_kind::event_record, operation_kind::host_function}) {
    const auto v =
        verdicts_of({does("", "A"), does("", "Z", kind), does("A", "A"), does("A", "B")});
    CHECK(v[1].barrier);
    CHECK(v[1].how == restart::never);
    CHECK(v[2].how == restart::never);
    CHECK(v[3].how == restart::alone);
  }
}

TEST_CASE("a set that is declared idempotent stands inside a group") {
  operation_access set = does("", "A", operation_kind::memset);
  set.says = declared::idempotent;
  const auto v = verdicts_of({set, does("A", "A")});
  CHECK(v[0].how == restart::alone);
  CHECK(v[0].declared);
  CHECK_FALSE(v[0].barrier);
  CHECK(v[1].how == restart::with_group);
  CHECK(v[1].group_first == 0);
}

TEST_CASE("what the user says counts more than the accesses") {
  operation_access in_place = does("A", "A");
  in_place.says = declared::idempotent;
  operation_access harmless = does("A", "B");
  harmless.says = declared::clobbers;
  const auto v = verdicts_of({does("", "C"), in_place, harmless, does("C", "C")});
  CHECK(v[1].how == restart::alone);
  CHECK(v[1].declared);
  CHECK(v[2].how == restart::never);
  CHECK(v[2].declared);
  // 0 would help, but is behind an operation that must not run again
  CHECK(v[3].how == restart::never);
}

TEST_CASE("a declared kernel inside a group may only read what it seems to overwrite") {
  // If 1 does not write A, 2 overwrites an input of (1, 2); 0 wrote it first, and is needed.
  operation_access unsure = does("A", "A");
  unsure.says = declared::idempotent;
  const auto v = verdicts_of({does("", "A"), unsure, does("A", "A")});
  CHECK(v[2].how == restart::with_group);
  CHECK(v[2].group_first == 0);
}

TEST_CASE("writes before reads in one operation, where the trace knows") {
  operation_access o = does("A", "A");
  o.writes_first = letters("A");
  const auto v = verdicts_of({o});
  CHECK(v[0].how == restart::alone);
}

TEST_CASE("accesses that nobody saw: verdicts that rest on them say so") {
  operation_access unseen = does("AB", "B");
  unseen.assumed = true;
  // 1 is idempotent alone; 2 needs a group, which cannot begin with an assumed write to C.
  operation_access may_write = does("", "C");
  may_write.assumed = true;
  const auto v = verdicts_of({does("", "C"), does("D", "E"), may_write, does("C", "C"), unseen});
  CHECK_FALSE(v[1].assumed);
  CHECK(v[2].assumed);
  CHECK(v[3].how == restart::with_group);
  CHECK(v[3].group_first == 0);
  CHECK(v[3].assumed);
  CHECK(v[4].how == restart::never);
  CHECK(v[4].assumed);
}

TEST_CASE("the group of an operation within a group begins in it") {
  const auto v = verdicts_of({does("A", "B"), does("", "C"), does("BC", "BC"), does("C", "D")});
  CHECK(v[2].group_first == 0);
  CHECK(v[1].group_first == 1);
  CHECK(v[3].group_first == 3);
}

TEST_CASE("an empty trace, and operations that touch nothing") {
  CHECK(verdicts_of({}).empty());
  const auto v = verdicts_of({does("", ""), does("", "")});
  CHECK(v[1].how == restart::alone);
}

} // namespace
} // namespace gsched::testing
