// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/arena_blocks.hpp>
#include <gsched/channel/detail/clock.hpp>
#include <gsched/channel/detail/messages.hpp>
#include <gsched/channel/detail/server_page.hpp>
#include <gsched/channel/detail/unix_socket.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/region.hpp>
#include <gsched/channel/slot_ring.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gsched::channel {

/// How a client waits for replies.
enum class wait_by : std::uint8_t {
  hybrid,  ///< sleeps until a request is almost finished, then polls
  polling, ///< least latency, and a core for it
  waiting, ///< sleeps until the reply is there: least CPU time
};

struct client_options {
  std::uint32_t slots = 256;                           ///< most requests in flight; a power of two
  std::uint64_t arena_bytes = std::uint64_t{64} << 20; ///< for payloads
  wait_by wait = wait_by::hybrid;
  /// hybrid: begins to poll so long before a request is expected to end ...
  duration poll_before = std::chrono::microseconds{100};
  /// ... and polls until so long after; then it sleeps until the reply is there.
  duration poll_for = std::chrono::microseconds{200};
  duration connect_within = std::chrono::seconds{5};
};

/// A model of a server. Its payload is its inputs, and behind them its outputs.
struct model_entry {
  std::uint32_t id = 0;
  std::string name;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  [[nodiscard]] std::uint64_t payload_bytes() const noexcept { return input_bytes + output_bytes; }
};

struct predict_options {
  duration deadline{};    ///< after its arrival; zero: the server's default
  bool real_time = false; ///< service_class::real_time
};

/// The end of a request.
struct reply {
  std::uint64_t id = 0; ///< of predict
  outcome how = outcome::finished;
  reason why = reason::none;
  std::uint32_t segments = 0;
  duration waited{};  ///< at the server, from arrival to start
  duration latency{}; ///< at the server, from arrival to end
  std::string text{}; ///< one line; empty if it has finished
};

/// A client of a server in another process of this machine: requests and replies pass through
/// memory that both map, and payloads are used in place.
///
///     channel::client c("/run/gsched.sock");
///     const channel::model_entry m = c.model("resnet18");
///     const std::span<std::byte> io = c.allocate(m.payload_bytes());
///     fill(io.first(m.input_bytes));
///     c.predict(m, io);
///     channel::reply r = c.read_result();      // outputs are in io.subspan(m.input_bytes)
///
/// Source   Ng, Demoulin, Liu, SOSP'23, sections 5.1 and 5.3, doi:10.1145/3600006.3613163.
/// Errors   gsched::error, one line. closed once the server has gone: all requests that have no
///          reply are then of unknown outcome, and the client is of no more use; make another.
/// Cost     predict: 64 bytes and an exchange, and a system call if the server sleeps.
/// Threads  one at a time; shared_client is for several. A forked child may only destroy it.
class client {
public:
  /// Connects.
  /// Errors   io without a server; bad_option or closed if the server turns it away.
  explicit client(const std::string& socket, const client_options& how = {})
      : how_(how), path_(socket), memory_(region::make(how.slots, how.arena_bytes)),
        blocks_(how.arena_bytes), requests_(memory_.requests(), how.slots),
        replies_(memory_.replies(), how.slots),
        socket_(detail::connect_to(socket, how.connect_within)) {
    detail::message hello;
    hello.kind = detail::message_kind::hello;
    // A server that has turned the client away already has said why.
    if (!detail::try_send(socket_.get(), hello, memory_.file()) &&
        !detail::wait_readable(socket_.get(), duration::zero()))
      gone();
    detail::file_descriptor page;
    const detail::message m = receive(&page);
    if (m.kind != detail::message_kind::welcome || !page)
      throw error(errc::io, "channel: " + path_ + ": no welcome, expected one");
    memory_.close_file();
    server_.emplace(std::move(page));
    most_ = std::clamp<std::uint32_t>(m.in_flight, 1, how.slots);
    asked_.resize(most_);
    for (std::uint32_t i = most_; i > 0; --i) free_.push_back(i - 1);
    number_ = m.client;
  }
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  /// Leaves. A forked child only frees its own copy.
  ~client() {
    if (::getpid() == process_) leave();
  }

