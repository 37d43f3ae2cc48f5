// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/server/request_record.hpp>

#include <cstdint>

namespace gsched {

/// What a server offers a request_source, on the server's thread.
class request_taker {
public:
  /// Whether a request of this model would be taken now.
  [[nodiscard]] virtual bool has_model(std::uint32_t model) const noexcept = 0;
  /// Takes a request over, with one share of it. Its model, client, arrival_ns and the rest of what
  /// is asked are set; the model exists, and so does the client. It ends as every request does,
  /// perhaps before the call returns.
  virtual void take(request_record& r) noexcept = 0;
  /// Asks for the end of a request that was taken and has not ended.
  virtual void cancel(request_record& r) noexcept = 0;

protected:
  ~request_taker() = default;
};

/// Requests that a server's thread fetches itself, such as those of clients in other processes: no
/// other thread posts them, so nothing is handed over between threads.
///
/// Threads  the server's.
class request_source {
public:
  virtual ~request_source() = default;
  /// Once in each round of the thread's loop, and once after the last one: hands what has come to
  /// `to`. True if anything had. Requests that end between two calls may be told of together.
  [[nodiscard]] virtual bool poll(request_taker& to) noexcept = 0;
  /// The thread is about to sleep. Whoever has a request from now on calls server::wake. True if
  /// one has come already: the thread then goes on.
  [[nodiscard]] virtual bool fall_asleep() noexcept = 0;
  /// It polls again.
  virtual void wake_up() noexcept = 0;
  /// The server refuses requests from now on, for good; poll is still called until all have ended.
  virtual void close() noexcept = 0;
};

} // namespace gsched
