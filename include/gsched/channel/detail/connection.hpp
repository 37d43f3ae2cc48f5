// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/clock.hpp>
#include <gsched/channel/detail/model_table.hpp>
#include <gsched/channel/detail/range_set.hpp>
#include <gsched/channel/detail/unix_socket.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/channel/region.hpp>
#include <gsched/channel/slot_ring.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/server/request_record.hpp>
#include <gsched/server/request_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched::channel::detail {

/// Counts of one client's requests. Every request that was read ends once:
/// read = in flight + finished + failed + rejected + cancelled + refused.
struct connection_counts {
  std::uint64_t read = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t rejected = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t refused = 0;
  std::uint64_t wakes = 0; ///< sent to the client

  connection_counts& operator+=(const connection_counts& o) noexcept {
    read += o.read;
    finished += o.finished;
    failed += o.failed;
    rejected += o.rejected;
    cancelled += o.cancelled;
    refused += o.refused;
    wakes += o.wakes;
    return *this;
  }
};

/// The server's side of one client: reads its requests, checks them, and writes its replies.
///
/// Nothing in the client's memory is trusted: a request is copied once, and then checked; a place
/// in the region follows from the layout that was checked when the client came. A client that
/// breaks the protocol gets refusals, or loses replies of its own.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 5.1 and 5.3, doi:10.1145/3600006.3613163.
/// Differs  the payload must not overlap that of another request in flight.
/// Cost     O(1) a request besides range_set; no allocation after the constructor.
/// Threads  the server's, but for leave and was_drained.
class connection {
public:
  connection* next_posted = nullptr; ///< in the host's inboxes

  /// Errors   bad_alloc, of the records for so many requests in flight.
  connection(region memory, file_descriptor socket, std::uint32_t client,
             const client_limits& limits, const model_table& models,
             const std::shared_ptr<gsched::detail::server_state>& server,
             std::int64_t default_deadline_ns)
      : memory_(std::move(memory)), socket_(std::move(socket)), models_(models), limits_(limits),
        most_(std::min(limits.in_flight, memory_.shape().slots)), client_(client),
        default_deadline_ns_(default_deadline_ns), rate_(limits.rate, limits.burst), ranges_(most_),
        requests_(memory_.requests(), memory_.shape().slots),
        replies_(memory_.replies(), memory_.shape().slots) {
    records_.reserve(most_);
    for (std::uint32_t i = 0; i < most_; ++i) {
      records_.push_back(std::make_unique<record>(server, *this));
      records_.back()->next = std::exchange(free_, records_.back().get());
    }
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Takes what has come, at most `burst` requests, so that no client keeps others waiting.
  bool poll(request_taker& to) noexcept {
    announce();
    if (leaving_.load(sync::acquire)) return cancel_all(to); // [P1] acquire <- [P1] release
    // Before the requests: those that it cancels are read below, or in a later round.
    const std::uint32_t cancels =
        // [P2] acquire <- [P2] release in client::cancel
        sync::atomic_ref<std::uint32_t>(memory_.words().cancels).load(sync::acquire);
    int n = 0;
    for (std::int64_t now_ns = 0; n < burst; ++n) {
      request_slot r;
      if (!requests_.try_read(r)) break;
      requests_.prefetch(1); // written by another core: it comes while this one is taken
      if (now_ns == 0) now_ns = monotonic_ns();
      take(r, to, now_ns);
    }
    announce(); // refusals
    if (cancels == cancels_) return n > 0;
    if (n < burst)
      cancels_ = cancels; // otherwise one of a request that was not read may be among them
    cancel_asked(to);
    return true;
  }
  /// Whether poll would have to do something; ordered after a seq_cst store that says "asleep".
  [[nodiscard]] bool has_work() const noexcept {
    return announces_ || requests_.was_written(sync::seq_cst) || leaving_.load(sync::acquire) ||
           sync::atomic_ref<std::uint32_t>(memory_.words().cancels).load(sync::seq_cst) != cancels_;
  }
  /// No request is taken any more.
  void close() noexcept { closed_ = true; }
  /// True once: it has left, and the server holds nothing of it.
  [[nodiscard]] bool try_drain() noexcept {
    if (!leaving_.load(sync::acquire) || in_flight_ != 0) return false;
    drained_.store(true, sync::release); // [P3] release -> [P3] acquire in was_drained
    return true;
  }

  // Of any thread -----------------------------------------------------------------------------
  /// The client has gone: what of it is not on the device ends as cancelled.
  void leave() noexcept { leaving_.store(true, sync::release); } // [P1]
  [[nodiscard]] bool is_leaving() const noexcept { return leaving_.load(sync::relaxed); }
  /// Before its first request.
  [[nodiscard]] file_descriptor give_socket() noexcept { return std::move(socket_); }
  /// It can be destroyed.
  [[nodiscard]] bool was_drained() const noexcept { return drained_.load(sync::acquire); } // [P3]
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] std::uint32_t client() const noexcept { return client_; }
  [[nodiscard]] const client_limits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::span<std::byte> arena() const noexcept { return memory_.arena(); }
  [[nodiscard]] std::uint32_t most_in_flight() const noexcept { return most_; }

