// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/workload.hpp"

#include <gsched/core/time.hpp>
#include <gsched/workload/random.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace realtime {

/// The arrivals of one client. Equal arguments and equal calls give equal times; each client has a
/// random engine of its own, so that the replies of others change nothing.
class client_source {
public:
  /// `solo_per_s`: requests a second of the model alone. `times`: of a trace.
  client_source(const arrival_spec& how, double solo_per_s, std::vector<gsched::duration> times,
                std::uint64_t seed);

  /// The next request, if there is one before another reply.
  [[nodiscard]] std::optional<gsched::time_point> due() const noexcept { return due_; }
  /// Removes the request that is due.
  void take();
  /// Replies come in order of time.
  void on_reply(gsched::time_point now);

private:
  [[nodiscard]] gsched::duration think();
  [[nodiscard]] std::optional<gsched::time_point> from_trace() const;
  void advance();

  arrival_spec how_;
  std::vector<gsched::duration> times_;
  gsched::random_engine random_;
  double gap_ns_ = 0; ///< uniform, poisson: mean
  double at_ns_ = 0;  ///< of the last request: exact enough for days
  std::size_t taken_ = 0;
  std::deque<gsched::time_point> ready_; ///< closed: in order
  std::optional<gsched::time_point> due_;
};

/// All clients of a workload, earliest first; equal times by number.
class sources {
public:
  explicit sources(std::vector<client_source> clients) : clients_(std::move(clients)) {}

  struct next_request {
    gsched::time_point at{};
    std::uint32_t client = 0;
  };
  /// Of the clients for which of(number) holds.
  template <class Of>
  [[nodiscard]] std::optional<next_request> next(Of of) const noexcept {
    std::optional<next_request> first;
    for (std::uint32_t i = 0; i < clients_.size(); ++i) {
      const std::optional<gsched::time_point> at = clients_[i].due();
      if (at && (!first || *at < first->at) && of(i)) first = next_request{*at, i};
    }
    return first;
  }
  void take(std::uint32_t client) { clients_[client].take(); }
  void on_reply(std::uint32_t client, gsched::time_point now) { clients_[client].on_reply(now); }

private:
  std::vector<client_source> clients_;
};

/// The times of each client in a trace's file: lines `time_us,CLIENT`, times not falling.
/// Errors   gsched::error, one line: file, line, what was expected; bad_trace where a client of
///          `asking` has no request in it.
[[nodiscard]] std::vector<std::vector<gsched::duration>>
read_times(const std::filesystem::path& file, const workload& of,
           const std::vector<std::uint32_t>& asking);
/// `name` stands for the text in errors.
[[nodiscard]] std::vector<std::vector<gsched::duration>>
read_times(std::unique_ptr<std::istream> text, const std::string& name, const workload& of,
           const std::vector<std::uint32_t>& asking);

} // namespace realtime