  // Models ------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<model_entry> models() {
    detail::message ask;
    ask.kind = detail::message_kind::list;
    if (!detail::try_send(socket_.get(), ask)) gone();
    std::vector<model_entry> all;
    for (;;) {
      const detail::message m = receive();
      if (m.kind == detail::message_kind::list) return all;
      if (m.kind != detail::message_kind::model) continue;
      all.push_back({m.id, std::string(detail::get_text(m.text)), m.input_bytes, m.output_bytes});
      if (m.left == 0) return all;
    }
  }
  /// Errors   unknown_name, with the names that there are.
  [[nodiscard]] model_entry model(std::string_view name) {
    std::string known;
    for (model_entry& m : models()) {
      if (m.name == name) return std::move(m);
      known.append(known.empty() ? "" : ", ").append(m.name);
    }
    throw error(errc::unknown_name,
                "model '" + std::string(name) + "': unknown, expected " +
                    (known.empty() ? "one of a server that has models" : known));
  }

  // Payloads ----------------------------------------------------------------------------------

  /// All of it, for a caller that divides it itself.
  [[nodiscard]] std::span<std::byte> arena() const noexcept { return memory_.arena(); }
  /// A piece of the arena, aligned to 64 bytes, until it is released.
  /// Errors   too_small if no piece of that size is free.
  [[nodiscard]] std::span<std::byte> allocate(std::uint64_t bytes) {
    const std::optional<std::uint64_t> at = blocks_.try_take(bytes);
    if (!at)
      throw error(errc::too_small,
                  "channel: no " + std::to_string(bytes) + " bytes free in an arena of " +
                      std::to_string(how_.arena_bytes) + ", expected a larger one");
    return memory_.arena().subspan(*at, bytes);
  }
  void release(std::span<std::byte> piece) noexcept { blocks_.give_back(offset_of(piece)); }

  // Requests ----------------------------------------------------------------------------------

  /// Submits; never waits. `io` is in the arena, and stays untouched until the reply is read.
  /// Returns the number of the request.
  /// Errors   too_small while as many requests as the server takes have no reply that was read;
  ///          bad_option for a payload outside the arena.
  std::uint64_t predict(std::uint32_t model, std::span<std::byte> io,
                        const predict_options& how = {}) {
    const std::optional<std::uint64_t> id = try_predict(model, io, how);
    if (!id)
      throw error(errc::too_small, "channel: " + std::to_string(most_) +
                                       " requests without a reply that was read, expected fewer");
    return *id;
  }
  std::uint64_t predict(const model_entry& m, std::span<std::byte> io,
                        const predict_options& how = {}) {
    return predict(m.id, io, how);
  }
  /// None where predict throws too_small.
  [[nodiscard]] std::optional<std::uint64_t>
  try_predict(std::uint32_t model, std::span<std::byte> io, const predict_options& how = {}) {
    const std::span<std::byte> arena = memory_.arena();
    if (io.data() < arena.data() || io.data() + io.size() > arena.data() + arena.size())
      throw error(errc::bad_option,
                  "channel: a payload outside the arena, expected one of allocate()");
    if (requests_.written() - replies_.read() >= most_ || free_.empty()) return std::nullopt;
    request_slot r;
    r.cancel_index = free_.back();
    free_.pop_back();
    asked& one = asked_[r.cancel_index];
    one.id = requests_.written();
    if (std::exchange(one.is_cancelled, false)) // the word's former request, which has ended
      // unordered: the request publishes it
      sync::atomic_ref<std::uint32_t>(memory_.cancels()[r.cancel_index]).store(0, sync::relaxed);
    r.model = model;
    r.id = requests_.written();
    r.payload = {offset_of(io), io.size()};
    r.deadline_ns = std::max<std::int64_t>(how.deadline.count(), 0);
    r.flags = how.real_time ? std::uint32_t{flag_real_time} : 0u;
    requests_.write(r);
    // [W2] seq_cst <-> [W2] seq_cst in host::fall_asleep: after the request was written (exchange)
    if (sync::atomic_ref<std::uint32_t>(server_->words().asleep).load(sync::seq_cst) != 0 &&
        !detail::try_send(socket_.get(), detail::message{}) && detail::has_hung_up(socket_.get()))
      gone();
    return r.id;
  }
  /// Asks for the end of a request; it gets a reply all the same, which may say that it finished.
  /// One whose reply was read is ignored.
  /// Cost     O(most_in_flight()).
  void cancel(std::uint64_t id) {
    if (id >= requests_.written()) return;
    const auto at =
        std::find_if(asked_.begin(), asked_.end(), [&](const asked& a) { return a.id == id; });
    if (at == asked_.end()) return;
    at->is_cancelled = true;
    // unordered: the counter publishes it
    sync::atomic_ref<std::uint32_t>(memory_.cancels()[at - asked_.begin()]).store(1, sync::relaxed);
    // [P2] seq_cst -> [P2] acquire, seq_cst in connection::poll and has_work
    sync::atomic_ref<std::uint32_t>(memory_.words().cancels).fetch_add(1, sync::seq_cst);
    if (sync::atomic_ref<std::uint32_t>(server_->words().asleep).load(sync::seq_cst) != 0)
      static_cast<void>(detail::try_send(socket_.get(), detail::message{}));
  }

  /// The next reply, in the order of ends; waits as the options say.
  /// Errors   closed if the server has gone, and every reply that it gave was read; bad_option with
  ///          no request in flight.
  [[nodiscard]] reply read_result() {
    if (in_flight() == 0)
      throw error(errc::bad_option, "channel: read_result without a request in flight");
    for (;;)
      if (std::optional<reply> r = read_result_within(duration::max())) return std::move(*r);
  }
  /// None if no reply is there: "would block".
  [[nodiscard]] std::optional<reply> try_read_result() {
    reply_slot r;
    const std::uint32_t slot = replies_.index();
    if (!replies_.try_read(r)) return std::nullopt;
    if (r.cancel_index < most_ && asked_[r.cancel_index].id == r.id) {
      asked_[r.cancel_index].id = asked::none;
      free_.push_back(r.cancel_index);
    }
    reply out{r.id, r.how, r.why, r.segments, duration{r.waited_ns}, duration{r.latency_ns}, {}};
    if (r.how != outcome::finished) {
      const std::span<char> line = memory_.text(slot);
      out.text.assign(line.data(), static_cast<std::size_t>(
                                       std::find(line.begin(), line.end(), '\0') - line.begin()));
    }
    return out;
  }
  /// None if no reply has come in time.
  [[nodiscard]] std::optional<reply> read_result_within(duration most) {
    return wait_for_reply(most, alone{*this});
  }

  /// Requests without a reply that was read.
  [[nodiscard]] std::uint64_t in_flight() const noexcept {
    return requests_.written() - replies_.read();
  }
  [[nodiscard]] std::uint32_t most_in_flight() const noexcept { return most_; }
  /// The server's number of this client.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// Readable when it may be worth to look for a reply, after arm(): for an event loop. models()
  /// takes wake-ups too: arm again after it.
  [[nodiscard]] int file() const noexcept { return socket_.get(); }
  /// Has the server wake this client for the next reply. False if one is there already.
  [[nodiscard]] bool arm() noexcept { return arm(wait_kind::finished); }
  /// Takes the wake-ups that have come. False if the server has gone.
  bool take_wake_ups() noexcept {
    detail::message m;
    for (;;) switch (detail::try_receive(socket_.get(), m)) {
      case detail::received::packet:
        if (m.ends_ns != 0) ends_ns_ = m.ends_ns;
        continue;
      case detail::received::nothing: return true;
      default: return false;
      }
  }
  /// Ends the connection, as if the server had gone. Requests without a reply are of unknown
  /// outcome, and whoever waits for one is woken. What is in the arena stays.
  void leave() noexcept { detail::shut_down(socket_.get()); }

