// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/detail/connection.hpp>
#include <gsched/channel/detail/file_descriptor.hpp>
#include <gsched/channel/detail/messages.hpp>
#include <gsched/channel/detail/model_table.hpp>
#include <gsched/channel/detail/polled_connections.hpp>
#include <gsched/channel/detail/process_rates.hpp>
#include <gsched/channel/detail/server_page.hpp>
#include <gsched/channel/detail/unix_socket.hpp>
#include <gsched/channel/limits.hpp>
#include <gsched/channel/spare_descriptor.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>
#include <gsched/server/request_source.hpp>
#include <gsched/server/server.hpp>

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace gsched::channel {

using detail::peer;

/// Where a host listens, and what it grants.
struct host_options {
  std::string socket; ///< a path, or @ and a name without a file
  mode_t mode = 0600; ///< of the socket's file: who may connect
  std::uint32_t most_clients = 1024;
  /// Connections that one process may make, a second in the long run and at once; a rate of 0: any.
  /// Beyond them a client is refused, so that a process that connects in a loop costs others
  /// little.
  double connect_rate = 100;
  double connect_burst = 1024;
  /// What this client gets, by the credentials of its process. Throws gsched::error to refuse it.
  std::function<client_limits(const peer&)> limits{};
  /// Called with the arena of a client before its first request, and when nothing uses it any more:
  /// to register it with a GPU. `pin` throws gsched::error to refuse the client.
  std::function<void(std::span<std::byte>)> pin{};
  std::function<void(std::span<std::byte>)> unpin{};
  /// Within it a client has to say hello.
  duration patience = std::chrono::seconds{5};
};

/// What a host has counted.
struct host_statistics {
  std::uint64_t connected = 0; ///< clients now
  std::uint64_t accepted = 0;  ///< since it was made
  std::uint64_t turned_away = 0;
  detail::connection_counts requests{}; ///< of clients that have left
};

/// Lets processes of this machine submit to a server through shared memory. The server's thread
/// reads their requests itself; a thread of the host's accepts clients, and learns of their death.
///
///     channel::host h(server, {.socket = "/run/gsched.sock"});
///     h.offer(model, "resnet18", input_bytes, output_bytes);
///
/// However a client ends, what it has on the device is waited for, the rest is cancelled, and its
/// memory is freed. A client can neither block the server nor others.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, section 5, doi:10.1145/3600006.3613163.
/// Differs  an own thread waits for sleeping clients' wake-ups, so that the dispatcher polls memory
///          alone. Wake-ups are packets on the socket, as in the paper: an eventfd that two
///          processes share can be made to block its writer.
/// Errors   gsched::error, one line.
/// Threads  any, but for the destructor.
class host final : private request_source {
public:
  /// Listens. The server outlives the host.
  host(server& s, host_options how);
  /// Clients are told nothing but the end of the socket; their requests end as cancelled.
  ~host() override;
  host(const host&) = delete;
  host& operator=(const host&) = delete;

  /// Clients may ask for this model from now on; its payload is inputs, and behind them outputs.
  /// Errors   bad_option for a name that is empty, too long or taken, or a model offered before.
  void offer(model_id model, const std::string& name, std::uint64_t input_bytes,
             std::uint64_t output_bytes);
  /// Further requests are refused; call it before server::remove_model.
  void withdraw(model_id model);

  [[nodiscard]] host_statistics statistics() const;

private:
  /// A client, as the host's thread knows it: first a socket, then a connection.
  struct session;

  // Of the server's thread ----------------------------------------------------------------------
  bool poll(request_taker& to) noexcept override;
  bool fall_asleep() noexcept override;
  void wake_up() noexcept override;
  void close() noexcept override;

  // Of the host's thread ------------------------------------------------------------------------
  void serve();
  void accept_some();
  [[nodiscard]] bool accept_one();
  void rest_listener(std::int64_t until_ns) noexcept;
  void stop_listening() noexcept;
  [[nodiscard]] bool watch(int file, int number) noexcept;
  void hear(session& s);
  void rest(session& s, std::int64_t now_ns);
  [[nodiscard]] bool end_rest(int key, std::int64_t now_ns);
  void greet(session& s, detail::file_descriptor file, bool lost_file);
  void list_models(session& s);
  void part(session& s);
  void bury(session& s);
  void turn_away(int socket, const std::string& why) noexcept;
  [[nodiscard]] client_id client_of_weight(double weight);

  server& server_;
  host_options how_;
  detail::model_table models_;
  detail::server_page page_;
  detail::file_descriptor listener_, epoll_, bell_;
  spare_descriptor spare_;
  detail::socket_file path_;
  bool rests_ = false;              ///< the listener is not watched ...
  std::int64_t rests_until_ns_ = 0; ///< ... until then; 0: for a round
  detail::process_rates connects_;
  detail::rate_limit refusals_{4000, 64};                 ///< of processes over their rate
  std::map<int, std::unique_ptr<session>> sessions_;      ///< by their sockets
  std::vector<int> resting_;                              ///< keys of sessions that are not heard
  std::map<double, std::vector<client_id>> free_clients_; ///< of the server, by weight

  detail::polled_connections polled_;

  mutable std::mutex mutex_; ///< of the names and counts
  std::map<std::uint32_t, std::string> names_;
  host_statistics counts_;
  sync::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace gsched::channel

#include <gsched/channel/detail/host_members.hpp>
