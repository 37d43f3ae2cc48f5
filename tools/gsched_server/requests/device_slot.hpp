// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/devices/queued_time.hpp"
#include "gsched_server/devices/serving_device.hpp"
#include "gsched_server/operations/activity.hpp"
#include "gsched_server/requests/served.hpp"
#include "gsched_server/settings/settings.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/server/statistics.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace gsched {
class request_record;
class server;
} // namespace gsched
namespace gsched::channel {
class host;
}

namespace gsched_server {

/// One device of a service: its server, the channel's socket, the thread that hands out what has
/// ended there, and the time that is queued on it.
///
/// Errors   gsched::error with one line; run_error for a socket that cannot be used.
/// Threads  any, but for the constructor, start, close and the destructor.
class device_slot {
public:
  /// Opens the device. `socket` is where the channel listens; empty: nowhere.
  device_slot(std::uint32_t number, std::string name, std::unique_ptr<serving_device> on,
              const settings& s, const std::string& socket);
  /// As close(0).
  ~device_slot();
  device_slot(const device_slot&) = delete;
  device_slot& operator=(const device_slot&) = delete;

  /// Calls `finish` for each request that ends, on a thread of the slot, until close.
  void start(std::function<void(gsched::request_record&)> finish);
  /// Ends the server. What it has not served in this time is cancelled.
  void close(gsched::duration drain_for) noexcept;

  /// Adds a model, with one of the plan's copies.
  [[nodiscard]] served::place load(const model_plan& m);
  /// Waits for its requests. Does nothing once the server is closed or the device has failed.
  void remove(gsched::model_id id) noexcept;
  /// Clients of the channel may ask for it, or may not any more.
  void offer(const served::place& at, const model_plan& m);
  void withdraw(const served::place& at);
  /// Of one whose device has failed meanwhile, some value.
  [[nodiscard]] gsched::client_id add_client(const std::string& name, double weight);

  [[nodiscard]] gsched::server& server() noexcept { return *server_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// As --device has it.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Whether the device has not failed; once it has, that stays.
  [[nodiscard]] bool was_working() const noexcept { return !was_load().failed; }
  [[nodiscard]] gsched::server_load was_load() const noexcept;
  /// Nothing if the server's thread hangs.
  [[nodiscard]] std::optional<gsched::server_statistics> statistics();
  /// Clients of the channel; nothing where it does not listen.
  [[nodiscard]] std::optional<std::uint64_t> channel_clients() const;

  /// What its server has done of late.
  [[nodiscard]] const activity& events() const noexcept { return activity_; }

  queued_time queued;

private:
  std::uint32_t number_;
  std::string name_;
  activity activity_;
  std::unique_ptr<serving_device> device_;
  std::unique_ptr<gsched::server> server_;
  std::unique_ptr<gsched::channel::host> host_; ///< null: none
  std::thread collector_;
  bool closed_ = false;
};

} // namespace gsched_server
