// SPDX-License-Identifier: Apache-2.0
#include "channel/soak/processes.hpp"
#include "sanitized.hpp"

#include <gsched/channel.hpp>
#include <gsched/core/error.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/server.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;
using channel::outcome;
using channel::reason;

namespace {

constexpr channel::client_options tiny{.slots = 2, .arena_bytes = 64};

/// A server of a model that takes no time and of one that takes for ever, behind a socket.
struct small_host {
  explicit small_host(channel::host_options how = {}) {
    if (how.socket.empty()) how.socket = soak::socket_name();
    socket = how.socket;
    host.emplace(server, how);
    host->offer(quick, "quick", 0, 0);
    host->offer(endless, "endless", 0, 0);
  }
  bool come_to(std::uint64_t connected) {
    return soak::wait_until([&] { return host->statistics().connected == connected; }, 10s);
  }
  bool serves() {
    channel::client c(socket, tiny);
    c.predict(index(quick), c.arena().first(0));
    return c.read_result().how == outcome::finished;
  }

  std::string socket;
  gsched::server server{[] { return sim::paced_device(sim::h200()); }, [] { return fifo(); }};
  model_id quick = soak::add_calling(server, {"quick", 1, 1us, 8}, 4, [](request_record&) {});
  model_id endless =
      soak::add_calling(server, {"endless", 500, 40ms, 8}, 1, [](request_record&) {});
  std::optional<channel::host> host;
};

/// A client without manners: it writes what it likes.
struct raw_client {
  explicit raw_client(const std::string& to, std::uint32_t slots = 8, std::uint64_t arena = 4096)
      : memory(channel::region::make(slots, arena)), socket(channel::detail::connect_to(to)),
        requests(memory.requests(), slots), replies(memory.replies(), slots) {}
  [[nodiscard]] bool greet() {
    channel::detail::message m;
    m.kind = channel::detail::message_kind::hello;
    return channel::detail::try_send(socket.get(), m, memory.file()) &&
           answer().kind == channel::detail::message_kind::welcome;
  }
  [[nodiscard]] channel::detail::message answer() {
    channel::detail::message m;
    m.kind = {};
    static_cast<void>(channel::detail::wait_readable(socket.get(), 5s));
    static_cast<void>(channel::detail::try_receive(socket.get(), m));
    return m;
  }
  [[nodiscard]] bool was_ended() {
    channel::detail::message m;
    for (int n = 0; n < 10 && channel::detail::wait_readable(socket.get(), 5s); ++n)
      if (channel::detail::try_receive(socket.get(), m) == channel::detail::received::gone)
        return true;
    return false;
  }
  [[nodiscard]] reason refusal_of(const channel::request_slot& r) {
    requests.write(r);
    static_cast<void>(channel::detail::try_send(socket.get(), {}));
    channel::reply_slot got;
    const bool came = soak::wait_until([&] { return replies.try_read(got); }, 5s);
    CHECK(came);
    CHECK(got.how == outcome::refused);
    return got.why;
  }

  channel::region memory;
  channel::detail::file_descriptor socket;
  channel::slot_writer<channel::request_slot> requests;
  channel::slot_reader<channel::reply_slot> replies;
};

template <class F>
std::string refusal(errc code, F f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == code);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}
bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// What a server does with requests: nothing, until they are cancelled.
struct idle_taker final : request_taker {
  [[nodiscard]] bool has_model(std::uint32_t) const noexcept override { return true; }
  void take(request_record& r) noexcept override { taken.push_back(&r); }
  void cancel(request_record& r) noexcept override {
    std::erase(taken, &r);
    ++cancelled;
    r.server->end(r, request_status::cancelled, r.arrival_ns + 1);
  }
  std::vector<request_record*> taken;
  int cancelled = 0;
};

} // namespace

