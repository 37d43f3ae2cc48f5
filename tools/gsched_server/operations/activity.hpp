// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/request_record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gsched_server {

/// One thing that a device's server has done.
struct activity_event {
  enum class kind : std::uint8_t { arrived, submitted, segment_ended, ended, preempting, restored };
  std::int64_t at_ns = 0; ///< on CLOCK_MONOTONIC
  kind what = kind::arrived;
  gsched::request_status how = gsched::request_status::pending; ///< of `ended`
  bool first = false;                                           ///< the request's first segment
  std::uint32_t model = 0, client = 0, lane = 0;
  std::uint32_t operations = 0; ///< at most 4095
  std::uint64_t request = 0, segment = 0;
};

/// Keeps the last events of one device's server, for traces and displays.
///
/// Cost     an event: 32 bytes, six stores, no lock and no allocation; reading copies what it
///          reads, and never makes the writer wait. 8 MiB for 2^18 events.
/// Threads  events: the server's own; all else: any.
class activity final : public gsched::server_observer {
public:
  /// Keeps a power of two of events, at least so many; 0: none.
  explicit activity(std::size_t events);

  void arrived(const gsched::request_record& r, std::int64_t at_ns) noexcept override;
  void submitted(const gsched::request_record& r, const gsched::segment& s, gsched::duration,
                 std::int64_t at_ns) noexcept override;
  void segment_ended(const gsched::request_record& r, gsched::segment_id id,
                     std::int64_t at_ns) noexcept override;
  void ended(const gsched::request_record& r, gsched::request_status how,
             std::int64_t at_ns) noexcept override;
  void preempting(std::int64_t at_ns) noexcept override;
  void restored(std::int64_t at_ns) noexcept override;

  [[nodiscard]] std::size_t capacity() const noexcept { return slots_.size(); }
  /// The last ones, at most so many, oldest first.
  [[nodiscard]] std::vector<activity_event> last(std::size_t most) const;

  /// The names of the server's models and clients, by their number; "" for one without.
  void name_model(std::uint32_t model, const std::string& name);
  void name_client(std::uint32_t client, const std::string& name);
  struct names {
    std::vector<std::string> models, clients;
    [[nodiscard]] const std::string& model(std::uint32_t i) const noexcept;
    [[nodiscard]] const std::string& client(std::uint32_t i) const noexcept; ///< else "channel"
  };
  [[nodiscard]] names known() const;

private:
  /// Words: the time, the request, the segment, and all else in bits.
  struct slot {
    std::array<gsched::sync::atomic<std::uint64_t>, 4> words{};
  };
  void put(const activity_event& e) noexcept;

  std::vector<slot> slots_;
  gsched::sync::atomic<std::uint64_t> next_{0}; ///< number of the next event
  mutable std::mutex mutex_;                    ///< of names_
  names names_;
};

} // namespace gsched_server
