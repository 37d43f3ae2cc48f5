// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// A captured graph whose operations are in execution order: immutable, shared by all jobs that run
/// it.
///
/// Differs  a CUDA graph is a partial order. Here the operations are in one order that respects it,
///          so that any range of them is a segment, and the order of a lane is the only
///          synchronisation.
/// Errors   bad_profile: no operations, an operation that is no device work, or counters whose
///          number is neither 0 nor that of the operations.
/// Threads  immutable after construction, except for the id, which the loading device sets once.
class program {
public:
  /// `counters`: of each operation alone on the whole device, where measured; or of none.
  program(std::string name, std::vector<operation> operations,
          std::vector<std::optional<kernel_counters>> counters = {})
      : name_(std::move(name)), operations_(std::move(operations)), counters_(std::move(counters)) {
    if (operations_.empty()) throw error(errc::bad_profile, name_ + ": no operations");
    if (!counters_.empty() && counters_.size() != operations_.size())
      throw error(errc::bad_profile, name_ + ": " + std::to_string(counters_.size()) +
                                         " counters, expected " +
                                         std::to_string(operations_.size()) + " or none");
    pointers_.reserve(operations_.size());
    until_.reserve(operations_.size() + 1);
    until_.push_back(duration::zero());
    for (const operation& op : operations_) {
      if (!op.is_device_work())
        throw error(errc::bad_profile, name_ + ": operation " + std::to_string(pointers_.size()) +
                                           " is no device work, expected kernel, memcpy or memset");
      pointers_.push_back(&op);
      until_.push_back(until_.back() + op.expected);
      if (op.kind == operation_kind::kernel) longest_ = std::max(longest_, op.expected);
      if (op.kernel != no_kernel) kernels_ = std::max(kernels_, std::size_t{index(op.kernel)} + 1);
    }
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  program(program&&) noexcept = default;
  program& operator=(program&&) noexcept = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] program_id id() const noexcept { return id_; }
  [[nodiscard]] std::size_t size() const noexcept { return operations_.size(); }
  [[nodiscard]] std::span<const operation> operations() const noexcept { return operations_; }
  /// The counters of operation i; null if they are not known.
  [[nodiscard]] const kernel_counters* counters(std::size_t i) const noexcept {
    assert(i < size());
    return i < counters_.size() && counters_[i] ? &*counters_[i] : nullptr;
  }
  /// How long one run of the whole program takes alone, where measured: on fewer SMs, rising, then
  /// on all. With gaps, and with branches of the graph at once.
  [[nodiscard]] std::span<const scaling_point> replays() const noexcept { return replays_; }
  /// Kernel ids are below this number.
  [[nodiscard]] std::size_t kernel_count() const noexcept { return kernels_; }

  /// Operations [first, last), in the form that devices take.
  [[nodiscard]] std::span<const operation* const> range(std::size_t first,
                                                        std::size_t last) const noexcept {
    assert(first <= last && last <= size());
    return {pointers_.data() + first, last - first};
  }

  /// The sum of the expected times of [first, last). O(1).
  [[nodiscard]] duration expected(std::size_t first, std::size_t last) const noexcept {
    assert(first <= last && last <= size());
    return until_[last] - until_[first];
  }
  [[nodiscard]] duration expected() const noexcept { return until_.back(); }
  /// The expected time of the longest kernel; zero without kernels.
  [[nodiscard]] duration longest_kernel() const noexcept { return longest_; }

  /// The end of a segment that starts at `first` and takes about one quantum: the operation
  /// boundary nearest to that time, at least one operation later. run_to_completion gives size().
  /// For an aligned program: the end of the longest run of grains that align() permits there and
  /// that takes no longer than the quantum, or of one grain.
  ///
  /// Cost     O(log n).
  [[nodiscard]] std::size_t cut(std::size_t first, duration quantum) const noexcept {
    assert(first < size());
    if (whole_) return size();
    if (!grain_ends_.empty() && quantum < run_to_completion) return cut_aligned(first, quantum);
    if (quantum >= until_.back() - until_[first]) return size();
    return cut_freely(first, quantum);
  }

