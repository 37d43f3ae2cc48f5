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

/// Whether a created stream synchronises with the legacy default stream (cudaStreamNonBlocking:
/// no).
enum class stream_kind : std::uint8_t { blocking, non_blocking };

/// The meaning of stream_id{0} in a job, like nvcc's option --default-stream for a file.
enum class default_stream : std::uint8_t { legacy, per_thread };

inline constexpr stream_id stream_default{0};
inline constexpr stream_id stream_legacy{1}; ///< cudaStreamLegacy, whatever the default stream is
/// cudaStreamPerThread, whatever the default stream is
inline constexpr stream_id stream_per_thread{2};

/// A virtual stream of a waitlist: its launches in order; those before `next` are dispatched.
struct waitlist_stream {
  enum class standing : std::uint8_t {
    unlisted, ///< nothing pending, or it continues after its own in-flight work or host call
    ready,    ///< its next operation may be submitted
    due,      ///< its next host call may run
    blocked,  ///< its next entry waits for a record or for a legacy phase
  };
  using list_hook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;
  using tree_hook = bi::set_member_hook<bi::link_mode<bi::safe_link>>;

  waitlist_entry* head = nullptr; ///< oldest entry that has not ended
  waitlist_entry* next = nullptr; ///< oldest entry that is not fully dispatched
  waitlist_entry* tail = nullptr;
  std::size_t in_flight = 0; ///< device operations dispatched and not ended
  std::uint64_t order = 0;   ///< serial of `next`, while ready
  stream_id id{};
  stream_kind kind = stream_kind::blocking;
  standing where = standing::unlisted;
  bool alive = false;
  bool calling = false; ///< its host call is running
  std::optional<lane_id> lane{};
  list_hook wait_hook{};
  tree_hook ready_hook{};

  struct older {
    bool operator()(const waitlist_stream& a, const waitlist_stream& b) const noexcept {
      return a.order < b.order;
    }
  };
};

/// Streams that wait for the same condition, in the order in which they began to wait.
using waitlist_queue = bi::list<
    waitlist_stream,
    bi::member_hook<waitlist_stream, waitlist_stream::list_hook, &waitlist_stream::wait_hook>,
    bi::constant_time_size<false>>;

/// Streams by the serial of their next entry.
using waitlist_ready = bi::set<
    waitlist_stream,
    bi::member_hook<waitlist_stream, waitlist_stream::tree_hook, &waitlist_stream::ready_hook>,
    bi::compare<waitlist_stream::older>, bi::constant_time_size<false>>;

} // namespace gsched
