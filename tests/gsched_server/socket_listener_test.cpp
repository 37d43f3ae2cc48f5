// SPDX-License-Identifier: Apache-2.0
//
// Clients of a process that has no file descriptors left are refused, and wait for nothing.
#include "gsched_server/network/socket_listener.hpp"

#include "gsched_server/settings/address.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace gsched_server;

namespace {

constexpr const char* full = "full";

/// A connection whose answers are waited for at most two seconds.
int connect_to(const std::string& path) {
  const int s = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, sizeof to.sun_path - 1);
  const timeval patience{2, 0};
  ::setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return s;
  ::close(s);
  return -1;
}

/// Connects, sends a request, and returns whether the listener answers with its refusal.
bool is_refused(const std::string& path) {
  const int s = connect_to(path);
  if (s < 0) return false;
  static_cast<void>(::send(s, "?", 1, MSG_NOSIGNAL));
  ::shutdown(s, SHUT_WR);
  std::array<char, 16> said{};
  const auto n = ::recv(s, said.data(), said.size(), 0);
  ::close(s);
  return n == 4 && std::string(said.data(), 4) == full;
}

/// Clients of both listeners at once, in a process of its own: those that were not refused.
int press(const std::array<std::string, 2>& paths) {
  for (int i = 0; i < 40; ++i)
    static_cast<void>(connect_to(paths[static_cast<std::size_t>(i % 2)]));
  std::atomic<int> wrong{0};
  std::array<std::thread, 4> clients;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{1};
  for (std::size_t i = 0; i < clients.size(); ++i)
    clients[i] = std::thread([&, i] {
      while (std::chrono::steady_clock::now() < until && wrong == 0)
        if (!is_refused(paths[i % 2])) ++wrong;
    });
  for (std::thread& t : clients) t.join();
  return wrong;
}

/// The limit at which so many more can be opened.
rlim_t limit_for(std::size_t more) {
  std::vector<int> opened;
  while (opened.size() < more) opened.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int each : opened) ::close(each);
  return static_cast<rlim_t>(opened.back()) + 1; // the lowest free one is always taken
}

} // namespace

TEST_CASE("socket_listener: no listener takes the descriptor that another refuses with") {
  std::string folder = "/tmp/gsched_listener.XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::array<std::string, 2> paths{folder + "/a", folder + "/b"};
  std::array<int, 2> go{};
  REQUIRE(::pipe(go.data()) == 0);
  const pid_t child = ::fork(); // before there are threads
  REQUIRE(child >= 0);
  if (child == 0) {
    char c = 0;
    static_cast<void>(::read(go[0], &c, 1));
    ::_exit(press(paths));
  }
  rlimit usual{};
  ::getrlimit(RLIMIT_NOFILE, &usual);
  int status = -1;
  {
    std::array<std::atomic<int>, 2> taken{};
    address a, b;
    a.what = b.what = address::kind::unix_socket;
    a.path = paths[0];
    b.path = paths[1];
    socket_listener first(a), second(b);
    rlimit low = usual;
    low.rlim_cur = limit_for(8);
    ::setrlimit(RLIMIT_NOFILE, &low);
    first.start(
        0, [&](int) { ++taken[0]; }, full);
    second.start(
        0, [&](int) { ++taken[1]; }, full);
    CHECK(::write(go[1], "!", 1) == 1);
    ::waitpid(child, &status, 0);
    CHECK(taken[0] + taken[1] == 8); // they stay open
    first.stop();
    second.stop();
    ::setrlimit(RLIMIT_NOFILE, &usual);
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ::close(go[0]);
  ::close(go[1]);
  ::rmdir(folder.c_str());
}
