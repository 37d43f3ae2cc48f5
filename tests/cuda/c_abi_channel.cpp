// SPDX-License-Identifier: Apache-2.0
// Requests of the channel for models of the C library: inputs and outputs in the client's memory.
#include "cuda/c_abi_rig.hpp"

#include "channel_options.hpp"

#include <gsched/channel/client.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

using namespace gsched;
using namespace gsched::testing;

namespace {

/// A server with a host on a socket of this process, that counts what is pinned.
struct hosted_rig {
  server_rig rig;
  int pinned = 0, unpinned = 0;
  std::unique_ptr<channel::host> host;

  hosted_rig() {
    channel::host_options how = abi::host_options_of(abi::default_channel_options(),
                                                     "@gsched-abi-" + std::to_string(::getpid()));
    how.pin = [this](std::span<std::byte>) { ++pinned; };
    how.unpin = [this](std::span<std::byte>) { ++unpinned; };
    host = rig.it.listen(how);
  }
  [[nodiscard]] std::string socket() const { return "@gsched-abi-" + std::to_string(::getpid()); }
};

} // namespace

TEST_CASE("c abi: requests of the channel run beside tickets, each with its own memory") {
  hosted_rig h;
  const std::uint32_t id = h.rig.add_model(2);
  h.rig.it.offer(*h.host, id, "");
  const std::uint32_t owner = h.rig.it.add_client(1);
  {
    channel::client c(h.socket());
    const channel::model_entry m = c.model("fake");
    CHECK(m.input_bytes == 8);
    CHECK(m.output_bytes == 8);
    std::vector<std::span<std::byte>> pieces;
    std::vector<gsched_ticket*> tickets;
    std::vector<std::uint64_t> in(20), out(20);
    for (std::uint64_t i = 0; i < 20; ++i) {
      pieces.push_back(c.allocate(m.payload_bytes()));
      std::memcpy(pieces.back().data(), &i, sizeof i);
      CHECK(c.predict(m, pieces.back()) == i);
      in[i] = 100 + i;
      const void* from[] = {&in[i]};
      void* into[] = {&out[i]};
      gsched_request r{};
      r.model = id;
      r.client = owner;
      r.inputs = from;
      r.outputs = into;
      tickets.push_back(h.rig.submit(r));
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
      const channel::reply r = c.read_result();
      CHECK(r.how == channel::outcome::finished);
      std::uint64_t got = 0;
      std::memcpy(&got, pieces[r.id].data() + m.input_bytes, sizeof got);
      CHECK(got == 3 * r.id + 1);
      CHECK(abi::server::wait(*tickets[i], 20 * second_us));
      CHECK(out[i] == 3 * in[i] + 1);
      tickets[i]->release();
    }
    CHECK(h.pinned == 1);
  }
  h.host.reset();
  CHECK(h.unpinned == 1);
}

TEST_CASE("c abi: a model that is withdrawn or removed is unknown to clients") {
  hosted_rig h;
  const std::uint32_t first = h.rig.add_model(1), second = h.rig.add_model(1);
  h.rig.it.offer(*h.host, first, "first");
  h.rig.it.offer(*h.host, second, "second");
  std::string line;
  CHECK(code_of([&] { h.rig.it.offer(*h.host, first, "again"); }, &line) == GSCHED_BAD_ARGUMENT);
  CHECK(code_of([&] { h.rig.it.offer(*h.host, 77, "none"); }, &line) == GSCHED_BAD_ARGUMENT);
  channel::client c(h.socket());
  const channel::model_entry one = c.model("first"), two = c.model("second");
  const std::span<std::byte> io = c.allocate(one.payload_bytes());
  h.host->withdraw(model_id{first});
  h.rig.it.remove_model(second, second_us); // not withdrawn before
  for (const channel::model_entry& m : {one, two}) {
    c.predict(m, io);
    const channel::reply r = c.read_result();
    CHECK(r.how == channel::outcome::refused);
    CHECK(r.why == channel::reason::unknown_model);
  }
}

TEST_CASE("c abi: options of a channel out of range are refused in one line") {
  const auto refused = [](auto change) {
    gsched_channel_options o = abi::default_channel_options();
    change(o);
    return code_of([&] { static_cast<void>(abi::host_options_of(o, "@x")); }) ==
           GSCHED_BAD_ARGUMENT;
  };
  CHECK(refused([](auto& o) { o.mode = 01000; }));
  CHECK(refused([](auto& o) { o.most_clients = 0; }));
  CHECK(refused([](auto& o) { o.in_flight = 0; }));
  CHECK(refused([](auto& o) { o.rate = -1; }));
  CHECK(refused([](auto& o) { o.burst = 0; }));
  CHECK(refused([](auto& o) { o.weight = 0; }));
  CHECK_FALSE(refused([](auto&) {}));
}
