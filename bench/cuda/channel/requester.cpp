// SPDX-License-Identifier: Apache-2.0
#include "channel/requester.hpp"

#include <gsched/channel/client.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <span>
#include <sys/wait.h>
#include <unistd.h>

namespace channel_bench {

namespace {

namespace channel = gsched::channel;
using clock_type = std::chrono::steady_clock;

struct command {
  std::uint32_t way = 0;
  std::uint32_t count = 0; ///< 0: connect
  char socket[120] = {};
};

[[nodiscard]] bool read_all(int fd, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  for (std::size_t n = 0; n < bytes;) {
    const ssize_t got = ::read(fd, at + n, bytes - n);
    if (got <= 0) return false;
    n += static_cast<std::size_t>(got);
  }
  return true;
}
[[nodiscard]] bool write_all(int fd, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  for (std::size_t n = 0; n < bytes;) {
    const ssize_t put = ::write(fd, at + n, bytes - n);
    if (put <= 0) return false;
    n += static_cast<std::size_t>(put);
  }
  return true;
}

/// Fills the input, so that it is the client's own, before the time counts.
times one_request(channel::client& c, const channel::model_entry& m, std::span<std::byte> io,
                  std::byte value) {
  std::memset(io.data(), static_cast<int>(value), m.input_bytes);
  const auto begin = clock_type::now();
  c.predict(m, io);
  const channel::reply r = c.read_result();
  const double total = std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
  if (r.how != channel::outcome::finished)
    throw gsched::error(gsched::errc::device_failed, "a request did not finish: " + r.text);
  const double latency = gsched::to_us(r.latency), waited = gsched::to_us(r.waited);
  return {total, total - latency, waited, latency - waited};
}

/// The child: until its parent closes the pipe.
void serve_commands(int from, int to) {
  constexpr channel::wait_by by[] = {channel::wait_by::polling, channel::wait_by::hybrid,
                                     channel::wait_by::waiting};
  struct connected {
    connected(const char* socket, channel::wait_by wait) : client(socket, {.wait = wait}) {}
    channel::client client;
    channel::model_entry model = client.model("sets");
    std::span<std::byte> io = client.allocate(model.payload_bytes());
  };
  std::deque<connected> all;
  command next;
  while (read_all(from, &next, sizeof next)) {
    std::vector<times> out(next.count);
    if (next.count == 0)
      for (const channel::wait_by each : by) all.emplace_back(next.socket, each);
    else
      for (std::uint32_t i = 0; i < 20 + next.count; ++i) { // the first warm up
        connected& c = all[next.way];
        const times t = one_request(c.client, c.model, c.io, static_cast<std::byte>(i));
        if (i >= 20) out[i - 20] = t;
      }
    if (!write_all(to, &next.count, sizeof next.count) ||
        !write_all(to, out.data(), out.size() * sizeof(times)))
      return;
  }
}

[[noreturn]] void fail(const char* what) {
  throw gsched::error(gsched::errc::io, std::string("the client's process: ") + what);
}

} // namespace

requester::requester() {
  int commands[2], results[2];
  if (::pipe(commands) != 0 || ::pipe(results) != 0) fail("no pipe");
  child_ = ::fork();
  if (child_ < 0) fail("fork");
  if (child_ == 0) {
    ::close(commands[1]);
    ::close(results[0]);
    try {
      serve_commands(commands[0], results[1]);
    } catch (const std::exception& wrong) {
      std::fprintf(stderr, "gsched.gpu.channel: client: %s\n", wrong.what());
    }
    ::_exit(0);
  }
  ::close(commands[0]);
  ::close(results[1]);
  to_ = commands[1];
  from_ = results[0];
}

requester::~requester() {
  ::close(to_);
  ::close(from_);
  ::waitpid(child_, nullptr, 0);
}

void requester::connect(const std::string& socket) {
  command c;
  socket.copy(c.socket, sizeof c.socket - 1);
  std::uint32_t done = 0;
  if (!write_all(to_, &c, sizeof c) || !read_all(from_, &done, sizeof done)) fail("no answer");
}

std::vector<times> requester::request(std::size_t way, std::uint32_t count) {
  const command c{static_cast<std::uint32_t>(way), count, {}};
  std::vector<times> all(count);
  std::uint32_t done = 0;
  if (!write_all(to_, &c, sizeof c) || !read_all(from_, &done, sizeof done) || done != count ||
      !read_all(from_, all.data(), all.size() * sizeof(times)))
    fail("no answer");
  return all;
}

} // namespace channel_bench
