// SPDX-License-Identifier: Apache-2.0
//
// The channel's own code, client, connection and the server's part that polls and sleeps, in every
// interleaving of small cases.
#include "interleavings/explorer.hpp"
#include "sanitized.hpp"

#include <gsched/channel/client.hpp>
#include <gsched/channel/detail/clock.hpp>
#include <gsched/channel/detail/connection.hpp>
#include <gsched/channel/detail/model_table.hpp>
#include <gsched/channel/detail/polled_connections.hpp>
#include <gsched/channel/detail/server_page.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/channel/region.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/server/detail/doorbell.hpp>
#include <gsched/server/detail/server_state.hpp>
#include <gsched/server/request_source.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace gsched;
using channel::detail::network;
using interleavings::explorer;

namespace {

/// A device that ends one request each time that it is looked at.
struct small_device final : request_taker {
  [[nodiscard]] bool has_model(std::uint32_t) const noexcept override { return true; }
  void take(request_record& r) noexcept override {
    running.push_back(&r);
    ++taken;
  }
  void cancel(request_record& r) noexcept override {
    std::erase(running, &r);
    r.server->end(r, request_status::cancelled, 2);
  }
  bool step() {
    if (running.empty() || holds) return false;
    request_record& r = *running.front();
    if (tells && !std::exchange(told, true)) {
      r.almost_finished(left);
      return true;
    }
    told = false;
    running.pop_front();
    r.server->end(r, request_status::finished, 2);
    return true;
  }
  std::deque<request_record*> running;
  std::uint64_t taken = 0;
  bool holds = false;
  bool tells = false; ///< that a request is almost finished, before it ends ...
  duration left{};    ///< ... in such a time
  bool told = false;
};

/// A server and a client of it, without threads.
struct rig {
  explicit rig(channel::wait_by by) {
    models.offer(0, {0, 0});
    network& n = network::it();
    n.to_client.clear();
    n.to_server.clear();
    n.client_closed = n.server_closed = false;
    client.emplace("@", channel::client_options{.slots = 2, .arena_bytes = 64, .wait = by});
    connection.emplace(channel::region::adopt_as(channel::layout::of(2, 64)),
                       channel::detail::file_descriptor(network::server_end), 0,
                       channel::client_limits{}, models, state(), 0);
    polled.join(*connection);
    static_cast<void>(polled.poll(device, [] {}));
  }
  /// The loop of the server's thread, as device_engine's.
  void serve() {
    explorer& e = *explorer::current();
    for (std::uint64_t cancels = 0;;) { // that poll has seen
      const channel::detail::connection_counts& n = connection->counts();
      e.forget_all_but({n.read, n.finished, n.cancelled, n.refused, n.wakes, device.running.size(),
                        device.told ? 1u : 0u, cancels});
      if (goes && e.choose(2) == 1) {
        e.call([]() -> std::uint64_t { return network::it().server_closed = true; });
        return;
      }
      bool moved = polled.poll(device, [&] { drained = true; });
      cancels = e.last_read();
      moved |= device.step();
      if (moved) continue;
      bell.sleep_unless([&] { return polled.fall_asleep(); });
      polled.wake_up();
    }
  }
  /// The host's thread.
  void listen() {
    for (;;) {
      explorer::current()->forget_all_but({});
      channel::detail::wait_readable(network::server_end, duration::zero());
      channel::detail::message m;
      switch (channel::detail::try_receive(network::server_end, m)) {
      case channel::detail::received::gone:
        connection->leave();
        bell.ring();
        return;
      case channel::detail::received::packet: bell.ring(); break;
      default: break;
      }
    }
  }
  [[nodiscard]] static channel::region region() {
    return channel::region::adopt_as(channel::layout::of(2, 64));
  }
  static const std::shared_ptr<gsched::detail::server_state>& state() {
    static const auto one = std::make_shared<gsched::detail::server_state>();
    return one;
  }

