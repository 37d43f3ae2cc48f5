// SPDX-License-Identifier: Apache-2.0
//
// All that a client can write: requests, words and cancellations of any bytes, in any order.
#include <gsched/channel/detail/connection.hpp>
#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/detail/model_table.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/channel/region.hpp>
#include <gsched/channel/slot_ring.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/request_source.hpp>
#include <gsched/server/server.hpp>

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace gsched;
namespace ch = gsched::channel;

constexpr std::uint32_t slots = 8;
constexpr std::uint64_t arena_bytes = 4096;

void require(bool holds) {
  if (!holds) std::abort();
}

/// A server that ends what it takes when it is told to.
struct taker final : request_taker {
  explicit taker(std::span<std::byte> all) : arena(all) {}

  [[nodiscard]] bool has_model(std::uint32_t model) const noexcept override { return model != 2; }
  void take(request_record& r) noexcept override {
    const auto from = static_cast<std::size_t>(r.payload.data() - arena.data());
    require(r.payload.data() >= arena.data() && from <= arena.size() &&
            r.payload.size() <= arena.size() - from);
    for (const request_record* const other : taken)
      require(r.payload.empty() || other->payload.empty() ||
              r.payload.data() + r.payload.size() <= other->payload.data() ||
              other->payload.data() + other->payload.size() <= r.payload.data());
    require(r.model < 2 && r.payload.size() >= 128 * r.model);
    std::fill(r.payload.begin(), r.payload.end(), std::byte{1});
    taken.push_back(&r);
    require(taken.size() <= slots);
  }
  void cancel(request_record& r) noexcept override {
    const auto at = std::find(taken.begin(), taken.end(), &r);
    require(at != taken.end());
    end(static_cast<std::size_t>(at - taken.begin()), request_status::cancelled);
  }
  void end(std::size_t n, request_status how) {
    request_record& r = *taken[n];
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(n));
    r.almost_finished({});
    r.server->end(r, how, r.arrival_ns + 1);
  }

  std::span<std::byte> arena;
  std::vector<request_record*> taken;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto state = std::make_shared<gsched::detail::server_state>();
  static const auto models = [] {
    auto all = std::make_unique<ch::detail::model_table>(4);
    all->offer(0, {0, 0});
    all->offer(1, {64, 64});
    all->offer(2, {0, 0});
    return all;
  }();
  ch::region client = ch::region::make(slots, arena_bytes);
  const int copy = ::fcntl(client.file(), F_DUPFD_CLOEXEC, 0);
  int pair[2];
  if (copy < 0 || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return 0;
  const ch::detail::file_descriptor end(pair[0]);
  ch::client_limits limits;
  limits.in_flight = 4;
  limits.bytes = 2048;
  auto server = std::make_unique<ch::detail::connection>(
      ch::region::adopt(ch::detail::file_descriptor(copy)), ch::detail::file_descriptor(pair[1]), 0,
      limits, *models, state, 0);
  taker to(server->arena());
  ch::slot_writer<ch::request_slot> ring(client.requests(), slots);
  const auto byte = [&]() -> std::uint8_t {
    if (size == 0) return 0;
    --size;
    return *data++;
  };
  const auto fill = [&](void* at, std::size_t bytes) {
    const std::size_t n = std::min(bytes, size);
    std::memcpy(at, data, n);
    data += n;
    size -= n;
  };
  while (size > 0) switch (byte() % 8) {
    case 0: { // a request that is nearly right
      ch::request_slot r;
      r.model = byte() % 4;
      r.payload = {64u * byte(), 16u * byte()};
      r.flags = byte() % 3;
      ring.write(r);
      break;
    }
    case 1: { // any bytes, in turn
      ch::request_slot r;
      fill(&r, sizeof r);
      ring.write(r);
      break;
    }
    case 2: fill(&client.requests()[byte() % slots], sizeof(ch::request_slot)); break;
    case 3: fill(&client.words(), sizeof(ch::client_words)); break;
    case 4: client.cancels()[byte() % slots] = byte(); break;
    case 5: static_cast<void>(server->poll(to)); break;
    case 6:
      if (!to.taken.empty())
        to.end(byte() % to.taken.size(), static_cast<request_status>(1 + byte() % 4));
      break;
    case 7: fill(client.replies(), slots * sizeof(ch::reply_slot)); break;
    }
  server->leave();
  static_cast<void>(server->has_work());
  static_cast<void>(server->poll(to)); // cancels all
  require(to.taken.empty() && server->try_drain() && server->was_drained());
  const ch::detail::connection_counts& n = server->counts();
  require(n.read == n.finished + n.failed + n.rejected + n.cancelled + n.refused);
  return 0;
}
