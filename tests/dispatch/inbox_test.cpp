// SPDX-License-Identifier: Apache-2.0
#include <gsched/dispatch/inbox.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <thread>
#include <vector>

namespace {

struct note {
  std::size_t sender = 0;
  std::size_t serial = 0;
  note* next_posted = nullptr;
};

} // namespace

TEST_CASE("inbox: what one thread posts is taken once, oldest first") {
  gsched::inbox<note> box;
  CHECK(box.was_empty());
  CHECK_FALSE(box.take_each([](note&) { FAIL("nothing was posted"); }));
  std::vector<note> notes(3);
  for (note& n : notes) REQUIRE(box.try_post(n));
  CHECK_FALSE(box.was_empty());
  std::vector<note*> taken;
  CHECK(box.take_each([&](note& n) { taken.push_back(&n); }));
  CHECK(taken == std::vector<note*>{&notes[0], &notes[1], &notes[2]});
  CHECK(box.was_empty());
}

TEST_CASE("inbox: once closed it takes nothing more, and what was posted before is given once") {
  gsched::inbox<note> box;
  std::vector<note> notes(3);
  REQUIRE(box.try_post(notes[0]));
  REQUIRE(box.try_post(notes[1]));
  std::vector<note*> given;
  const auto give = [&](note& n) { given.push_back(&n); };
  CHECK_FALSE(box.was_closed());
  box.close(give);
  CHECK(box.was_closed());
  CHECK(box.was_empty());
  CHECK(given == std::vector<note*>{&notes[0], &notes[1]});
  CHECK_FALSE(box.try_post(notes[2]));
  CHECK_FALSE(box.take_each(give));
  box.close(give);
  CHECK(given.size() == 2);
}

TEST_CASE("inbox: a thread that takes over gets the rest of a batch, in order") {
  gsched::inbox<note> box;
  std::vector<note> notes(4);
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(box.try_post(notes[i]));
  std::vector<note*> given;
  const auto give = [&](note& n) { given.push_back(&n); };
  box.take_each([&](note& n) { // as if the function never returned
    given.push_back(&n);
    if (given.size() > 1) return;
    REQUIRE(box.try_post(notes[3]));
    box.close(give);
  });
  CHECK(given == std::vector<note*>{&notes[0], &notes[1], &notes[2], &notes[3]});
  CHECK(box.was_closed());
}

TEST_CASE("inbox: many senders, one taker: none lost, none twice, each sender's order kept") {
  constexpr std::size_t senders = 4;
  constexpr std::size_t each = 20000;
  gsched::inbox<note> box;
  std::vector<std::vector<note>> notes(senders, std::vector<note>(each));
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < senders; ++s) {
    threads.emplace_back([&, s] {
      for (std::size_t i = 0; i < each; ++i) {
        notes[s][i].sender = s;
        notes[s][i].serial = i;
        if (!box.try_post(notes[s][i])) return;
      }
    });
  }
  std::vector<std::size_t> next(senders, 0);
  std::size_t taken = 0;
  bool ordered = true;
  while (taken < senders * each) {
    box.take_each([&](note& n) { // the sender may then use the note again
      ordered = ordered && n.serial == next[n.sender];
      ++next[n.sender];
      ++taken;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(ordered);
  CHECK(box.was_empty());
}
