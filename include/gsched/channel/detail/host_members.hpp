// SPDX-License-Identifier: Apache-2.0
#pragma once

// The member functions of gsched::channel::host; included at the end of host.hpp.

#include <gsched/channel/detail/clock.hpp>
#include <gsched/channel/host.hpp>
#include <gsched/channel/limits.hpp>

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::channel {

namespace detail {
inline constexpr const char* no_files_left = "the server has no file descriptors left";
}

struct host::session {
  detail::file_descriptor socket;  ///< its own, until the connection has it
  detail::file_descriptor process; ///< a pidfd; none where the process is not visible
  peer who{};
  std::int64_t until_ns = 0; ///< for its hello
  /// A packet for each sleep of the server's thread, which spins for tens of microseconds before
  /// it.
  detail::rate_limit packets{20000, 256};
  std::int64_t rests_until_ns = 0; ///< 0: its socket is watched
  int key = -1;                    ///< the socket's number
  std::unique_ptr<detail::connection> connected{};
  double weight = 0;
  bool parted = false;
};

inline host::host(server& s, host_options how)
    : server_(s), how_(std::move(how)), models_(gsched::detail::server_state::most_models),
      listener_(detail::listen_on(how_.socket)), epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), path_(how_.socket),
      connects_(how_.connect_rate, how_.connect_burst), polled_(page_.words(), how_.most_clients) {
  if (!how_.limits) how_.limits = [](const peer&) { return client_limits{}; };
  if (!epoll_ || !bell_ || !watch(listener_.get(), listener_.get()) ||
      !watch(bell_.get(), bell_.get()))
    detail::refuse_socket(how_.socket, "epoll", errno);
  if (how_.socket.front() != '@' && ::chmod(how_.socket.c_str(), how_.mode) != 0)
    detail::refuse_socket(how_.socket, "chmod", errno);
  server_.attach(*this);
  thread_ = std::thread([this] { serve(); });
}

/// Events of the file carry that number.
inline bool host::watch(int file, int number) noexcept {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = number;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, file, &e) == 0;
}

inline host::~host() {
  stopping_.store(true, sync::relaxed); // unordered: the bell publishes nothing else
  static_cast<void>(::eventfd_write(bell_.get(), 1));
  thread_.join();
  try {
    server_.detach(*this);
  } catch (const std::exception&) { // the thread was abandoned, and calls nothing more
  }
  // What the abandoned thread may still read stays until the process ends.
  for (auto& [key, s] : sessions_)
    if (s->connected && !s->connected->was_drained()) static_cast<void>(s->connected.release());
}

inline void host::offer(model_id model, const std::string& name, std::uint64_t input_bytes,
                        std::uint64_t output_bytes) {
  constexpr std::uint64_t most = layout::most_arena;
  if (name.empty() || name.size() >= detail::most_text)
    throw error(errc::bad_option, "offer: a name of " + std::to_string(name.size()) +
                                      " bytes, expected 1 to " +
                                      std::to_string(detail::most_text - 1));
  if (input_bytes > most || output_bytes > most)
    throw error(errc::bad_option, "offer: " + name + ": a payload larger than an arena can be");
  static_cast<void>(server_.model(model)); // it exists
  const std::lock_guard lock(mutex_);
  for (const auto& [id, other] : names_)
    if (other == name)
      throw error(errc::bad_option, "offer: " + name + ": offered already, expected another name");
  if (!names_.emplace(index(model), name).second || models_.find(index(model)))
    throw error(errc::bad_option,
                "offer: model " + std::to_string(index(model)) + ": offered already");
  models_.offer(index(model), {input_bytes, output_bytes});
}

inline void host::withdraw(model_id model) {
  const std::lock_guard lock(mutex_);
  if (names_.erase(index(model)) == 0)
    throw error(errc::unknown_name,
                "withdraw: model " + std::to_string(index(model)) + ": not offered");
  models_.withdraw(index(model));
}

inline host_statistics host::statistics() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// Of the server's thread ------------------------------------------------------------------------

inline bool host::poll(request_taker& to) noexcept {
  return polled_.poll(to, [&] { static_cast<void>(::eventfd_write(bell_.get(), 1)); });
}
inline bool host::fall_asleep() noexcept { return polled_.fall_asleep(); }
inline void host::wake_up() noexcept { polled_.wake_up(); }
inline void host::close() noexcept { polled_.close(); }

// Of the host's thread --------------------------------------------------------------------------

