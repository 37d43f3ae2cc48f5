// SPDX-License-Identifier: Apache-2.0
#include "channel/hosted.hpp"

#include <gsched/channel.hpp>
#include <gsched/core/error.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace gsched;
using namespace std::chrono_literals;
using channel::outcome;
using channel::reason;
using channel_test::fresh_name;
using channel_test::half;
using channel_test::hosted;

namespace {

std::string line_of(errc code, const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(e.code() == code);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

} // namespace

TEST_CASE("channel: requests are served in place, however the client waits") {
  hosted h;
  for (const channel::wait_by by :
       {channel::wait_by::hybrid, channel::wait_by::polling, channel::wait_by::waiting}) {
    channel::client_options how = h.few();
    how.wait = by;
    channel::client c(h.socket, how);
    CHECK(c.models().size() == 2);
    const channel::model_entry m = c.model("brief");
    CHECK(m.payload_bytes() == 2 * half);
    std::vector<std::span<std::byte>> io;
    for (int n = 0; n < 8; ++n) io.push_back(c.allocate(m.payload_bytes()));
    for (int round = 0; round < 3; ++round) {
      for (std::size_t n = 0; n < io.size(); ++n) {
        for (std::size_t i = 0; i < half; ++i) io[n][i] = static_cast<std::byte>(i * 7 + n);
        CHECK(c.predict(m, io[n]) == static_cast<std::uint64_t>(round) * 8 + n);
      }
      CHECK(!c.try_predict(m.id, io[0]));
      CHECK(c.in_flight() == 8);
      for (std::size_t n = 0; n < io.size(); ++n) {
        const channel::reply r = c.read_result();
        CHECK(r.how == outcome::finished);
        CHECK(r.id == static_cast<std::uint64_t>(round) * 8 + n);
        CHECK(r.latency >= 100us);
        CHECK(r.text.empty());
        bool right = true;
        for (std::size_t i = 0; i < half; ++i)
          right = right && io[n][half + i] == io[n][half - 1 - i];
        CHECK(right);
      }
    }
    CHECK(!c.try_read_result());
    CHECK(!line_of(errc::bad_option, [&] { static_cast<void>(c.read_result()); }).empty());
  }
  CHECK(h.come_to(0));
  CHECK(h.host->statistics().requests.finished == 72);
  CHECK(h.host->statistics().requests.read == 72);
}

TEST_CASE("channel: a request that is none is refused, with the reason") {
  channel::host_options how;
  how.limits = [](const channel::peer& who) {
    CHECK(who.pid == ::getpid());
    CHECK(who.uid == ::getuid());
    channel::client_limits l;
    l.in_flight = 4;
    l.bytes = 8192;
    return l;
  };
  hosted h(how);
  channel::client c(h.socket, h.few());
  CHECK(c.most_in_flight() == 4);
  const channel::model_entry m = c.model("brief");
  const channel::model_entry endless = c.model("endless");
  const auto refused = [&](std::uint32_t model, std::span<std::byte> io) {
    const std::uint64_t id = c.predict(model, io);
    const channel::reply r = c.read_result();
    CHECK(r.id == id);
    CHECK(r.how == outcome::refused);
    CHECK(!r.text.empty());
    return r.why;
  };
  const std::span<std::byte> arena = c.arena();
  CHECK(refused(2, arena.first(64)) == reason::unknown_model);
  CHECK(refused(~0u, arena.first(64)) == reason::unknown_model);
  CHECK(refused(m.id, arena.subspan(1, 2 * half)) == reason::bad_range);
  CHECK(refused(m.id, arena.first(2 * half - 1)) == reason::wrong_size);
  CHECK(refused(m.id, arena.first(8193)) == reason::over_bytes);
  const std::uint64_t held = c.predict(endless, arena.first(640));
  CHECK(refused(m.id, arena.subspan(576, 2 * half)) == reason::overlap);
  c.cancel(held);
  CHECK(c.read_result().id == held);
  CHECK(!line_of(errc::bad_option, [&] {
           std::byte other[64];
           c.predict(m, other);
         }).empty());
  const std::string known = line_of(errc::unknown_name, [&] { static_cast<void>(c.model("x")); });
  CHECK(known.find("brief, endless") != std::string::npos);
  h.host->withdraw(h.brief);
  CHECK(refused(m.id, arena.first(2 * half)) == reason::unknown_model);
}

TEST_CASE("channel: the rate of a client is limited") {
  channel::host_options how;
  how.limits = [](const channel::peer&) {
    channel::client_limits l;
    l.rate = 0.001;
    l.burst = 2;
    return l;
  };
  hosted h(how);
  channel::client c(h.socket, h.few());
  const channel::model_entry m = c.model("brief");
  for (int n = 0; n < 4; ++n) {
    c.predict(m, c.arena().first(2 * half));
    const channel::reply r = c.read_result();
    CHECK((r.how == outcome::finished) == (n < 2));
    CHECK((r.why == reason::over_rate) == (n >= 2));
  }
}

TEST_CASE("channel: a request is cancelled, and its reply comes") {
  hosted h;
  channel::client c(h.socket, h.few());
  const channel::model_entry endless = c.model("endless");
  const std::uint64_t first = c.predict(endless, c.arena().first(0));
  const std::uint64_t second = c.predict(endless, c.arena().first(0));
  CHECK(!c.read_result_within(20ms));
  c.cancel(12345);
  c.cancel(second);
  channel::reply r = c.read_result();
  CHECK(r.id == second);
  CHECK(r.how == outcome::cancelled);
  CHECK(r.why == reason::by_client);
  c.cancel(first);
  CHECK(c.read_result().id == first);
}

TEST_CASE("channel: requests of one slot in two laps of the ring are cancelled, both") {
  hosted h;
  channel::client_options how = h.few();
  how.slots = 2;
  channel::client c(h.socket, how);
  const channel::model_entry endless = c.model("endless"), brief = c.model("brief");
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t first = c.predict(endless, c.arena().first(0));
    c.predict(brief, c.arena().first(2 * half));
    CHECK(c.read_result().how == outcome::finished);
    const std::uint64_t second = c.predict(endless, c.arena().first(0));
    CHECK(second == first + 2);
    c.cancel(first); // the server sees it together with the next, as a rule
    c.cancel(second);
    for (int n = 0; n < 2; ++n) {
      const std::optional<channel::reply> r = c.read_result_within(10s);
      REQUIRE(r);
      CHECK(r->how == outcome::cancelled);
    }
    c.cancel(first); // whose reply was read
    c.predict(brief, c.arena().first(2 * half));
    CHECK(c.read_result().how == outcome::finished);
    c.predict(brief, c.arena().first(2 * half));
    CHECK(c.read_result().how == outcome::finished);
  }
}