  /// On the server's thread, or once it was drained.
  [[nodiscard]] const connection_counts& counts() const noexcept { return counts_; }

private:
  static constexpr int burst = 16;

  struct record final : request_record {
    record(std::shared_ptr<gsched::detail::server_state> s, connection& c)
        : request_record(std::move(s)), of(c) {}
    void almost_finished(duration left) noexcept override { of.almost_finished(left); }
    void was_published() noexcept override { of.reply(*this); }
    void dispose() noexcept override { of.give_back(*this); }
    using request_record::renew;

    connection& of;
    record* next = nullptr; ///< among the free ones
    bool busy = false;
    std::uint64_t number = 0; ///< the client's
    std::uint32_t cancel_index = 0;
    payload_range where{};
  };

  void take(const request_slot& r, request_taker& to, std::int64_t now_ns) noexcept {
    ++counts_.read;
    const auto [why, text] = check(r, to, now_ns);
    if (why != reason::none) return refuse(r, why, text);
    record& t = *std::exchange(free_, free_->next);
    t.renew(1);
    t.busy = true;
    t.number = r.id;
    t.cancel_index = r.cancel_index;
    t.where = r.payload;
    t.model = r.model;
    t.client = client_;
    t.real_time = (r.flags & flag_real_time) != 0;
    t.arrival_ns = now_ns;
    const std::int64_t within = r.deadline_ns > 0 ? r.deadline_ns : default_deadline_ns_;
    if (within > 0)
      t.deadline_ns =
          saturating_add(time_point{duration{now_ns}}, duration{within}).time_since_epoch().count();
    t.payload = memory_.arena().subspan(r.payload.offset, r.payload.bytes);
    bytes_ += r.payload.bytes;
    ++in_flight_;
    to.take(t);
  }

  struct verdict {
    reason why = reason::none;
    const char* text = "";
  };
  [[nodiscard]] verdict check(const request_slot& r, const request_taker& to,
                              std::int64_t now_ns) noexcept {
    if (closed_) return {reason::server_closed, "the server takes no more requests"};
    const std::optional<model_needs> needs = models_.find(r.model);
    if (!needs || !to.has_model(r.model))
      return {reason::unknown_model, "unknown model, expected one that the server lists"};
    if ((r.flags & ~std::uint32_t{flag_real_time}) != 0 || r.deadline_ns < 0)
      return {reason::bad_option, "a flag that does not exist, or a deadline below 0"};
    if (r.cancel_index >= memory_.shape().slots)
      return {reason::bad_option, "a cancellation word that does not exist"};
    const std::uint64_t arena = memory_.shape().arena_bytes;
    if (r.payload.offset % 64 != 0 || r.payload.offset > arena ||
        r.payload.bytes > arena - r.payload.offset)
      return {reason::bad_range, "payload outside the arena, or not aligned to 64 bytes"};
    if (r.payload.bytes < needs->total())
      return {reason::wrong_size, "payload smaller than the model's inputs and outputs"};
    if (in_flight_ >= most_)
      return {reason::over_in_flight, "more requests in flight than the client may have"};
    if (r.payload.bytes > limits_.bytes - bytes_)
      return {reason::over_bytes, "more bytes in flight than the client may have"};
    if (!rate_.try_take(now_ns))
      return {reason::over_rate, "more requests a second than the client may send"};
    if (!ranges_.try_insert(r.payload))
      return {reason::overlap, "payload overlaps that of a request in flight"};
    return {};
  }
  void refuse(const request_slot& r, reason why, std::string_view text) noexcept {
    ++counts_.refused;
    reply_slot out;
    out.id = r.id;
    out.cancel_index = r.cancel_index;
    out.how = outcome::refused;
    out.why = why;
    write(out, text);
  }

