// SPDX-License-Identifier: Apache-2.0
#include <gsched/notify/ring.hpp>
#include <gsched/notify/word.hpp>
#include <gsched/occupancy/footprint.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace {

using namespace gsched;

constexpr std::uint32_t sms = 4;
constexpr std::uint64_t segments = 6;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Any 64 bits decode or are refused; what decodes packs to the same bits.
void round_trip(std::uint64_t word) {
  const std::optional<notification> n = unpack(word);
  if (!n) return;
  require(n->blocks >= 1 && n->blocks <= max_group_blocks && n->sm < word_layout::sm_limit);
  require(with_lap(pack(*n), lap_of(word)) == word);
  require(unpack(pack(*n)) == n);
}

kernel_demand kernel(std::uint32_t blocks) {
  launch_shape s;
  s.grid.x = blocks;
  s.block.x = 256;
  s.registers_per_thread = 40;
  return demand_of(limits_for(9, 0), s);
}

/// What a GPU gone wild could report: the account stays within bounds and comes back to zero.
struct accounting {
  accounting() {
    for (std::uint64_t s = 0; s < segments; ++s) {
      footprint f;
      f.widest = demand;
      f.blocks = 3 * demand.blocks;
      account.charge(segment_id{s}, f);
    }
  }

  /// The instance says which segment and operation, as a dispatcher would look them up.
  void take(const notification& n) {
    const segment_id s{n.instance % (segments + 1)};
    const std::uint32_t operation = n.instance / 16 % 4;
    if (n.type == notification_type::blocks_started)
      account.started(s, operation, demand, n.sm % (sms + 1), n.blocks);
    else
      account.ended(s, operation, n.sm % (sms + 1), n.blocks);
    std::uint64_t blocks = 0;
    for (std::uint32_t sm = 0; sm < sms; ++sm) blocks += account.usage(sm).blocks;
    require(blocks == account.resident_blocks());
    require(blocks <= segments * demand.blocks);
    require(account.waiting_blocks() <= segments * demand.blocks);
  }

  void finish() {
    for (std::uint64_t s = 0; s < segments; ++s) account.release(segment_id{s});
    require(account.load() == 0.0 && account.resident_blocks() == 0);
    require(account.waiting_blocks() == 0 && account.has_room());
    for (std::uint32_t sm = 0; sm < sms; ++sm) require(account.usage(sm) == sm_usage{});
  }

  kernel_demand demand = kernel(40);
  per_sm_accountant account{limits_for(9, 0), sm_count{sms}, {.max_outstanding = segments}};
};

} // namespace

/// Bytes are words: written to a ring in their turn, too late, or raw over a slot.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t slots = 8;
  std::array<std::uint64_t, slots> ring{};
  std::uint64_t ticket = 0;
  ring_writer writer(ring, ticket);
  ring_reader reader(ring);
  accounting gpu;
  const auto take = [&](const notification& n) { gpu.take(n); };

  while (size > sizeof(std::uint64_t)) {
    const std::uint8_t how = data[0];
    std::uint64_t word = 0;
    std::memcpy(&word, data + 1, sizeof word);
    data += sizeof word + 1;
    size -= sizeof word + 1;
    round_trip(word);
    switch (how % 4) {
    case 0: writer.publish(writer.claim(), word); break;
    case 1: static_cast<void>(writer.claim()); break;         // a writer that died
    case 2: writer.publish(word % (ticket + 1), word); break; // late, or a second time
    default: ring[how / 4 % slots] = word; break;             // not a writer at all
    }
    if (how >= 128) reader.drain(take, how % 8);
  }
  // Every ticket is dealt with; words that nobody wrote can only have counted as further ones.
  reader.finalise(ticket, take);
  require(reader.counts().tickets() >= ticket);
  gpu.finish();
  return 0;
}
