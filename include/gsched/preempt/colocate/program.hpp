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

/// A program as padding uses it: the variants of each operation. An operation without variants is
/// not padded: a copy, or a kernel without source. A co-runner stops before such an operation until
/// it has run in another way.
///
/// Errors   the constructor: as check(), with the operation.
/// Threads  immutable after construction.
class pad_program {
public:
  /// `operations[i]` are the variants of operation i; they are pruned and sorted by kernel time.
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
  /// The variants of one operation, by rising kernel time; the first runs as the real-time kernel.
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

/// A pad_program without measured block times: one variant a kernel, whose block time is estimated
/// as by completed() for a device with `sms` SMs.
///
/// Errors   those of pad_program. A kernel of 0 ns has an unknown time and is not padded.
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
