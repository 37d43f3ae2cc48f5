// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

/// Clients in other processes: shared memory that a client brings and a server checks.
namespace gsched::channel {

/// Raised with every change of what the two sides exchange.
inline constexpr std::uint32_t version = 2;
inline constexpr std::uint64_t magic = 0x6c656e6e61684367; ///< "gChannel" in memory

/// The place of a payload in the arena of a client.
struct payload_range {
  std::uint64_t offset = 0; ///< from the start of the arena
  std::uint64_t bytes = 0;
  bool operator==(const payload_range&) const = default;
};

/// How a request has ended, as its client reads it. Values are part of the protocol.
enum class outcome : std::uint32_t {
  unknown = 0, ///< never sent: the connection ended before a reply
  finished = 1,
  failed = 2,    ///< its job threw, or the device failed
  rejected = 3,  ///< by the policy: its deadline cannot be met
  cancelled = 4, ///< by its client, or as the server or its model goes away
  refused = 5,   ///< not a request that the server takes: `code` says why
};

/// Why a request was refused, or failed. Values are part of the protocol.
enum class reason : std::uint32_t {
  none = 0,
  unknown_model = 1,
  bad_range = 2,      ///< outside the arena, or not aligned to 64 bytes
  wrong_size = 3,     ///< less than the model reads and writes
  overlap = 4,        ///< with another request in flight
  over_in_flight = 5, ///< the client's limit of requests in flight
  over_bytes = 6,     ///< the client's limit of bytes in flight
  over_rate = 7,      ///< the client's limit of requests a second
  bad_option = 8,     ///< a flag that does not exist, or a deadline below 0
  server_closed = 9,  ///< it takes no more requests
  device_failed = 10,
  job_failed = 11,
  out_of_memory = 12,
  deadline = 13,  ///< the policy's refusal
  by_client = 14, ///< cancelled by cancel()
  model_removed = 15,
};

enum request_flag : std::uint32_t {
  flag_real_time = 1, ///< service_class::real_time
};

/// A request as a client writes it. The server copies it once, and then checks the copy.
struct alignas(sync::cache_line) request_slot {
  std::uint32_t turn = 0; ///< the lap of the ring in which it was written, from 1; written last
  std::uint32_t model = 0;
  std::uint64_t id = 0;         ///< the client's number; the reply repeats it
  payload_range payload{};      ///< inputs, then outputs
  std::int64_t deadline_ns = 0; ///< after its arrival; 0: the server's default
  std::uint32_t flags = 0;      ///< of request_flag
  /// The cancellation word that is this request's alone until the client has read its reply.
  std::uint32_t cancel_index = 0;
  std::uint64_t reserved[2] = {};
};

/// A reply as the server writes it. The server never reads one.
struct alignas(sync::cache_line) reply_slot {
  std::uint32_t turn = 0;
  outcome how = outcome::finished;
  std::uint64_t id = 0;
  reason why = reason::none;
  std::uint32_t segments = 0;
  std::int64_t waited_ns = 0;     ///< from its arrival to its start, or to its end
  std::int64_t latency_ns = 0;    ///< from its arrival to its end
  std::uint32_t cancel_index = 0; ///< the request's
  std::uint32_t reserved0 = 0;
  std::uint64_t reserved[2] = {};
};

/// Words that one side writes and the other polls, each side's on a cache line of its own.
struct alignas(sync::cache_line) client_words {
  std::uint32_t waiting = 0; ///< wait_kind: the client sleeps, or is about to
  std::uint32_t cancels = 0; ///< cancellations asked for so far
};

/// What a client that sleeps is to be woken for.
enum class wait_kind : std::uint32_t {
  none = 0,     ///< it polls
  almost = 1,   ///< a request is almost finished: it will poll then
  finished = 2, ///< a reply is there
};

/// The start of a region: what the client chose, at offset 0. The server copies it once.
struct region_header {
  std::uint64_t magic = channel::magic;
  std::uint32_t version = channel::version;
  std::uint32_t slots = 0; ///< of each ring: the most requests in flight; a power of two
  std::uint64_t arena_bytes = 0;
  std::uint64_t reserved[5] = {};
};

static_assert(sizeof(request_slot) == 64 && sizeof(reply_slot) == 64 && sizeof(client_words) == 64);
static_assert(sizeof(region_header) == 64);
static_assert(std::is_trivially_copyable_v<request_slot> &&
              std::is_trivially_copyable_v<reply_slot>);
static_assert(offsetof(request_slot, turn) == 0 && offsetof(reply_slot, turn) == 0);

/// Where the parts of a region are, in bytes from its start. Both sides compute it from the two
/// numbers of the header, so no offset is ever read from shared memory.
struct layout {
  static constexpr std::uint32_t least_slots = 2;
  static constexpr std::uint32_t most_slots = 1u << 16;
  static constexpr std::uint64_t least_arena = 64;
  static constexpr std::uint64_t most_arena = std::uint64_t{1} << 40;
  static constexpr std::uint64_t page = 4096;

  std::uint32_t slots = 0;
  std::uint64_t arena_bytes = 0;

  /// Errors   bad_option, one line, for numbers out of range.
  [[nodiscard]] static layout of(std::uint32_t slots, std::uint64_t arena_bytes) {
    if (slots < least_slots || slots > most_slots || !std::has_single_bit(slots))
      throw error(errc::bad_option, "channel: rings of " + std::to_string(slots) +
                                        " slots, expected a power of two from " +
                                        std::to_string(least_slots) + " to " +
                                        std::to_string(most_slots));
    if (arena_bytes < least_arena || arena_bytes > most_arena || arena_bytes % 64 != 0)
      throw error(errc::bad_option, "channel: an arena of " + std::to_string(arena_bytes) +
                                        " bytes, expected a multiple of 64 from " +
                                        std::to_string(least_arena) + " to " +
                                        std::to_string(most_arena));
    return {slots, arena_bytes};
  }

  [[nodiscard]] constexpr std::uint64_t client_words_at() const noexcept { return 64; }
  /// A word for each request in flight, which chooses it: 1 if it is to be cancelled. Not one for
  /// each slot, since requests of several laps of the ring can be in flight at once.
  [[nodiscard]] constexpr std::uint64_t cancels_at() const noexcept { return 128; }
  [[nodiscard]] constexpr std::uint64_t requests_at() const noexcept {
    return up(cancels_at() + std::uint64_t{slots} * sizeof(std::uint32_t), 64);
  }
  [[nodiscard]] constexpr std::uint64_t replies_at() const noexcept {
    return requests_at() + std::uint64_t{slots} * sizeof(request_slot);
  }
  /// Text of the error of the reply in each slot, ended by a zero.
  static constexpr std::uint64_t text_bytes = 192;
  [[nodiscard]] constexpr std::uint64_t texts_at() const noexcept {
    return replies_at() + std::uint64_t{slots} * sizeof(reply_slot);
  }
  /// Begins a page, so that it can be registered with a GPU alone.
  [[nodiscard]] constexpr std::uint64_t arena_at() const noexcept {
    return up(texts_at() + slots * text_bytes, page);
  }
  [[nodiscard]] constexpr std::uint64_t total_bytes() const noexcept {
    return up(arena_at() + arena_bytes, page);
  }

private:
  [[nodiscard]] static constexpr std::uint64_t up(std::uint64_t n, std::uint64_t to) noexcept {
    return (n + to - 1) / to * to;
  }
};

} // namespace gsched::channel