TEST_CASE("channel host: a thousand clients come and go, and nothing of them stays") {
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit was = files;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  if (files.rlim_cur > was.rlim_cur) REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  {
    // Both ends are in this process: a client costs three descriptors.
    const std::size_t all = testing::sanitized ? 200 : 1000;
    const auto most = static_cast<std::size_t>(std::max(files.rlim_cur, was.rlim_cur)) - 100;
    const std::size_t at_once = std::min(all, most / 3);
    channel::host_options how;
    how.connect_rate = 0;
    small_host h(how);
    soak::holdings base;
    for (const bool measured : {false, true}) {
      for (std::size_t done = 0; done < all; done += at_once) {
        std::vector<std::unique_ptr<channel::client>> crowd;
        for (std::size_t n = 0; n < at_once; ++n)
          crowd.push_back(std::make_unique<channel::client>(h.socket, tiny));
        CHECK(h.host->statistics().connected == at_once);
        for (const auto& c : crowd) c->predict(index(h.quick), c->arena().first(0));
        std::size_t finished = 0;
        for (const auto& c : crowd) finished += c->read_result().how == outcome::finished;
        CHECK(finished == at_once);
        for (std::size_t n = 0; n < at_once; n += measured ? 50 : 1) // leave with work under way
          crowd[n]->predict(index(h.endless), crowd[n]->arena().first(0));
        // The server keeps the records of as many requests as were ever active together.
        const auto active = [&] { return h.server.statistics().requests.active; };
        if (!measured) CHECK(soak::wait_until([&] { return active() == at_once; }, 10s));
      }
      CHECK(h.come_to(0));
      CHECK(h.server.statistics().requests.active == 0);
      const soak::holdings now = soak::count_holdings();
      CHECK(now.regions == 0);
      if (measured) {
        CHECK(now.files == base.files);
        CHECK(now.mappings <= base.mappings + 2); // the allocator's own
        // A connection that stayed would be 1.5 kB and more.
        if (!testing::sanitized)
          CHECK(now.heap <= base.heap + 300 * static_cast<std::int64_t>(all));
      }
      base = now;
    }
    CHECK(h.host->statistics().turned_away == 0);
  }
  CHECK(::setrlimit(RLIMIT_NOFILE, &was) == 0);
}

TEST_CASE("channel host: without file descriptors it refuses in one line, and goes on") {
  small_host h;
  rlimit was{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &was) == 0);
  rlimit few = was;
  few.rlim_cur = static_cast<rlim_t>(soak::count_holdings().files) + 9; // 1 is for counting
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const pid_t clients = soak::spawn([&] { // which starts no thread
    const auto require = [](bool holds, const std::string& what) {
      if (!holds) throw std::runtime_error(what);
    };
    require(::setrlimit(RLIMIT_NOFILE, &was) == 0, "setrlimit");
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<channel::client>> crowd;
      int refused = 0;
      for (int n = 0; n < 20; ++n) {
        const auto begin = soak::clock::now();
        try {
          crowd.push_back(std::make_unique<channel::client>(h.socket, tiny));
        } catch (const error& e) {
          ++refused;
          require(e.code() == errc::bad_option && holds(e.what(), "no file descriptors left") &&
                      !holds(e.what(), "\n"),
                  e.what());
        }
        require(soak::clock::now() - begin < 4s, "a client waited for its refusal");
      }
      // Some that left a moment ago may not be gone yet.
      require(crowd.size() >= 2 && refused >= 10, std::to_string(refused) + " of 20 refused");
      for (const auto& c : crowd) c->predict(c->model("quick").id, c->arena().first(0));
      for (const auto& c : crowd)
        require(c->read_result().how == outcome::finished, "a request has not finished");
      crowd.clear();
      std::this_thread::sleep_for(50ms);
    }
  });
  CHECK(soak::join(clients) == 0);
  CHECK(::setrlimit(RLIMIT_NOFILE, &was) == 0);
  CHECK(h.come_to(0));
  CHECK(h.serves());
}

