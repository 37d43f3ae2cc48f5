// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/program.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/dominance.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// What padding knows of a program: for each operation the variants that it can run as. An
/// operation without any is not padded: a copy, or a kernel without source. As a guest, a program
/// stops before such an operation until something else has run it.
///
/// Errors   the constructor: those of check(), naming the operation.
/// Threads  immutable after construction.
class pad_program {
public:
  /// `operations[i]` are the variants of operation i; they are pruned, and the fastest is first.
  pad_program(std::string name, std::span<const std::vector<kernel_variant>> operations)
      : name_(std::move(name)) {
    begins_.reserve(operations.size() + 1);
    begins_.push_back(0);
    for (const std::vector<kernel_variant>& of : operations) {
      const std::string where = name_ + ": operation " + std::to_string(begins_.size() - 1);
      for (const kernel_variant& k : of) check(k, where);
      std::vector<kernel_variant> kept = prune(of);
      std::stable_sort(kept.begin(), kept.end(),
                       [](const auto& a, const auto& b) { return a.kernel_time < b.kernel_time; });
      variants_.insert(variants_.end(), kept.begin(), kept.end());
      begins_.push_back(variants_.size());
      most_ = std::max(most_, kept.size());
    }
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::size_t size() const noexcept { return begins_.size() - 1; }
  /// Of one operation, kernel time rising; the first is what runs as a real-time kernel.
  [[nodiscard]] std::span<const kernel_variant> variants(std::size_t operation) const noexcept {
    return {variants_.data() + begins_[operation], begins_[operation + 1] - begins_[operation]};
  }
  [[nodiscard]] std::size_t most_variants() const noexcept { return most_; }

private:
  std::string name_;
  std::vector<kernel_variant> variants_;
  std::vector<std::size_t> begins_;
  std::size_t most_ = 0;
};

/// A program as padding sees it where nobody has measured blocks: one variant for each kernel, its
/// block time estimated as completed() does, on a device with `sms` SMs.
/// Errors   those of pad_program. A kernel of 0 ns is no kernel that time is known of: not padded.
[[nodiscard]] inline pad_program
estimated_pad_program(const program& p, const architecture_limits& limits, sm_count sms) {
  std::vector<std::vector<kernel_variant>> operations(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    const operation& op = p.operations()[i];
    if (op.kind != operation_kind::kernel || op.expected <= duration::zero()) continue;
    const launch_shape& l = op.launch;
    kernel_variant k;
    k.kernel_time = op.expected;
    k.registers_per_thread = l.registers_per_thread;
    k.shared_bytes = l.static_shared_bytes + l.dynamic_shared_bytes;
    k.threads_per_block = static_cast<std::uint32_t>(l.threads_per_block());
    k.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(l.blocks(), 0xffffffffu));
    k.function = index(op.kernel);
    operations[i].push_back(completed(k, limits, sms));
  }
  return pad_program(p.name(), operations);
}

} // namespace gsched
