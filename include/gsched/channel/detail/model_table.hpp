// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace gsched::channel::detail {

/// The payload of a model: its inputs, and behind them its outputs.
struct model_needs {
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  [[nodiscard]] std::uint64_t total() const noexcept { return input_bytes + output_bytes; }
};

/// The models that clients may ask for, by the server's numbers.
///
/// Cost     find O(1), without a lock.
/// Threads  find from any; offer and withdraw one at a time.
class model_table {
public:
  explicit model_table(std::uint32_t most)
      : most_(most), entries_(std::make_unique<entry[]>(most)) {}

  /// Once for each number.
  void offer(std::uint32_t model, const model_needs& needs) noexcept {
    entries_[model].needs = needs;
    entries_[model].offered.store(true, sync::release); // [O1] release -> [O1] acquire
  }
  void withdraw(std::uint32_t model) noexcept {
    entries_[model].offered.store(false, sync::relaxed); // unordered: a hint
  }
  [[nodiscard]] std::optional<model_needs> find(std::uint32_t model) const noexcept {
    if (model >= most_ || !entries_[model].offered.load(sync::acquire)) return std::nullopt; // [O1]
    return entries_[model].needs;
  }
  [[nodiscard]] std::uint32_t most() const noexcept { return most_; }

private:
  struct entry {
    model_needs needs{};
    sync::atomic<bool> offered{false};
  };
  std::uint32_t most_;
  std::unique_ptr<entry[]> entries_;
};

} // namespace gsched::channel::detail