TEST_CASE("channel host: a client that is turned away learns why, though it spoke before") {
  channel::host_options how;
  how.most_clients = 1;
  small_host h(how);
  const channel::client first(h.socket, tiny);
  for (int n = 0; n < 40; ++n)
    CHECK(holds(refusal(errc::bad_option, [&] { channel::client second(h.socket, tiny); }),
                "as many clients as it takes"));
  // Its own message is never read: that resets the connection, ahead of the reason.
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
  channel::detail::file_descriptor server(pair[0]);
  const channel::detail::file_descriptor client(pair[1]);
  CHECK(channel::detail::try_send(client.get(), {}));
  CHECK(channel::detail::try_send(server.get(), {}));
  server.reset();
  channel::detail::message m;
  CHECK(channel::detail::try_receive(client.get(), m) == channel::detail::received::packet);
  CHECK(channel::detail::try_receive(client.get(), m) == channel::detail::received::gone);
}

TEST_CASE("channel host: last words are read while the server closes, whichever comes first") {
  int lost = 0, closed = 0;
  for (const auto until = soak::clock::now() + 1s; soak::clock::now() < until; ++closed) {
    std::array<int, 2> pair{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
    channel::detail::file_descriptor server(pair[0]);
    const channel::detail::file_descriptor client(pair[1]);
    if (closed % 2 != 0) CHECK(channel::detail::try_send(client.get(), {})); // unread: a reset
    std::atomic<bool> reads{false};
    std::thread closes([&] {
      while (!reads.load()) std::this_thread::yield();
      static_cast<void>(channel::detail::try_send(server.get(), {}));
      server.reset();
    });
    channel::detail::message m;
    channel::detail::received got;
    do {
      got = channel::detail::try_receive(client.get(), m);
      reads.store(true);
    } while (got == channel::detail::received::nothing);
    closes.join();
    lost += got != channel::detail::received::packet;
  }
  CHECK(closed > 0);
  CHECK(lost == 0);
}

TEST_CASE("channel host: a process that connects in a loop is refused, and others are served") {
  channel::host_options how;
  how.connect_rate = 0.001;
  how.connect_burst = 20;
  small_host h(how);
  channel::client good(h.socket, tiny);
  const auto connects = [&] {
    try {
      const channel::client c(h.socket, tiny);
      return true;
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
      CHECK(holds(e.what(), "more connections a second than a process may make"));
      return false;
    }
  };
  int accepted = 0, tried = 0, served = 0;
  for (const auto until = soak::clock::now() + 200ms; soak::clock::now() < until;) {
    for (int n = 0; n < 50; ++n, ++tried) accepted += connects();
    good.predict(index(h.quick), good.arena().first(0));
    served += good.read_result().how == outcome::finished;
  }
  CHECK(accepted == 19); // and the one that stays
  CHECK(tried >= 50);
  CHECK(served >= 1);
  const pid_t other = soak::spawn([&] { // has a rate of its own
    if (!connects()) throw std::runtime_error("another process was refused");
  });
  CHECK(soak::join(other) == 0);
  CHECK(h.come_to(1));
  const channel::host_statistics s = h.host->statistics();
  CHECK(s.accepted == 21);
  CHECK(s.turned_away == static_cast<std::uint64_t>(tried - accepted));
  for (const double wrong : {-1.0, std::numeric_limits<double>::infinity()}) {
    channel::host_options bad;
    bad.connect_rate = wrong;
    CHECK(holds(refusal(errc::bad_option, [&] { small_host other_host(bad); }), "connect_rate"));
  }
}

TEST_CASE("channel host: rates of processes that are full again are forgotten") {
  channel::detail::process_rates rates(100, 2);
  std::int64_t now_ns = 1'000'000'000;
  const auto take = [&](pid_t pid) { return rates.try_take({pid, 1000, 1000}, now_ns); };
  CHECK(take(1));
  CHECK(take(1));
  CHECK(!take(1));
  now_ns += 10'000'000;
  CHECK(take(1));
  CHECK(!take(1));
  CHECK(take(0)); // not visible here: counted by user
  CHECK(take(0));
  CHECK(!take(0));
  CHECK(rates.try_take({0, 1001, 1000}, now_ns));
  for (pid_t pid = 2; pid < 10'000; ++pid, now_ns += 1'000'000) CHECK(take(pid));
  CHECK(rates.size() < 200);
}

TEST_CASE("channel host: packets that are none end their client alone") {
  small_host h;
  channel::client good(h.socket, tiny);
  const std::int64_t files = soak::count_holdings().files;
  const std::string bytes(600, 'x');
  for (const std::size_t size : {0u, 1u, 255u, 257u, 600u})
    for (const bool greeted : {false, true}) {
      raw_client c(h.socket);
      if (greeted) CHECK(c.greet());
      CHECK(::send(c.socket.get(), bytes.data(), size, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
      if (size > 0)
        CHECK(std::string(channel::detail::get_text(c.answer().text)) ==
              "not a message of gsched's");
      CHECK(c.was_ended());
    }
  for (const std::uint32_t kind : {0u, 1u, 2u, 3u, 5u, 7u, ~0u}) { // all but list and wake
    raw_client c(h.socket);
    CHECK(c.greet());
    channel::detail::message m;
    m.kind = static_cast<channel::detail::message_kind>(kind);
    CHECK(channel::detail::try_send(c.socket.get(), m, c.memory.file()));
    CHECK(holds(std::string(channel::detail::get_text(c.answer().text)), "out of turn"));
    CHECK(c.was_ended());
  }
  { // files with every packet, more than it takes
    raw_client c(h.socket);
    CHECK(c.greet());
    for (int n = 0; n < 100; ++n)
      CHECK(channel::detail::try_send(c.socket.get(), {}, c.memory.file()));
    channel::request_slot none;
    none.model = 77;
    CHECK(c.refusal_of(none) == reason::unknown_model);
  }
  CHECK(h.come_to(1));
  CHECK(soak::wait_until([&] { return soak::count_holdings().files == files; }, 5s));
  good.predict(good.model("quick").id, good.arena().first(0));
  CHECK(good.read_result().how == outcome::finished);
}

TEST_CASE("channel host: a client that floods its socket is heard less, and still served") {
  small_host h;
  raw_client c(h.socket);
  REQUIRE(c.greet());
  channel::client good(h.socket, tiny);
  int sent = 0, served = 0;
  for (const auto until = soak::clock::now() + 200ms; soak::clock::now() < until;) {
    for (int n = 0; n < 1000; ++n) sent += channel::detail::try_send(c.socket.get(), {});
    good.predict(index(h.quick), good.arena().first(0));
    served += good.read_result().how == outcome::finished;
  }
  CHECK(sent < 20000); // 4,000 in that time, a burst, and what the socket holds
  CHECK(served >= 1);
  channel::request_slot r;
  r.model = 77;
  CHECK(c.refusal_of(r) == reason::unknown_model);
  c.socket.reset(); // the process lives on
  CHECK(h.come_to(1));
}

TEST_CASE("channel host: a request beyond its arena is refused, whatever its numbers") {
  small_host h;
  raw_client c(h.socket);
  REQUIRE(c.greet());
  const auto of = [&](std::uint64_t offset, std::uint64_t bytes) {
    channel::request_slot r;
    r.model = index(h.quick);
    r.payload = {offset, bytes};
    return c.refusal_of(r);
  };
  constexpr std::uint64_t most = ~std::uint64_t{0};
  CHECK(of(0, 4097) == reason::bad_range);
  CHECK(of(0, most) == reason::bad_range);
  CHECK(of(64, 4096) == reason::bad_range);
  CHECK(of(4096, 1) == reason::bad_range);
  CHECK(of(4160, 0) == reason::bad_range);
  CHECK(of(most - 63, 64) == reason::bad_range); // their sum is 0
  CHECK(of(most - 63, 128) == reason::bad_range);
  CHECK(of(32, 64) == reason::bad_range);
  channel::request_slot r;
  r.model = 77;
  CHECK(c.refusal_of(r) == reason::unknown_model);
  r = {};
  r.flags = 2;
  CHECK(c.refusal_of(r) == reason::bad_option);
  r = {};
  r.deadline_ns = -1;
  CHECK(c.refusal_of(r) == reason::bad_option);
  r = {};
  r.cancel_index = 8; // of 8
  CHECK(c.refusal_of(r) == reason::bad_option);
}

TEST_CASE("channel host: more regions that cannot be used") {
  channel::host_options how;
  how.limits = [](const channel::peer&) {
    channel::client_limits l;
    l.region_bytes = 64 * 1024;
    return l;
  };
  how.patience = 200ms;
  small_host h(how);
  using namespace channel::detail;
  const auto answer = [&](int file) {
    const file_descriptor s = connect_to(h.socket);
    message m;
    m.kind = message_kind::hello;
    CHECK(try_send(s.get(), m, file));
    CHECK(wait_readable(s.get(), 5s));
    CHECK(try_receive(s.get(), m) == received::packet);
    CHECK(m.kind == message_kind::refusal);
    return std::string(get_text(m.text));
  };
  const auto made = [](std::uint64_t bytes, channel::region_header header, int seals) {
    file_descriptor f(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (bytes >= sizeof header)
      CHECK(::pwrite(f.get(), &header, sizeof header, 0) == sizeof header);
    CHECK(::ftruncate(f.get(), static_cast<off_t>(bytes)) == 0);
    CHECK(::fcntl(f.get(), F_ADD_SEALS, seals) == 0);
    return f;
  };
  channel::region_header good;
  good.slots = 8;
  good.arena_bytes = 4096;
  const std::uint64_t enough = channel::layout::of(8, 4096).total_bytes();
  CHECK(holds(answer(made(0, good, F_SEAL_SHRINK).get()), "a region of 0 bytes"));
  CHECK(holds(answer(made(4095, good, F_SEAL_SHRINK).get()), "4095 bytes"));
  CHECK(holds(answer(made(enough - 1, good, F_SEAL_SHRINK).get()), "what its header says"));
  CHECK(holds(answer(made(enough, good, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE).get()), "writing"));
  channel::region_header large = good;
  large.arena_bytes = 128 * 1024;
  CHECK(holds(answer(made(1 << 20, large, F_SEAL_SHRINK).get()), "at most 65536"));
  large = good;
  large.slots = 1u << 31;
  CHECK(holds(answer(made(enough, large, F_SEAL_SHRINK).get()), "power of two"));
  large.slots = 0;
  CHECK(holds(answer(made(enough, large, F_SEAL_SHRINK).get()), "power of two"));
  const file_descriptor bell(::eventfd(0, EFD_CLOEXEC));
  CHECK(holds(answer(bell.get()), "not a memfd"));
  const file_descriptor socket = connect_to(h.socket); // says nothing
  CHECK(holds(answer(socket.get()), "not a memfd"));
  message m;
  CHECK(wait_readable(socket.get(), 5s));
  CHECK(try_receive(socket.get(), m) == received::packet);
  CHECK(holds(std::string(get_text(m.text)), "no hello in time"));
  CHECK(h.serves());
}

TEST_CASE("channel host: the file of a socket is removed by its owner alone") {
  const std::filesystem::path at =
      std::filesystem::temp_directory_path() / ("gsched-host-test-" + std::to_string(::getpid()));
  channel::host_options how;
  how.socket = at.string();
  { // a regular file
    std::ofstream(at) << "precious";
    CHECK(holds(refusal(errc::io, [&] { small_host h(how); }), "no socket"));
    std::string line;
    std::getline(std::ifstream(at), line);
    CHECK(line == "precious");
    std::filesystem::remove(at);
  }
  { // in use by a server that serves
    small_host one(how);
    CHECK(holds(refusal(errc::io, [&] { small_host two(how); }), "in use"));
    CHECK(one.serves());
    // Taken from it by another
    std::filesystem::remove(at);
    small_host other(how);
    one.host.reset();
    CHECK(std::filesystem::exists(at));
    CHECK(other.serves());
  }
  CHECK(!std::filesystem::exists(at));
  how.socket = "/no/such/folder/socket";
  refusal(errc::io, [&] { small_host h(how); });
  { // a listener that does not accept
    how.socket = soak::socket_name();
    const channel::detail::file_descriptor busy = channel::detail::listen_on(how.socket);
    std::vector<channel::detail::file_descriptor> queue;
    CHECK(holds(refusal(errc::timed_out,
                        [&] {
                          while (queue.size() < 1000)
                            queue.push_back(channel::detail::connect_to(how.socket, 20ms));
                        }),
                "accepts nobody"));
    queue.clear();
  }
}

TEST_CASE("channel host: a server that has ended lets nobody wait") {
  for (int n = 0; n < 5; ++n) {
    small_host h;
    std::optional<channel::client> c(std::in_place, h.socket, tiny);
    const std::uint32_t endless = index(h.endless);
    c->predict(endless, c->arena().first(0));
    std::thread leaver([&] { c.reset(); }); // while the server ends
    h.server.close(0s);
    leaver.join();
    refusal(errc::io, [&] {
      const auto until = soak::clock::now() + 5s;
      while (soak::clock::now() < until) try {
          channel::client late(h.socket, tiny);
        } catch (const error& e) {
          if (e.code() != errc::closed && e.code() != errc::bad_option) throw;
        }
    });
  }
}

TEST_CASE("channel connection: a request is cancelled, however many are before it") {
  const auto state = std::make_shared<gsched::detail::server_state>();
  channel::detail::model_table models(1);
  models.offer(0, {0, 0});
  channel::region client = channel::region::make(64, 64);
  const int copy = ::fcntl(client.file(), F_DUPFD_CLOEXEC, 0);
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
  const channel::detail::file_descriptor end(pair[0]);
  channel::detail::connection c(channel::region::adopt(channel::detail::file_descriptor(copy)),
                                channel::detail::file_descriptor(pair[1]), 0,
                                channel::client_limits{}, models, state, 0);
  channel::slot_writer<channel::request_slot> ring(client.requests(), 64);
  for (std::uint32_t n = 0; n < 40; ++n) {
    channel::request_slot r;
    r.cancel_index = n;
    ring.write(r);
  }
  client.cancels()[5] = client.cancels()[39] = 1;
  client.words().cancels = 2;
  idle_taker to;
  while (c.poll(to)) {
  }
  CHECK(to.taken.size() == 38);
  CHECK(to.cancelled == 2);
  // Requests 0 and 64 are in the same slot.
  for (int n = 0; n < 20; ++n)
    state->end(*to.taken.back(), request_status::finished, 2), to.taken.pop_back();
  for (std::uint32_t n = 40; n <= 64; ++n) {
    channel::request_slot r;
    r.cancel_index = n < 64 ? n : 5; // that of one which has ended
    ring.write(r);
  }
  client.cancels()[5] = 0;
  while (c.poll(to)) {
  }
  CHECK(to.taken.size() == 18 + 25);
  client.cancels()[0] = client.cancels()[5] = 1;
  client.words().cancels = 4;
  while (c.poll(to)) {
  }
  CHECK(to.cancelled == 4);
  CHECK(to.taken.size() == 18 + 25 - 2);
  c.leave();
  CHECK(c.poll(to));
  CHECK(to.taken.empty());
  CHECK(c.try_drain());
}
