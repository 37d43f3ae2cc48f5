// SPDX-License-Identifier: Apache-2.0
// Every interleaving of two writers and one reader on small rings, with the ring's own code: a push
// is two atomic steps, claim and publish; reading the next ticket is one load, so one step.
#include <gsched/notify/flow_control.hpp>
#include <gsched/notify/ring.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

using namespace gsched;

namespace {

constexpr std::size_t explored_writers = 2;
constexpr std::uint64_t no_ticket = ~std::uint64_t{0};

struct writer_state {
  std::uint32_t allowed = 0; ///< pushes that the writer may make
  std::uint32_t made = 0;
  std::uint64_t ticket = no_ticket; ///< claimed and not published
};

/// The state of a run. The reader points to the slots of the explorer, not to these.
struct state {
  std::array<std::uint64_t, 4> slots{};
  std::uint64_t ticket = 0;
  std::array<writer_state, explored_writers> writer{};
  ring_reader reader;
  flow_control flow;
  std::uint32_t looks = 0; ///< unsuccessful reads
  std::vector<std::uint64_t> read{};

  [[nodiscard]] std::vector<std::uint64_t> key() const {
    std::vector<std::uint64_t> k(slots.begin(), slots.end());
    const ring_counts& c = reader.counts();
    k.insert(k.end(), {ticket, c.read, c.overwritten, c.invalid, c.lost, looks, flow.reserved()});
    for (const writer_state& w : writer) k.insert(k.end(), {w.allowed, w.made, w.ticket});
    k.insert(k.end(), read.begin(), read.end());
    return k;
  }
};

struct explorer {
  std::size_t capacity;
  std::uint32_t pushes; ///< of each writer
  bool flow_controlled;
  std::uint32_t most_looks;

  std::array<std::uint64_t, 4> slots{};
  std::uint64_t ticket = 0;
  std::set<std::vector<std::uint64_t>> seen{};
  std::uint64_t ends = 0;
  std::uint64_t intact = 0;

  [[nodiscard]] std::span<std::uint64_t> ring() { return {slots.data(), capacity}; }

  void run() {
    state s{.reader = ring_reader(ring()), .flow = flow_control(capacity)};
    if (!flow_controlled)
      for (writer_state& w : s.writer) w.allowed = pushes;
    visit(s);
  }

  void visit(const state& s) {
    if (!seen.insert(s.key()).second) return;
    bool any = false;
    for (std::size_t w = 0; w < explored_writers; ++w) {
      any = step(s, [&](state& n) { return write(n, w); }) || any;
      if (flow_controlled) any = step(s, [&](state& n) { return launch(n, w); }) || any;
    }
    any = step(s, [&](state& n) { return look(n); }) || any;
    if (!any) finish(s);
  }

  template <class F>
  bool step(const state& s, F f) {
    state next = s;
    slots = s.slots;
    ticket = s.ticket;
    if (!f(next)) return false;
    next.slots = slots;
    next.ticket = ticket;
    visit(next);
    return true;
  }

  bool write(state& s, std::size_t w) {
    writer_state& me = s.writer[w];
    ring_writer writer(ring(), ticket);
    if (me.ticket != no_ticket) {
      // The instance is the ticket, so that each read word can be checked.
      writer.publish(me.ticket, pack({notification_type::blocks_ended, 1, 0,
                                      static_cast<std::uint32_t>(me.ticket)}));
      me.ticket = no_ticket;
      return true;
    }
    if (me.made == me.allowed) return false;
    ++me.made;
    me.ticket = writer.claim();
    return true;
  }

  /// The host launches a kernel of one push, if flow control permits.
  bool launch(state& s, std::size_t w) {
    if (s.writer[w].allowed == pushes || !s.flow.try_reserve(1)) return false;
    ++s.writer[w].allowed;
    return true;
  }

  bool look(state& s) {
    if (s.looks == most_looks) return false;
    const std::uint64_t before = s.reader.counts().read;
    if (!s.reader.try_next([&](const notification& n) { s.read.push_back(n.instance); })) {
      ++s.looks;
    } else if (flow_controlled) {
      s.flow.release(s.reader.counts().read - before);
    }
    return true;
  }

  void finish(state s) {
    slots = s.slots;
    s.reader.finalise(s.ticket, [&](const notification& n) { s.read.push_back(n.instance); });
    ++ends;
    const ring_counts& c = s.reader.counts();
    REQUIRE(c.tickets() == s.ticket);
    REQUIRE(c.read == s.read.size());
    REQUIRE(c.invalid == 0);
    // In ticket order, so no word is read twice; each read word is that of its ticket.
    for (std::size_t i = 1; i < s.read.size(); ++i) REQUIRE(s.read[i - 1] < s.read[i]);
    REQUIRE((s.read.empty() || s.read.back() < s.ticket));
    if (c.intact()) ++intact;
  }
};

} // namespace

TEST_CASE("all interleavings, a ring as large as all pushes: nothing is lost") {
  explorer e{.capacity = 4, .pushes = 2, .flow_controlled = false, .most_looks = 6};
  e.run();
  CHECK(e.seen.size() > 100);
  CHECK(e.intact == e.ends);
}

TEST_CASE("all interleavings, a ring that can overflow: each ticket is read or counted, once") {
  for (const std::size_t capacity : {2u, 4u}) {
    explorer e{.capacity = capacity, .pushes = 4, .flow_controlled = false, .most_looks = 4};
    e.run();
    CHECK(e.seen.size() > 1000);
    CHECK(e.intact > 0);
    CHECK(e.intact < e.ends); // some runs overflow
  }
}

TEST_CASE("all interleavings, under flow control: nothing is lost in any ring") {
  for (const std::size_t capacity : {2u, 4u}) {
    explorer e{.capacity = capacity, .pushes = 5, .flow_controlled = true, .most_looks = 5};
    e.run();
    CHECK(e.seen.size() > 1000);
    CHECK(e.intact == e.ends);
  }
}