inline void host::serve() {
  pthread_setname_np(pthread_self(), "gsched-channel");
  bool leaving = false;
  gsched::detail::stall_detector stalls(*server_.state());
  for (;;) {
    bool knocked = false;
    std::array<epoll_event, 64> events;
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               resting_.empty() && rests_until_ns_ == 0 ? 100 : 1);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == bell_.get()) {
        eventfd_t ignored = 0;
        static_cast<void>(::eventfd_read(bell_.get(), &ignored));
      } else if (fd == listener_.get()) {
        knocked = true;
      } else {
        // A pidfd carries the number of its session's socket, less 1, made negative.
        const auto at = sessions_.find(fd >= 0 ? fd : -1 - fd);
        if (at == sessions_.end()) continue;
        if (fd < 0)
          part(*at->second); // the process has died
        else
          hear(*at->second);
      }
    }
    // [S1] acquire: the server's thread has ended, and reads nothing more
    const bool over = server_.state()->stopped.load(sync::acquire) != 0;
    if ((over || stopping_.load(sync::relaxed)) && !std::exchange(leaving, true)) {
      stop_listening();
      listener_.reset(); // those that wait to be accepted learn it
      for (auto& [key, s] : sessions_) part(*s);
    }
    polled_.take_left([&](detail::connection& c) {
      for (auto& [key, s] : sessions_)
        if (s->connected.get() == &c) return bury(*s);
    });
    if (over) // after those above, which are freed already
      for (auto& [key, s] : sessions_)
        if (s->connected) bury(*s);
    stalls.look();
    const std::int64_t now = detail::monotonic_ns();
    std::erase_if(resting_, [&](int key) { return end_rest(key, now); });
    for (auto& [key, s] : sessions_)
      if (!s->connected && !s->parted && now >= s->until_ns) {
        turn_away(s->socket.get(), "no hello in time");
        part(*s);
      }
    std::erase_if(sessions_,
                  [](const auto& each) { return each.second->parted && !each.second->connected; });
    // At the end, since a new client's socket may have the number of one that an event above meant.
    if (!leaving && (knocked || rests_)) accept_some();
    if (stopping_.load(sync::relaxed) && (sessions_.empty() || server_.state()->whose.was_taken()))
      return;
  }
}

inline void host::stop_listening() noexcept {
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr));
}

/// Until then those that connect wait in its queue.
inline void host::rest_listener(std::int64_t until_ns) noexcept {
  stop_listening();
  rests_ = true;
  rests_until_ns_ = until_ns;
}

inline void host::accept_some() {
  if (rests_) {
    if (detail::monotonic_ns() < rests_until_ns_) return;
    rests_until_ns_ = 0;
    rests_ = !watch(listener_.get(), listener_.get());
  }
  for (int n = 0; n < 16 && !rests_; ++n)
    if (!accept_one()) return;
}

/// False if there is none to be accepted now.
inline bool host::accept_one() {
  const auto [accepted, refused] = spare_.accept(listener_.get(), SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (refused) {
    turn_away(accepted, detail::no_files_left);
    spare_.put_back(accepted);
    return true;
  }
  detail::file_descriptor fd(accepted);
  if (!fd) {
    if (errno == ECONNABORTED || errno == EINTR) return true;
    if (errno == EAGAIN) return false;
    // The listener stays readable: it is left alone for a round, or this thread would never sleep.
    rest_listener(0);
    return false;
  }
  try {
    const peer who = detail::peer_of(fd.get());
    if (const std::int64_t now = detail::monotonic_ns(); !connects_.try_take(who, now)) {
      turn_away(fd.get(), "more connections a second than a process may make, expected fewer");
      if (refusals_.try_take(now)) return true;
      rest_listener(now + 3'000'000); // others wait so long to be accepted, and no longer
      return false;
    }
    if (sessions_.size() >= how_.most_clients) {
      turn_away(fd.get(), "the server has as many clients as it takes");
      return true;
    }
    auto s = std::make_unique<session>();
    s->key = fd.get();
    s->who = who;
    s->until_ns = detail::monotonic_ns() + how_.patience.count();
    if (!watch(s->key, s->key)) {
      turn_away(fd.get(), "the server cannot watch one more socket");
      return true;
    }
    if (s->who.pid > 0) {
      s->process =
          detail::file_descriptor(static_cast<int>(::syscall(SYS_pidfd_open, s->who.pid, 0)));
      if (!s->process && errno == ESRCH) return true; // it has died already
      if (s->process)                                 // without it the end of the socket tells
        static_cast<void>(watch(s->process.get(), -1 - s->key));
    }
    s->socket = std::move(fd);
    sessions_[s->key] = std::move(s);
  } catch (const std::exception& e) {
    if (fd) turn_away(fd.get(), e.what());
  }
  return true;
}

/// A client that sends more packets than it can have reason to is not heard for a while, so that it
/// does not take the CPU time of this thread. Its end is seen by its process, or after the rest.
inline void host::rest(session& s, std::int64_t now_ns) {
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, s.key, nullptr));
  s.rests_until_ns = now_ns + 3'000'000;
  resting_.push_back(s.key);
}

/// True if the session with that key does not rest any more.
inline bool host::end_rest(int key, std::int64_t now_ns) {
  const auto at = sessions_.find(key);
  if (at == sessions_.end() || at->second->parted || at->second->rests_until_ns == 0) return true;
  session& s = *at->second;
  if (now_ns < s.rests_until_ns) return false;
  s.rests_until_ns = 0;
  if (!watch(s.key, s.key)) part(s);
  return true;
}

