// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel/shared_client.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace gsched::channel {

/// A piece of a client's arena that holds the inputs of a request, and behind them its outputs. The
/// piece is free again when its payload is destroyed. It may outlive the future_client, whose
/// memory stays until then.
///
/// Errors   none; a type that does not fit the alignment of the outputs is a bug (asserted).
/// Threads  one at a time.
class [[nodiscard]] payload {
public:
  payload() = default;
  /// Takes a piece of bytes, of which the first are inputs; future_client::allocate is shorter.
  /// Errors   as shared_client::allocate.
  payload(std::shared_ptr<shared_client> of, std::uint64_t input_bytes, std::uint64_t output_bytes)
      : of_(std::move(of)), all_(of_->allocate(input_bytes + output_bytes)), inputs_(input_bytes) {}
  payload(payload&& from) noexcept
      : of_(std::move(from.of_)), all_(std::exchange(from.all_, {})),
        inputs_(std::exchange(from.inputs_, 0)) {}
  payload& operator=(payload&& from) noexcept {
    if (this != &from) {
      reset();
      of_ = std::move(from.of_);
      all_ = std::exchange(from.all_, {});
      inputs_ = std::exchange(from.inputs_, 0);
    }
    return *this;
  }
  ~payload() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
  [[nodiscard]] bool is_of(const shared_client& c) const noexcept { return of_.get() == &c; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return all_; }

  /// The inputs as bytes, or as values of T: floats, say. What is left of a T is left out.
  template <class T = std::byte>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<T> inputs() const noexcept {
    return as<T>(all_.first(inputs_));
  }
  template <class T = std::byte>
    requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::span<T> outputs() const noexcept {
    return as<T>(all_.subspan(inputs_));
  }

  /// Gives the piece back.
  void reset() noexcept {
    if (of_ != nullptr) of_->release(all_);
    of_.reset();
    all_ = {};
    inputs_ = 0;
  }

private:
  template <class T>
  [[nodiscard]] static std::span<T> as(std::span<std::byte> part) noexcept {
    assert(reinterpret_cast<std::uintptr_t>(part.data()) % alignof(T) == 0);
    return {reinterpret_cast<T*>(part.data()), part.size() / sizeof(T)};
  }

  std::shared_ptr<shared_client> of_;
  std::span<std::byte> all_;
  std::uint64_t inputs_ = 0;
};

} // namespace gsched::channel