  void reply(const record& t) noexcept {
    reply_slot out;
    out.id = t.number;
    out.cancel_index = t.cancel_index;
    out.segments = t.segments;
    out.waited_ns = (t.start_ns != 0 ? t.start_ns : t.end_ns) - t.arrival_ns;
    out.latency_ns = t.end_ns - t.arrival_ns;
    switch (t.status) {
    case request_status::finished:
      out.how = outcome::finished;
      ++counts_.finished;
      break;
    case request_status::failed:
      out.how = outcome::failed;
      ++counts_.failed;
      break;
    case request_status::rejected:
      out.how = outcome::rejected;
      out.why = reason::deadline;
      ++counts_.rejected;
      break;
    default:
      out.how = outcome::cancelled;
      out.why = reason::by_client;
      ++counts_.cancelled;
      break;
    }
    if (out.how != outcome::finished && t.code) out.why = reason_of(t.code);
    write(out, t.error);
  }
  [[nodiscard]] static reason reason_of(const std::error_code& c) noexcept {
    if (c == make_error_code(errc::closed)) return reason::server_closed;
    if (c == make_error_code(errc::device_failed)) return reason::device_failed;
    if (c == make_error_code(errc::out_of_memory)) return reason::out_of_memory;
    return reason::job_failed;
  }

  void write(const reply_slot& r, std::string_view text) noexcept {
    const std::span<char> line = memory_.text(replies_.index());
    const std::size_t n = std::min(text.size(), line.size() - 1);
    if (n > 0 || r.how != outcome::finished) {
      std::copy_n(text.data(), n, line.data());
      line[n] = '\0';
    }
    replies_.write(r, sync::release);
    replies_.prefetch(); // it comes while the next request ends
    announces_ = true;
  }

  /// Wakes the client if it sleeps for the replies that were written since the last call: once for
  /// all of a round, since the order costs the time of a cache line from another core.
  void announce() noexcept {
    if (!std::exchange(announces_, false)) return;
    // [W1] seq_cst <-> [W1] seq_cst in client::sleep: after replies were written. Of two
    // read-modify-writes of one word the later one sees what came before the earlier one.
    wake_for(wait_kind::finished, waiting().fetch_add(0, sync::seq_cst));
  }
  /// A request is almost finished: it ends in about `left`.
  void almost_finished(duration left) noexcept {
    // unordered: the reply wakes a client that this misses
    wake_for(wait_kind::almost, waiting().load(sync::relaxed), left);
  }
  [[nodiscard]] sync::atomic_ref<std::uint32_t> waiting() const noexcept {
    return sync::atomic_ref<std::uint32_t>(memory_.words().waiting);
  }
  /// Wakes a client that sleeps for this, or for something that comes before it.
  void wake_for(wait_kind what, std::uint32_t sleeps_for, duration left = {}) noexcept {
    if (sleeps_for == 0 || sleeps_for > static_cast<std::uint32_t>(what)) return;
    // unordered: one wake a sleep is enough, and more do no harm
    waiting().store(0, sync::relaxed);
    ++counts_.wakes;
    // A client that does not take its packets is not waited for; it asks its ring again.
    message wake;
    if (what == wait_kind::almost)
      wake.ends_ns =
          saturating_add(time_point{duration{monotonic_ns()}}, left).time_since_epoch().count();
    static_cast<void>(try_send(socket_.get(), wake));
  }

  void give_back(record& t) noexcept {
    t.busy = false;
    ranges_.erase(t.where);
    bytes_ -= t.where.bytes;
    --in_flight_;
    t.next = std::exchange(free_, &t);
  }

  void cancel_asked(request_taker& to) noexcept {
    for (const std::unique_ptr<record>& t : records_)
      if (t->busy &&
          // [P2] acquire above
          sync::atomic_ref<std::uint32_t>(memory_.cancels()[t->cancel_index]).load(sync::relaxed) !=
              0)
        to.cancel(*t);
  }
  bool cancel_all(request_taker& to) noexcept {
    if (std::exchange(gave_up_, true)) return false;
    for (const std::unique_ptr<record>& t : records_)
      if (t->busy) to.cancel(*t);
    return true;
  }

  region memory_;
  file_descriptor socket_;
  const model_table& models_;
  client_limits limits_;
  std::uint32_t most_;
  std::uint32_t client_;
  std::int64_t default_deadline_ns_;
  rate_limit rate_;
  range_set ranges_;
  slot_reader<request_slot> requests_;
  slot_writer<reply_slot> replies_;
  std::vector<std::unique_ptr<record>> records_;
  record* free_ = nullptr;
  std::uint32_t in_flight_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t cancels_ = 0;
  bool announces_ = false; ///< replies were written, and the client may sleep
  bool closed_ = false;
  bool gave_up_ = false;
  connection_counts counts_;
  sync::atomic<bool> leaving_{false};
  sync::atomic<bool> drained_{false};
};

} // namespace gsched::channel::detail
