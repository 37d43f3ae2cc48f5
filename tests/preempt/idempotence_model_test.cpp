// SPDX-License-Identifier: Apache-2.0
#include "preempt/access_model.hpp"
#include "sanitized.hpp"

#include <gsched/preempt/idempotence.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

// Compared with the documented rule, byte by byte and group by group.

namespace gsched::testing {
namespace {

using trace_list = std::vector<operation_access>;

enum class first_access { none, may_write, read, write };

/// The first clobber of a group, if there is one: a byte that is first read and then written.
bool is_clean(const trace_list& ops, std::size_t first, std::size_t last) {
  for (std::uint64_t b = 0; b < memory_bytes; ++b) {
    const byte_mask bit = 1u << b;
    bool input = false;  // may have been read before it was written
    bool surely = false; // certainly written first
    for (std::size_t i = first; i <= last; ++i) {
      const bool reads = (read_mask(ops[i]) & bit) != 0;
      const bool writes = (write_mask(ops[i]) & bit) != 0;
      const bool forgiven = ops[i].says == declared::idempotent;
      if (forgiven && writes && input) return false; // read by an operation before it
      if (reads && !surely) input = true;
      if (!forgiven && writes && input) return false;
      if (writes && !input && !ops[i].assumed && !(forgiven && reads)) surely = true;
    }
  }
  return true;
}

std::optional<std::size_t> shortest_group(const trace_list& ops, std::size_t k) {
  for (std::size_t f = k + 1; f-- > 0;) {
    if (is_barrier(ops[f])) return std::nullopt;
    if (is_clean(ops, f, k)) return f;
  }
  return std::nullopt;
}

void check_why(const trace_list& ops, const idempotence_verdict& v, std::size_t k) {
  REQUIRE(v.own);
  REQUIRE(v.own->read_by == k);
  REQUIRE(v.own->overwritten_by == k);
  const byte_mask own = mask_of(access_set({v.own->range}));
  REQUIRE(own != 0);
  REQUIRE((own & ~(read_mask(ops[k]) & write_mask(ops[k]))) == 0);
  REQUIRE(v.why);
  const clobber& c = *v.why;
  REQUIRE(c.read_by <= c.overwritten_by);
  REQUIRE(c.overwritten_by <= k);
  if (v.how == restart::with_group) REQUIRE(c.read_by > v.group_first);
  REQUIRE_FALSE(c.range.empty());
  std::size_t from = v.group_first + 1; // the next shorter group, or the longest
  if (v.how == restart::never)
    for (from = k; from > 0 && !is_barrier(ops[from - 1]);) --from;
  for (std::uint64_t b = c.range.first; b < c.range.last; ++b) {
    const byte_mask bit = 1u << b;
    REQUIRE((read_mask(ops[c.read_by]) & bit) != 0);
    REQUIRE((write_mask(ops[c.overwritten_by]) & bit) != 0);
    for (std::size_t i = from; i < c.read_by; ++i)
      REQUIRE((ops[i].assumed || ops[i].says == declared::idempotent ||
               (write_mask(ops[i]) & ~read_mask(ops[i]) & bit) == 0));
  }
}

void check_all(const access_trace& t) {
  const auto verdicts = find_verdicts(t);
  REQUIRE(verdicts.size() == t.operations.size());
  for (std::size_t k = 0; k < verdicts.size(); ++k) {
    const idempotence_verdict& v = verdicts[k];
    const operation_access& o = t.operations[k];
    CAPTURE(k);
    REQUIRE(v.barrier == is_barrier(o));
    REQUIRE(v.declared ==
            (o.says == declared::idempotent || o.says == declared::clobbers)); // saves: by accesses
    if (v.barrier || v.declared) {
      REQUIRE(v.how == (v.barrier ? restart::never : restart::alone));
      REQUIRE(v.group_first == k);
      continue;
    }
    const std::optional<std::size_t> expected = shortest_group(t.operations, k);
    if (!expected) {
      REQUIRE(v.how == restart::never);
      REQUIRE(v.group_first == k);
    } else {
      REQUIRE(v.how == (*expected == k ? restart::alone : restart::with_group));
      REQUIRE(v.group_first == *expected);
    }
    if (v.how == restart::alone) {
      REQUIRE_FALSE(v.own);
      REQUIRE_FALSE(v.why);
    } else
      check_why(t.operations, v, k);
  }
}

constexpr int random_programs = testing::sanitized ? 4'000 : 30'000;

TEST_CASE("verdicts are those of the rule, and groups are the shortest: random programs") {
  std::mt19937_64 random(64);
  for (int i = 0; i < random_programs; ++i) {
    CAPTURE(i);
    check_all(random_trace(random, {}, 14));
  }
}

TEST_CASE("as well with accesses that nobody saw and with declarations") {
  std::mt19937_64 random(65);
  const random_mix mix{.barriers = 1,
                       .writes_first = 2,
                       .assumed = 4,
                       .declared_idempotent = 2,
                       .declared_clobbers = 1,
                       .declared_saves = 1};
  for (int i = 0; i < random_programs; ++i) {
    CAPTURE(i);
    check_all(random_trace(random, mix, 14));
  }
}

TEST_CASE("long programs: groups that are long, and none, do not cost more") {
  // Each overwrites its own input, which only the first has written; a backward search for each
  // would examine 10^10 pairs.
  constexpr std::size_t n = 200000;
  access_trace t;
  t.operations.resize(n);
  for (operation_access& o : t.operations) o.reads = o.writes = access_set({{0, 64}, {100, 164}});
  CHECK(find_verdicts(t).back().how == restart::never);
  t.operations.front().reads = {};
  const auto verdicts = find_verdicts(t);
  CHECK(verdicts.back().how == restart::with_group);
  CHECK(verdicts.back().group_first == 0);
}

TEST_CASE("random programs hold all kinds of verdicts") {
  std::mt19937_64 random(64);
  std::array<int, 3> seen{};
  std::size_t longest = 0;
  for (int i = 0; i < 3000; ++i) {
    const access_trace t = random_trace(random, {}, 14);
    const auto verdicts = find_verdicts(t);
    for (std::size_t k = 0; k < verdicts.size(); ++k) {
      ++seen[static_cast<std::size_t>(verdicts[k].how)];
      longest = std::max(longest, k - verdicts[k].group_first + 1);
    }
  }
  for (const int n : seen) CHECK(n > 300);
  CHECK(longest >= 6);
}

} // namespace
} // namespace gsched::testing