private:
  friend class shared_client;

  /// The request whose reply was not read and that has a cancellation word.
  struct asked {
    static constexpr std::uint64_t none = ~std::uint64_t{0};
    std::uint64_t id = none;
    bool is_cancelled = false; ///< what the word says, also when the request has ended
  };

  /// The reader of a client that no other thread uses.
  struct alone {
    static constexpr bool is_shared = false;
    client& of;
    /// Readable after a wake-up.
    [[nodiscard]] int file() const noexcept { return of.socket_.get(); }
    /// While the value lives, no other thread does what is not for two at once.
    [[nodiscard]] bool hold() const noexcept { return true; }
    [[nodiscard]] bool take_wake_ups() const noexcept { return of.take_wake_ups(); }
  };

  [[nodiscard]] std::uint64_t offset_of(std::span<std::byte> io) const noexcept {
    return static_cast<std::uint64_t>(io.data() - memory_.arena().data());
  }
  [[nodiscard]] bool arm(wait_kind what) noexcept {
    // [W1] seq_cst <-> [W1] seq_cst in connection::wake_for: before it looks once more
    sync::atomic_ref<std::uint32_t>(memory_.words().waiting)
        .store(static_cast<std::uint32_t>(what), sync::seq_cst);
    return !replies_.was_written(sync::seq_cst);
  }
  /// Waits as the options say, for a reader such as `alone`.
  template <class Reader>
  [[nodiscard]] std::optional<reply> wait_for_reply(duration most, const Reader& by) {
    const std::int64_t until = after_now(most);
    if (how_.wait == wait_by::polling && is_busy(by)) return poll_until(until, by);
    std::optional<reply> r;
    bool hybrid = how_.wait == wait_by::hybrid; // until it has polled once
    while (!(r = take(by)) && now() < until) {
      ends_ns_ = 0;
      if (!sleep(hybrid ? wait_kind::almost : wait_kind::finished, until, by))
        return last_or_gone(by);
      if (ends_ns_ == 0) continue;
      hybrid = false;
      const std::int64_t polls_at = std::min(until, ends_ns_ - how_.poll_before.count());
      const std::int64_t polls_until = ends_ns_ + how_.poll_for.count();
      while (now() < polls_at) {
        if ((r = take(by))) return r;
        if (!sleep(wait_kind::finished, polls_at, by)) return last_or_gone(by);
      }
      if ((r = poll_until(std::min(until, polls_until), by))) return r;
    }
    return r;
  }
  /// Without a request in flight polling would be for nothing.
  template <class Reader>
  [[nodiscard]] bool is_busy(const Reader& by) const {
    [[maybe_unused]] const auto held = by.hold();
    return in_flight() > 0;
  }
  template <class Reader>
  [[nodiscard]] std::optional<reply> take(const Reader& by) {
    if constexpr (Reader::is_shared) // no lock where nothing is there
      if (!replies_.was_written(sync::acquire)) return std::nullopt;
    [[maybe_unused]] const auto held = by.hold();
    return try_read_result();
  }
  /// Until the server wakes it, or until a time. False if the server has gone.
  template <class Reader>
  [[nodiscard]] bool sleep(wait_kind what, std::int64_t until, const Reader& by) {
    if (arm(what)) detail::wait_readable(by.file(), duration{until - now()});
    // unordered: a wake-up too many does no harm
    sync::atomic_ref<std::uint32_t>(memory_.words().waiting).store(0, sync::relaxed);
    return by.take_wake_ups();
  }
  template <class Reader>
  [[nodiscard]] std::optional<reply> poll_until(std::int64_t until, const Reader& by) {
    for (std::uint32_t n = 1;; ++n) {
      if (std::optional<reply> r = take(by)) return r;
      if (n % 256 == 0) {
        if (!by.take_wake_ups()) return last_or_gone(by);
        if (now() >= until) return std::nullopt;
      }
      pause();
    }
  }
  /// What the server wrote before it went is read first.
  template <class Reader>
  [[nodiscard]] std::optional<reply> last_or_gone(const Reader& by) {
    if (std::optional<reply> r = take(by)) return r;
    [[maybe_unused]] const auto held = by.hold();
    gone();
  }
  [[nodiscard]] static std::int64_t now() noexcept { return detail::monotonic_ns(); }
  [[nodiscard]] static std::int64_t after_now(duration most) noexcept {
    return saturating_add(time_point{duration{now()}}, most).time_since_epoch().count();
  }
  [[noreturn]] void gone() const {
    throw error(errc::closed, "channel: " + path_ +
                                  ": the server has gone, expected one that runs; " +
                                  std::to_string(in_flight()) + " requests have no reply");
  }
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  /// The next packet but a wake-up.
  [[nodiscard]] detail::message receive(detail::file_descriptor* file = nullptr) {
    const std::int64_t until = after_now(how_.connect_within);
    for (;;) {
      detail::message m;
      switch (detail::try_receive(socket_.get(), m, file)) {
      case detail::received::gone: gone();
      case detail::received::garbage:
        throw error(errc::io, "channel: " + path_ + ": not a server of gsched's, expected one");
      case detail::received::packet:
        if (m.version != version)
          throw error(errc::bad_option, "channel: " + path_ + ": a server of version " +
                                            std::to_string(m.version) + ", expected " +
                                            std::to_string(version));
        if (m.kind == detail::message_kind::wake) continue;
        if (m.kind == detail::message_kind::refusal)
          throw error(errc::bad_option,
                      "channel: " + path_ + ": refused: " + std::string(detail::get_text(m.text)));
        return m;
      case detail::received::nothing: break;
      }
      const duration left{until - now()};
      if (left <= duration::zero())
        throw error(errc::timed_out, "channel: " + path_ + ": no answer in time, expected one");
      detail::wait_readable(socket_.get(), left);
    }
  }

  client_options how_;
  std::string path_;
  region memory_;
  detail::arena_blocks blocks_;
  slot_writer<request_slot> requests_;
  slot_reader<reply_slot> replies_;
  std::uint32_t most_ = 0;
  std::uint32_t number_ = 0;
  std::vector<asked> asked_;        ///< by cancellation word
  std::vector<std::uint32_t> free_; ///< words without a request
  std::optional<detail::server_page> server_;
  std::int64_t ends_ns_ = 0; ///< of the last wake-up for what is almost finished
  detail::file_descriptor socket_;
  pid_t process_ = ::getpid();
};

} // namespace gsched::channel
