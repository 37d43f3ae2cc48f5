// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// A captured graph in the order in which it is run: immutable, shared by all jobs that run it.
///
/// Differs  a CUDA graph is a partial order; here its operations stand in one order that keeps it,
///          so a range of them is a segment and a lane's own order is all the synchronisation.
/// Errors   an empty program, or one with event operations, is bad_profile.
/// Threads  immutable after construction, but for the id, which the loader sets once.
class program {
public:
  program(std::string name, std::vector<operation> operations)
      : name_(std::move(name)), operations_(std::move(operations)) {
    if (operations_.empty()) throw error(errc::bad_profile, name_ + ": no operations");
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
  /// Distinct kernel ids are below this.
  [[nodiscard]] std::size_t kernel_count() const noexcept { return kernels_; }

  /// Operations [first, last) as a device takes them.
  [[nodiscard]] std::span<const operation* const> range(std::size_t first,
                                                        std::size_t last) const noexcept {
    assert(first <= last && last <= size());
    return {pointers_.data() + first, last - first};
  }

  /// Sum of the expected times of [first, last). O(1).
  [[nodiscard]] duration expected(std::size_t first, std::size_t last) const noexcept {
    assert(first <= last && last <= size());
    return until_[last] - until_[first];
  }
  [[nodiscard]] duration expected() const noexcept { return until_.back(); }
  /// Expected time of the kernel that takes longest; zero where there is none.
  [[nodiscard]] duration longest_kernel() const noexcept { return longest_; }

  /// Where a segment that starts at `first` ends so that it takes about one quantum: the end that
  /// is nearest in time, and at least one operation on. run_to_completion gives size(). Of an
  /// aligned program: the longest run of pieces that align() allows there and that is no longer
  /// than that, or one piece.
  /// Cost     O(log n).
  [[nodiscard]] std::size_t cut(std::size_t first, duration quantum) const noexcept {
    assert(first < size());
    if (whole_) return size();
    if (!pieces_.empty() && quantum < run_to_completion) return cut_aligned(first, quantum);
    if (quantum >= until_.back() - until_[first]) return size();
    return cut_freely(first, quantum);
  }

  /// From now on the program is cut only into ranges [pieces[i], pieces[min(i + 2^k, n)]) with i a
  /// multiple of 2^k and k < levels, where a piece is what cut gave for `grain` before. So whoever
  /// has to prepare ranges, as graphs, prepares fewer than 2n of them however segments grow; each
  /// operation is in `levels` of them. Set-up: by whoever loads the program on a device.
  ///
  /// `alone`: operations that are pieces of their own and in no longer run, such as those that
  /// cannot be held; rising.
  void align(duration grain, unsigned levels, std::span<const std::size_t> alone = {}) {
    pieces_.clear();
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
    pieces_ = std::move(ends);
    levels_ = levels;
  }
  /// What a cut before each operation, and one at the end, costs in device time beyond the gap
  /// between two segments: branches of a graph wait for one another there. Pieces then end where a
  /// cut is cheap, within half the grain. Set-up, before align(). Empty, as at first: cuts cost the
  /// same everywhere.
  void set_cut_losses(std::vector<duration> losses) {
    assert(losses.empty() || losses.size() == size() + 1);
    losses_ = std::move(losses);
  }
  /// From now on it is run from its start to its end alone: no device prepares parts of it. Set-up,
  /// before it is loaded.
  void keep_whole() noexcept { whole_ = true; }
  [[nodiscard]] bool is_whole() const noexcept { return whole_; }
  /// The ends of the pieces, from 0 to size(); empty for a program that is not aligned.
  [[nodiscard]] std::span<const std::size_t> pieces() const noexcept { return pieces_; }
  [[nodiscard]] unsigned levels() const noexcept { return levels_; }
  /// Whether one of [first, last) is to be alone, so that cut() gives that range only if it is that
  /// one.
  [[nodiscard]] bool holds_alone(std::size_t first, std::size_t last) const noexcept {
    const auto at = std::lower_bound(alone_.begin(), alone_.end(), first);
    return at != alone_.end() && *at < last;
  }

  /// Called once by whoever loads the program on a device.
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

  /// The end within half a quantum of the target that costs least, where a cut that is off by so
  /// much costs a twentieth of that: the segments around it are too short or too long.
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
    const auto at = std::upper_bound(pieces_.begin(), pieces_.end(), first); // end of its piece
    const auto i = static_cast<std::size_t>(at - pieces_.begin()) - 1;
    std::size_t last = *at;
    if (pieces_[i] != first) return last; // within a piece: up to its end
    for (unsigned k = 1; k < levels_; ++k) {
      const std::size_t run = std::size_t{1} << k;
      if (i % run != 0 || last == size()) break;
      const std::size_t end = pieces_[std::min(i + run, pieces_.size() - 1)];
      if (holds_alone(first, end)) break;
      // Pieces differ from the grain by rounding: half of one over is still about a quantum.
      if (expected(first, end) > quantum + quantum / (2 * static_cast<duration::rep>(run))) break;
      last = end;
    }
    return last;
  }

  std::string name_;
  std::vector<operation> operations_;
  std::vector<const operation*> pointers_;
  std::vector<duration> until_; ///< until_[i] is the expected time of all before operation i
  duration longest_{};
  std::vector<std::size_t> pieces_;
  std::vector<std::size_t> alone_;
  std::vector<duration> losses_; ///< of a cut before each operation, and at the end
  unsigned levels_ = 0;
  bool whole_ = false;
  std::size_t kernels_ = 0;
  program_id id_ = no_program;
};

} // namespace gsched
