// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/client.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/payload.hpp>
#include <gsched/channel/shared_client.hpp>
#include <gsched/core/time.hpp>

#include <cstdint>
#include <future>
#include <memory>
#include <utility>

namespace gsched::channel {

/// The end of a request, and its payload, whose outputs are complete if the request has finished.
/// outcome::unknown: the connection ended before the reply; the request may have run or not.
struct answer {
  reply end;
  payload io;
  [[nodiscard]] bool has_finished() const noexcept { return end.how == outcome::finished; }
};

/// A request that was submitted, as its submitter holds it. Every request ends once, at the latest
/// with its client. Dropping this does not cancel the request; its payload is given back at its
/// end.
///
/// Errors   std::future_error for a wait or get without a request, or after get.
/// Threads  one at a time for one object; any thread.
class [[nodiscard]] pending_answer {
public:
  pending_answer() = default;
  /// Made by future_client::submit.
  pending_answer(std::shared_ptr<shared_client> of, std::uint64_t id, std::future<answer> end)
      : of_(std::move(of)), id_(id), end_(std::move(end)) {}

  /// The number of the request, as answer::end has it.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// False once get has been called.
  [[nodiscard]] bool valid() const noexcept { return end_.valid(); }
  [[nodiscard]] bool was_ended() const { return wait_for(duration::zero()); }
  /// False if it has not ended in time.
  [[nodiscard]] bool wait_for(duration most) const {
    return end_.wait_for(most) == std::future_status::ready;
  }
  /// Waits for the end, and takes the answer, once.
  [[nodiscard]] answer get() { return end_.get(); }
  /// Asks for the end of the request, which may finish all the same.
  /// Errors   closed if the client was closed; bad_option in a forked child.
  void cancel() {
    if (!was_ended()) of_->cancel(id_);
  }

private:
  std::shared_ptr<shared_client> of_;
  std::uint64_t id_ = 0;
  std::future<answer> end_;
};

} // namespace gsched::channel