TEST_CASE("channel: clients come and go with work under way, and nothing of them stays") {
  hosted h;
  { channel::client warm(h.socket, h.few()); }
  CHECK(h.come_to(0));
  const std::size_t files = open_files();
  for (int n = 0; n < 50; ++n) {
    channel::client c(h.socket, h.few());
    c.predict(c.model("endless"), c.arena().first(64));
    if (n % 2 == 0) static_cast<void>(c.read_result_within(1ms));
  }
  CHECK(h.come_to(0));
  CHECK(open_files() == files);
  const channel::host_statistics s = h.host->statistics();
  CHECK(s.accepted == 51);
  CHECK(s.requests.read == s.requests.cancelled);
  CHECK(h.server.statistics().requests.active == 0);
}

TEST_CASE("channel: a client process that is killed loses what it had asked for") {
  hosted h;
  for (int n = 0; n < 5; ++n) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        channel::client c(h.socket, h.few());
        const channel::model_entry m = c.model("brief");
        c.predict(c.model("endless"), c.arena().subspan(4096, 64));
        for (bool told = false;;) {
          c.predict(m, c.arena().first(2 * half));
          static_cast<void>(c.read_result_within(1ms));
          if (!std::exchange(told, true) && ::write(ready[1], "x", 1) != 1) break;
        }
      } catch (...) {
      }
      ::_exit(1);
    }
    char x = 0;
    ::close(ready[1]);
    CHECK(::read(ready[0], &x, 1) == 1);
    ::close(ready[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(n));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(h.come_to(0));
  }
  channel::client c(h.socket, h.few());
  c.predict(c.model("brief"), c.arena().first(2 * half));
  CHECK(c.read_result().how == outcome::finished);
}