  /// From now on, cut() returns only ranges of whole grains [i, min(i + 2^k, n)), where i is a
  /// multiple of 2^k and k < levels. A grain is the range that cut() returned for `grain` before. A
  /// device that prepares graphs for ranges then prepares fewer than 2n graphs, whatever the
  /// segment lengths, and each operation is in `levels` of them. Called by the device that loads
  /// the program. Set-up.
  ///
  /// `alone`: operations, rising, that form a grain of their own and are in no longer range; such
  /// as operations that cannot be held.
  void align(duration grain, unsigned levels, std::span<const std::size_t> alone = {}) {
    grain_ends_.clear();
    alone_.assign(alone.begin(), alone.end());
    std::vector<std::size_t> ends{0};
    auto next = alone_.begin();
    while (ends.back() < size()) {
      const std::size_t first = ends.back();
      while (next != alone_.end() && *next < first) ++next;
      std::size_t last = cut_freely(first, grain);
      if (next != alone_.end()) last = std::min(last, *next == first ? first + 1 : *next);
      ends.push_back(last);
    }
    grain_ends_ = std::move(ends);
    levels_ = levels;
  }
  /// Sets the loss of a cut before each operation, and of one at the end: the device time beyond
  /// the gap between two segments, which arises where branches of the graph join. align() then
  /// places grain ends where a cut is cheap, within half a grain. Set-up, before align(). Empty
  /// (the default): all cuts cost the same.
  void set_cut_losses(std::vector<duration> losses) {
    assert(losses.empty() || losses.size() == size() + 1);
    losses_ = std::move(losses);
  }
  /// Sets replays(). Set-up, before it is loaded.
  void set_replays(std::vector<scaling_point> replays) noexcept { replays_ = std::move(replays); }
  /// From now on the program runs only as a whole; devices prepare no parts of it. Set-up, before
  /// it is loaded.
  void keep_whole() noexcept { whole_ = true; }
  [[nodiscard]] bool is_whole() const noexcept { return whole_; }
  /// The ends of the grains, from 0 to size(); empty for a program that is not aligned.
  [[nodiscard]] std::span<const std::size_t> grain_ends() const noexcept { return grain_ends_; }
  [[nodiscard]] unsigned levels() const noexcept { return levels_; }
  /// Whether [first, last) contains an operation that forms a grain of its own. cut() then returns
  /// the range only if it is that operation.
  [[nodiscard]] bool holds_alone(std::size_t first, std::size_t last) const noexcept {
    const auto at = std::lower_bound(alone_.begin(), alone_.end(), first);
    return at != alone_.end() && *at < last;
  }

  /// Called once, by the device that loads the program.
  void set_id(program_id id) noexcept { id_ = id; }

private:
  [[nodiscard]] std::size_t cut_freely(std::size_t first, duration quantum) const noexcept {
    if (quantum >= until_.back() - until_[first]) return size();
    const duration target = until_[first] + quantum;
    const auto from = until_.begin() + static_cast<std::ptrdiff_t>(first) + 1;
    const auto after = std::upper_bound(from, until_.end(), target); // first end beyond target
    auto last = static_cast<std::size_t>(after - until_.begin());
    if (last > first + 1 && target - until_[last - 1] <= until_[last] - target) --last;
    return losses_.empty() ? last : cheapest_near(first, last, quantum);
  }

  /// The end within half a quantum of the target with the least loss. A cut that is off the target
  /// also loses a twentieth of its distance, because the neighbouring segments are then too short
  /// or too long.
  [[nodiscard]] std::size_t cheapest_near(std::size_t first, std::size_t nearest,
                                          duration quantum) const noexcept {
    const duration target = until_[first] + quantum;
    const auto cost = [&](std::size_t end) {
      const duration off = until_[end] < target ? target - until_[end] : until_[end] - target;
      return losses_[end] + off / 20;
    };
    std::size_t best = nearest;
    for (std::size_t end = nearest; end > first + 1 && target - until_[end - 1] <= quantum / 2;)
      if (cost(--end) < cost(best)) best = end;
    for (std::size_t end = nearest; end < size() && until_[end + 1] - target <= quantum / 2;)
      if (cost(++end) < cost(best)) best = end;
    return best;
  }

  [[nodiscard]] std::size_t cut_aligned(std::size_t first, duration quantum) const noexcept {
    const auto at =
        // end of the grain of `first`
        std::upper_bound(grain_ends_.begin(), grain_ends_.end(), first);
    const auto i = static_cast<std::size_t>(at - grain_ends_.begin()) - 1;
    std::size_t last = *at;
    if (grain_ends_[i] != first) return last; // within a grain: up to its end
    for (unsigned k = 1; k < levels_; ++k) {
      const std::size_t run = std::size_t{1} << k;
      if (i % run != 0 || last == size()) break;
      const std::size_t end = grain_ends_[std::min(i + run, grain_ends_.size() - 1)];
      if (holds_alone(first, end)) break;
      // The length of a grain differs from `grain` by rounding: half of one grain more is still
      // about a quantum.
      if (expected(first, end) > quantum + quantum / (2 * static_cast<duration::rep>(run))) break;
      last = end;
    }
    return last;
  }

  std::string name_;
  std::vector<operation> operations_;
  std::vector<std::optional<kernel_counters>> counters_; ///< empty: none are known
  std::vector<scaling_point> replays_;
  std::vector<const operation*> pointers_;
  std::vector<duration> until_; ///< until_[i]: expected time of all operations before i
  duration longest_{};
  std::vector<std::size_t> grain_ends_;
  std::vector<std::size_t> alone_;
  std::vector<duration> losses_; ///< losses of a cut before each operation, and at the end
  unsigned levels_ = 0;
  bool whole_ = false;
  std::size_t kernels_ = 0;
  program_id id_ = no_program;
};

} // namespace gsched