inline void host::hear(session& s) {
  if (s.parted || s.rests_until_ns != 0) return;
  const int socket = s.connected ? s.connected->socket() : s.socket.get();
  const std::int64_t now_ns = detail::monotonic_ns();
  for (int packets = 0; packets < 16; ++packets) { // of each client in turn
    if (!s.packets.try_take(now_ns)) return rest(s, now_ns);
    detail::message m;
    detail::file_descriptor file;
    bool lost_file = false;
    switch (detail::try_receive(socket, m, &file, &lost_file)) {
    case detail::received::nothing: return;
    case detail::received::gone: return part(s);
    case detail::received::garbage: turn_away(socket, "not a message of gsched's"); return part(s);
    case detail::received::packet: break;
    }
    if (m.version != version) {
      turn_away(socket, "a client of version " + std::to_string(m.version) + ", expected " +
                            std::to_string(version));
      return part(s);
    }
    if (!s.connected) {
      if (m.kind == detail::message_kind::hello) {
        greet(s, std::move(file), lost_file);
        if (s.parted) return;
        continue;
      }
    } else if (m.kind == detail::message_kind::wake) {
      server_.wake();
      continue;
    } else if (m.kind == detail::message_kind::list) {
      list_models(s);
      continue;
    }
    turn_away(socket, "a message out of turn");
    return part(s);
  }
}

inline void host::greet(session& s, detail::file_descriptor file, bool lost_file) {
  try {
    if (stopping_.load(sync::relaxed)) throw error(errc::closed, "the server is closing");
    if (!file)
      throw error(errc::bad_option, lost_file ? detail::no_files_left
                                              : "channel: a hello without a region, expected one");
    const client_limits limits = how_.limits(s.who).checked();
    region memory = region::adopt(std::move(file));
    memory.close_file();
    if (memory.shape().total_bytes() > limits.region_bytes)
      throw error(errc::bad_option,
                  "channel: a region of " + std::to_string(memory.shape().total_bytes()) +
                      " bytes, expected at most " + std::to_string(limits.region_bytes));
    const client_id id = client_of_weight(limits.weight);
    s.weight = limits.weight;
    std::unique_ptr<detail::connection> c;
    try {
      c = std::make_unique<detail::connection>(std::move(memory), std::move(s.socket), index(id),
                                               limits, models_, server_.state(),
                                               server_.options().deadline.count());
      if (how_.pin) how_.pin(c->arena());
    } catch (...) {
      free_clients_[limits.weight].push_back(id);
      if (c) s.socket = c->give_socket();
      throw;
    }
    s.connected = std::move(c);
    detail::message welcome;
    welcome.kind = detail::message_kind::welcome;
    welcome.client = index(id);
    welcome.in_flight = s.connected->most_in_flight();
    welcome.bytes = limits.bytes;
    { // before the client can know
      const std::lock_guard lock(mutex_);
      ++counts_.accepted;
      ++counts_.connected;
    }
    const bool sent = detail::try_send(s.connected->socket(), welcome, page_.file());
    polled_.join(*s.connected);
    server_.wake();
    if (!sent) part(s);
  } catch (const std::exception& e) {
    turn_away(s.socket.get(), e.what());
    part(s);
  }
}

inline void host::list_models(session& s) {
  const std::lock_guard lock(mutex_);
  auto left = static_cast<std::uint32_t>(names_.size());
  detail::message m;
  m.kind = detail::message_kind::list;
  bool sent = left > 0 || detail::try_send(s.connected->socket(), m);
  m.kind = detail::message_kind::model;
  for (const auto& [id, name] : names_) {
    const detail::model_needs needs = models_.find(id).value_or(detail::model_needs{});
    m.id = id;
    m.left = --left;
    m.input_bytes = needs.input_bytes;
    m.output_bytes = needs.output_bytes;
    detail::set_text(m.text, name);
    sent = sent && detail::try_send(s.connected->socket(), m);
  }
  if (!sent) part(s); // it asks, but does not read
}

/// What the client has on the device ends first.
inline void host::part(session& s) {
  if (std::exchange(s.parted, true)) return;
  const int socket = s.connected ? s.connected->socket() : s.socket.get();
  if (socket >= 0) static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr));
  if (s.process)
    static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, s.process.get(), nullptr));
  s.process.reset();
  if (!s.connected) return s.socket.reset();
  s.connected->leave();
  server_.wake();
}

/// The server holds nothing of the client any more.
inline void host::bury(session& s) {
  if (how_.unpin) how_.unpin(s.connected->arena());
  free_clients_[s.weight].push_back(client_id{s.connected->client()});
  const detail::connection_counts n = s.connected->counts();
  s.connected.reset();
  const std::lock_guard lock(mutex_);
  --counts_.connected;
  counts_.requests += n;
}

inline void host::turn_away(int socket, const std::string& why) noexcept {
  detail::message m;
  m.kind = detail::message_kind::refusal;
  detail::set_text(m.text, why);
  static_cast<void>(detail::try_send(socket, m));
  const std::lock_guard lock(mutex_);
  ++counts_.turned_away;
}

/// A client of the server stays for good, and so those that have left are used again.
inline client_id host::client_of_weight(double weight) {
  std::vector<client_id>& free = free_clients_[weight];
  if (free.empty()) return server_.add_client(weight);
  const client_id id = free.back();
  free.pop_back();
  return id;
}

} // namespace gsched::channel
