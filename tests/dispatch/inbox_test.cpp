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
  CHECK(box.try_take_all() == nullptr);
  std::vector<note> notes(3);
  for (note& n : notes) box.post(n);
  CHECK_FALSE(box.was_empty());
  note* at = box.try_take_all();
  for (note& n : notes) {
    REQUIRE(at == &n);
    at = at->next_posted;
  }
  CHECK(at == nullptr);
  CHECK(box.was_empty());
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
        box.post(notes[s][i]);
      }
    });
  }
  std::vector<std::size_t> next(senders, 0);
  std::size_t taken = 0;
  bool ordered = true;
  while (taken < senders * each) {
    for (note* n = box.try_take_all(); n != nullptr; ++taken) {
      ordered = ordered && n->serial == next[n->sender];
      ++next[n->sender];
      n = n->next_posted; // after this the sender may use the note again
    }
  }
  for (std::thread& t : threads) t.join();
  CHECK(ordered);
  CHECK(box.try_take_all() == nullptr);
}
