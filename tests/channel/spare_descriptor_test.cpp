// SPDX-License-Identifier: Apache-2.0
#include <gsched/channel/spare_descriptor.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

using gsched::channel::spare_descriptor;
using gsched::channel::detail::file_descriptor;

namespace {

/// A listener that does not block, of an abstract name, and clients of it.
struct listening {
  listening() : socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    at.sun_family = AF_UNIX;
    const std::string name = "gsched.spare." + std::to_string(::getpid());
    name.copy(at.sun_path + 1, sizeof at.sun_path - 2);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(::listen(socket.get(), 8) == 0);
  }
  void connect() {
    clients.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(clients.back().get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) ==
            0);
  }
  sockaddr_un at{};
  file_descriptor socket;
  std::vector<file_descriptor> clients{};
};

/// As it lives, this process can open nothing more.
struct none_left {
  none_left() {
    ::getrlimit(RLIMIT_NOFILE, &was);
    rlimit low = was;
    const file_descriptor lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    low.rlim_cur = static_cast<rlim_t>(lowest.get());
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  ~none_left() { ::setrlimit(RLIMIT_NOFILE, &was); }
  none_left(const none_left&) = delete;
  none_left& operator=(const none_left&) = delete;
  [[nodiscard]] static bool holds() {
    return !file_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  rlimit was{};
};

} // namespace

TEST_CASE(
    "spare_descriptor: a connection takes its place, and then it takes that of the connection") {
  listening l;
  spare_descriptor spare;
  const auto accept = [&] { return spare.accept(l.socket.get(), SOCK_CLOEXEC); };
  for (int i = 0; i < 4; ++i) l.connect();
  {
    const none_left nothing;
    for (int i = 0; i < 2; ++i) {
      const auto [socket, refused] = accept();
      REQUIRE(socket >= 0);
      CHECK(refused);
      const auto second = accept();
      CHECK(second.socket == -1);
      CHECK(spare_descriptor::none_left());
      spare.put_back(socket);
      CHECK(nothing.holds());
    }
  }
  for (int i = 0; i < 2; ++i) {
    const auto [socket, refused] = accept();
    const file_descriptor open(socket);
    CHECK(static_cast<bool>(open));
    CHECK_FALSE(refused);
  }
}

TEST_CASE("spare_descriptor: without a client it is kept") {
  listening l;
  spare_descriptor spare;
  const auto accept = [&] { return spare.accept(l.socket.get(), SOCK_CLOEXEC); };
  l.connect();
  const none_left nothing;
  const auto first = accept();
  CHECK(first.refused);
  spare.put_back(first.socket);
  const auto second = accept();
  const int why = errno;
  CHECK(second.socket == -1);
  CHECK(why == EAGAIN);
  CHECK(nothing.holds());
}

TEST_CASE("spare_descriptor: where there was none at first, it is opened later") {
  listening l;
  for (int i = 0; i < 2; ++i) l.connect();
  std::vector<spare_descriptor> spare;
  spare.reserve(1);
  {
    const none_left nothing;
    spare.emplace_back();
    CHECK(spare[0].accept(l.socket.get(), SOCK_CLOEXEC).socket == -1);
    CHECK(spare_descriptor::none_left());
  }
  const auto accept = [&] { return spare[0].accept(l.socket.get(), SOCK_CLOEXEC); };
  const file_descriptor open(accept().socket);
  CHECK(static_cast<bool>(open));
  const none_left nothing;
  const auto second = accept();
  CHECK(second.refused);
  spare[0].put_back(second.socket);
}