TEST_CASE("channel: the end of a host is an error at once, and a new one serves") {
  std::optional<hosted> h(std::in_place);
  const std::string socket = h->socket;
  channel::client c(socket, h->few());
  c.predict(c.model("endless"), c.arena().first(64));
  h.reset();
  for (int n = 0; n < 2; ++n) {
    try {
      const channel::reply r = c.read_result();
      CHECK(r.how == outcome::cancelled);
    } catch (const error& e) {
      CHECK((e.code() == errc::closed || e.code() == errc::bad_option));
    }
  }
  line_of(errc::io, [&] { channel::client again(socket); });
}

TEST_CASE("channel: a server that is closed refuses, and its host ends") {
  hosted h;
  channel::client c(h.socket, h.few());
  const channel::model_entry m = c.model("brief");
  h.server.close();
  try {
    c.predict(m, c.arena().first(2 * half));
    const channel::reply r = c.read_result();
    CHECK(r.why == reason::server_closed);
  } catch (const error& e) {
    CHECK(e.code() == errc::closed);
  }
}

TEST_CASE("channel: a region that cannot be used is refused in one line") {
  hosted h;
  using namespace channel::detail;
  const auto answer = [&](int file, std::uint32_t of_version = channel::version,
                          message_kind kind = message_kind::hello) {
    const file_descriptor s = connect_to(h.socket);
    message m;
    m.kind = kind;
    m.version = of_version;
    CHECK(try_send(s.get(), m, file));
    CHECK(wait_readable(s.get(), 5s));
    CHECK(try_receive(s.get(), m) == received::packet);
    CHECK(m.kind == message_kind::refusal);
    return std::string(get_text(m.text));
  };
  const auto sealed = [](std::uint64_t bytes, const channel::region_header& header, int seals) {
    file_descriptor f(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    CHECK(::ftruncate(f.get(), static_cast<off_t>(bytes)) == 0);
    CHECK(::pwrite(f.get(), &header, sizeof header, 0) == sizeof header);
    if (seals != 0) CHECK(::fcntl(f.get(), F_ADD_SEALS, seals) == 0);
    return f;
  };
  channel::region_header good;
  good.slots = 8;
  good.arena_bytes = 4096;
  const std::uint64_t enough = channel::layout::of(8, 4096).total_bytes();
  CHECK(answer(-1).find("without a region") != std::string::npos);
  CHECK(answer(-1, 99).find("version 99") != std::string::npos);
  CHECK(answer(-1, channel::version, message_kind::list).find("out of turn") != std::string::npos);
  CHECK(answer(sealed(enough, good, 0).get()).find("shrink") != std::string::npos);
  CHECK(answer(sealed(4096, good, F_SEAL_SHRINK).get()).find("bytes") != std::string::npos);
  CHECK(answer(sealed(enough, good, F_SEAL_SHRINK | F_SEAL_WRITE).get()).find("writing") !=
        std::string::npos);
  channel::region_header bad = good;
  bad.magic = 1;
  CHECK(answer(sealed(enough, bad, F_SEAL_SHRINK).get()).find("magic") != std::string::npos);
  bad = good;
  bad.version = 7;
  CHECK(answer(sealed(enough, bad, F_SEAL_SHRINK).get()).find("version 7") != std::string::npos);
  bad = good;
  bad.slots = 7;
  CHECK(answer(sealed(enough, bad, F_SEAL_SHRINK).get()).find("power of two") != std::string::npos);
  bad = good;
  bad.arena_bytes = ~std::uint64_t{63};
  CHECK(answer(sealed(enough, bad, F_SEAL_SHRINK).get()).find("arena") != std::string::npos);
  const file_descriptor plain(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  CHECK(answer(plain.get()).find("memfd") != std::string::npos);
  const file_descriptor s = connect_to(h.socket);
  CHECK(::send(s.get(), "abc", 3, MSG_NOSIGNAL) == 3);
  message m;
  CHECK(wait_readable(s.get(), 5s));
  CHECK(try_receive(s.get(), m) == received::packet);
  CHECK(std::string(get_text(m.text)) == "not a message of gsched's");
  CHECK(h.host->statistics().turned_away >= 11);
}

TEST_CASE("channel: a client refuses what is no server of gsched's, in one line and in time") {
  using namespace channel::detail;
  const channel::client_options how{
      .slots = 2, .arena_bytes = 64, .connect_within = std::chrono::milliseconds{300}};
  // What the client throws, where the other side of its socket does that.
  const auto line_of_peer = [&](errc code, const std::function<void(int)>& answer) {
    const std::string name = fresh_name();
    const file_descriptor listener = listen_on(name);
    std::thread peer([&] {
      CHECK(wait_readable(listener.get(), 5s));
      const file_descriptor s(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      message hello;
      CHECK(wait_readable(s.get(), 5s));
      CHECK(try_receive(s.get(), hello) == received::packet);
      answer(s.get());
    });
    const std::string line = line_of(code, [&] { channel::client c(name, how); });
    peer.join();
    return line;
  };
  const auto holds = [](const std::string& line, const char* part) {
    CHECK_MESSAGE(line.find(part) != std::string::npos, line);
  };
  const auto say = [](const std::string& bytes) {
    return [bytes](int s) { CHECK(::send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0); };
  };
  const auto welcome = [](int file, std::uint32_t of_version) {
    return [=](int s) {
      message m;
      m.kind = message_kind::welcome;
      m.version = of_version;
      CHECK(try_send(s, m, file));
    };
  };
  holds(line_of_peer(errc::io, say("abc")), "not a server of gsched's");
  holds(line_of_peer(errc::io, say(std::string(300, 'x'))), "not a server of gsched's");
  holds(line_of_peer(errc::closed, say("")), "the server has gone");
  holds(line_of_peer(errc::closed, [](int) {}), "the server has gone");
  holds(line_of_peer(errc::bad_option, welcome(-1, 99)), "a server of version 99");
  holds(line_of_peer(errc::io, welcome(-1, channel::version)), "no welcome");
  const file_descriptor open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(open.get(), 4096) == 0);
  holds(line_of_peer(errc::bad_option, welcome(open.get(), channel::version)), "a sealed memfd");
  holds(line_of_peer(errc::timed_out,
                     [](int s) { // says nothing, until the client leaves
                       message m;
                       CHECK(wait_readable(s, 5s));
                       CHECK(try_receive(s, m) == received::gone);
                     }),
        "no answer in time");

  // Paths: a socket of another kind, a file, and nothing.
  const std::filesystem::path at =
      std::filesystem::temp_directory_path() / ("gsched-client-test-" + std::to_string(::getpid()));
  {
    const auto [address, size] = address_of(at.string());
    const file_descriptor stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(stream.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(stream.get(), 1) == 0);
    holds(line_of(errc::io, [&] { channel::client c(at.string(), how); }),
          "expected a Unix socket");
    std::filesystem::remove(at);
  }
  std::filesystem::create_directory(at);
  holds(line_of(errc::io, [&] { channel::client c(at.string(), how); }), "expected a Unix socket");
  std::filesystem::remove(at);
  holds(line_of(errc::io, [&] { channel::client c(at.string(), how); }), "expected a Unix socket");
}

TEST_CASE("channel: a socket that is in use or no socket is refused, a dead one is replaced") {
  hosted h;
  channel::host_options same;
  same.socket = h.socket;
  CHECK(line_of(errc::io, [&] { channel::host other(h.server, same); }).find("in use") !=
        std::string::npos);
  const std::filesystem::path at =
      std::filesystem::temp_directory_path() / ("gsched-test-" + std::to_string(::getpid()));
  channel::host_options how;
  how.socket = at.string();
  {
    const channel::detail::file_descriptor dead = channel::detail::listen_on(how.socket);
    CHECK(line_of(errc::io, [&] { channel::host other(h.server, how); }).find("in use") !=
          std::string::npos);
  }
  CHECK(std::filesystem::exists(at));
  { channel::host other(h.server, how); }
  CHECK(!std::filesystem::exists(at));
  std::filesystem::create_directory(at);
  CHECK(line_of(errc::io, [&] { channel::host other(h.server, how); }).find("no socket") !=
        std::string::npos);
  std::filesystem::remove(at);
  how.socket = std::string(200, 'x');
  line_of(errc::bad_option, [&] { channel::host other(h.server, how); });
  line_of(errc::io, [&] { channel::client nobody("@gsched-test-nobody"); });
}