  channel::detail::server_page page;
  channel::detail::model_table models{1};
  small_device device;
  channel::detail::polled_connections polled{page.words(), 4};
  std::optional<channel::client> client;
  std::optional<channel::detail::connection> connection;
  gsched::detail::doorbell bell;
  std::vector<std::uint64_t> read;
  bool drained = false;
  bool goes = false; ///< the server may go
  bool gone = false; ///< the client has seen it
  bool left = false; ///< the client has
};

/// What the client does; it notes what it has read.
using script = std::function<void(rig&)>;

struct exploration {
  channel::wait_by by = channel::wait_by::waiting;
  bool goes = false;               ///< the server may go
  bool gone = false;               ///< the client has seen it
  bool left = false;               ///< the client has
  std::uint64_t cancels = 0;       ///< that the script asks for
  bool holds = false;              ///< the device ends nothing that is not cancelled
  bool server_goes = false;        ///< at any time
  std::optional<duration> tells{}; ///< a request's end so long ahead
  bool weak = false;               ///< as explorer::weak
  std::uint64_t requests = 2;
  script before = [](rig&) {}; ///< of one thread

  /// The first failure, or an empty string.
  std::string run(const script& what) const {
    explorer e;
    e.weak = weak;
    std::optional<rig> r;
    const auto make = [&](explorer& to) {
      r.emplace(by);
      r->device.holds = holds;
      r->device.tells = tells.has_value();
      r->device.left = tells.value_or(duration::zero());
      channel::detail::model_clock::it() = {.ticks = tells.has_value()};
      r->goes = server_goes;
      before(*r);
      const std::span<std::byte> memory = r->region().shared_part();
      to.share(memory.data(), memory.size());
      to.keep(&r->region().words().cancels);
      to.share(&r->page.words(), sizeof(channel::detail::server_words));
      to.share(&r->bell, sizeof r->bell);
      to.observe([&] {
        const network& n = network::it();
        return n.to_client.size() * 64 + n.to_server.size() * 16 + (n.client_closed ? 8u : 0u) +
               (n.server_closed ? 4u : 0u) + (r->connection->is_leaving() ? 2u : 0u) +
               (r->drained ? 1u : 0u);
      });
      to.observe([] {
        std::uint64_t h = channel::detail::model_clock::it().late ? 1 : 0;
        for (const channel::detail::message& m : network::it().to_client)
          h = h * 31 + static_cast<std::uint64_t>(m.ends_ns);
        return h;
      });
      gsched::detail::futex_wakes() = 0;
      to.observe([] { return gsched::detail::futex_wakes(); });
      to.thread(false, [&] { what(*r); });
      to.thread(true, [&] { r->serve(); });
      to.thread(true, [&] { r->listen(); });
      to.at_end([&] { return check(*r); });
    };
    const std::string why = e.explore(make, [&] { r.reset(); });
    MESSAGE(e.states() << " states, " << e.runs << " runs");
    return why;
  }

  [[nodiscard]] std::string check(rig& r) const {
    const channel::detail::connection_counts& n = r.connection->counts();
    for (std::optional<channel::reply> more; r.gone && (more = r.client->try_read_result());)
      return "a reply that was written before the server went was not read";
    if (r.client->try_read_result()) return "a reply too many";
    if (r.device.taken != n.read) return "a request was polled twice";
    const std::uint64_t ended = n.finished + n.cancelled;
    if (r.read.size() != ended) return "a reply was lost, or read twice";
    if (!r.gone && !r.left && ended != requests) return "a request was lost";
    if (r.left && (!r.drained || n.read != ended)) return "something of the client has stayed";
    if (holds && n.cancelled != cancels && !r.gone) return "a cancellation was lost";
    std::vector<std::uint64_t> ids = r.read;
    std::sort(ids.begin(), ids.end());
    if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) return "a reply was read twice";
    return {};
  }
};

void submit(rig& r) {
  if (!r.client->try_predict(0, r.client->arena().first(0)))
    explorer::current()->fail("no room for a request");
}
void take(rig& r) { r.read.push_back(r.client->read_result().id); }
/// The client's thread is at the start of a round.
void begin_round(std::uint64_t n) { explorer::current()->forget_all_but({n}); }

} // namespace

