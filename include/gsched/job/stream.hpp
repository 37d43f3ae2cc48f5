// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>

#include <boost/intrusive/link_mode.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/intrusive/set_hook.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gsched {

namespace bi = boost::intrusive;
struct waitlist_entry;

/// How a created stream stands to the legacy default stream (cudaStreamNonBlocking or not).
enum class stream_kind : std::uint8_t { blocking, non_blocking };

/// What stream_id{0} is in a job, as nvcc's --default-stream says for a file.
enum class default_stream : std::uint8_t { legacy, per_thread };

inline constexpr stream_id stream_default{0};
inline constexpr stream_id stream_legacy{1};     ///< cudaStreamLegacy, whatever the default is
inline constexpr stream_id stream_per_thread{2}; ///< cudaStreamPerThread, likewise

/// A virtual stream as its waitlist keeps it: launched work in order, in flight up to `next`.
struct waitlist_stream {
  enum class standing : std::uint8_t {
    unlisted, ///< nothing pending, or its own work in flight or host call comes first
    ready,    ///< its next operation may be submitted
    due,      ///< its next host call may run
    blocked,  ///< waits for a record or for the legacy stream's order
  };
  using list_hook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;
  using tree_hook = bi::set_member_hook<bi::link_mode<bi::safe_link>>;

  waitlist_entry* head = nullptr; ///< oldest that has not ended
  waitlist_entry* next = nullptr; ///< oldest that is not wholly dispatched
  waitlist_entry* tail = nullptr;
  std::size_t in_flight = 0; ///< device operations dispatched and not ended
  std::uint64_t order = 0;   ///< serial of next, while ready
  stream_id id{};
  stream_kind kind = stream_kind::blocking;
  standing where = standing::unlisted;
  bool alive = false;
  bool calling = false; ///< its host call runs now
  std::optional<lane_id> lane{};
  list_hook wait_hook{};
  tree_hook ready_hook{};

  struct older {
    bool operator()(const waitlist_stream& a, const waitlist_stream& b) const noexcept {
      return a.order < b.order;
    }
  };
};

/// Streams that wait for the same thing, in the order in which they began to.
using waitlist_queue = bi::list<
    waitlist_stream,
    bi::member_hook<waitlist_stream, waitlist_stream::list_hook, &waitlist_stream::wait_hook>,
    bi::constant_time_size<false>>;

/// Streams by the age of their next entry.
using waitlist_ready = bi::set<
    waitlist_stream,
    bi::member_hook<waitlist_stream, waitlist_stream::tree_hook, &waitlist_stream::ready_hook>,
    bi::compare<waitlist_stream::older>, bi::constant_time_size<false>>;

} // namespace gsched