TEST_CASE("all interleavings: one request after another, of a client that sleeps") {
  if (testing::sanitized) return; // which know no fibres
  const auto two = [](rig& r) {
    for (std::uint64_t n = 0; n < 2; ++n) {
      begin_round(n);
      submit(r);
      take(r);
    }
  };
  CHECK(exploration{}.run(two) == "");
  // That the search finds what it looks for: without the order of a store before a later load, both
  // sides look before they see each other.
  CHECK(exploration{.weak = true}.run(two) == "a thread sleeps for ever");
}

TEST_CASE("all interleavings: two requests at once") {
  if (testing::sanitized) return;
  CHECK(exploration{}.run([](rig& r) {
    submit(r);
    submit(r);
    take(r);
    take(r);
  }) == "");
}

TEST_CASE("all interleavings: a client with an event loop of its own") {
  if (testing::sanitized) return;
  CHECK(exploration{.requests = 1}.run([](rig& r) {
    submit(r);
    while (r.read.empty()) {
      if (r.client->arm()) channel::detail::wait_readable(r.client->file(), duration::zero());
      r.client->take_wake_ups();
      if (const auto got = r.client->try_read_result()) r.read.push_back(got->id);
    }
  }) == "");
}

TEST_CASE(
    "all interleavings: a client that sleeps until a request is almost finished, then polls") {
  if (testing::sanitized) return;
  for (const duration left : {duration::zero(), duration{10'000'000'000}})
    CHECK(exploration{.by = channel::wait_by::hybrid, .tells = left, .requests = 1}.run([](rig& r) {
      submit(r);
      take(r);
    }) == "");
}

TEST_CASE("all interleavings: a cancellation always arrives") {
  if (testing::sanitized) return;
  CHECK(exploration{.cancels = 1, .holds = true, .requests = 1}.run([](rig& r) {
    submit(r);
    r.client->cancel(0);
    explorer::current()->wait([&r] { return r.connection->counts().cancelled == 1; });
    take(r);
  }) == "");
}

TEST_CASE("all interleavings: cancellations of requests that had the same slot both arrive") {
  if (testing::sanitized) return;
  exploration how{.cancels = 3, .holds = true, .requests = 3};
  how.before = [](rig& r) { // the last is in the slot of the first, which is in flight
    submit(r);
    submit(r);
    r.client->cancel(1);
    static_cast<void>(r.polled.poll(r.device, [] {}));
    take(r);
    submit(r);
  };
  CHECK(how.run([](rig& r) {
    r.client->cancel(0);
    r.client->cancel(2);
    explorer::current()->wait([&r] { return r.connection->counts().cancelled == 3; });
    take(r);
    take(r);
  }) == "");
}

TEST_CASE("all interleavings: a client that leaves with a request under way leaves nothing") {
  if (testing::sanitized) return;
  CHECK(exploration{.requests = 1}.run([](rig& r) {
    submit(r);
    r.left = true;
    explorer::current()->call([]() -> std::uint64_t { return network::it().client_closed = true; });
    explorer::current()->wait([&r] { return r.drained; });
    while (const auto got = r.client->try_read_result()) r.read.push_back(got->id);
  }) == "");
}

TEST_CASE(
    "all interleavings: what the server wrote before it went is read, and then it is closed") {
  if (testing::sanitized) return;
  CHECK(exploration{.server_goes = true, .requests = 1}.run([](rig& r) {
    const auto was_closed = [&r](const std::function<void(rig&)>& f) {
      try {
        f(r);
      } catch (const error& e) {
        if (e.code() != errc::closed) explorer::current()->fail(e.what());
        r.gone = true;
      }
      return r.gone;
    };
    if (!was_closed(submit)) {
      was_closed(take);
      return;
    }
    // The request was written all the same, and may have been served.
    while (const auto got = r.client->try_read_result()) r.read.push_back(got->id);
  }) == "");
}
