// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/detail/recycler.hpp>
#include <gsched/job/estimate_means.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace gsched {

/// The progress of one job, for the estimator of its type. begin() creates it and end() returns it.
class job_progress {
private:
  friend class estimator;
  friend class recycler<job_progress>;

  /// Marks a program whose operations were not dispatched once each from the first on; counts are
  /// then kept for each kernel.
  static constexpr std::uint32_t scattered = 0xffffffffu;

  std::int64_t remaining_ns_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint32_t* positions_ = nullptr; ///< by program: operations dispatched, or `scattered`
  std::uint32_t* counts_ = nullptr;    ///< by slot, in the same allocation
  std::unique_ptr<std::uint32_t[]> storage_{};
  job_progress* spare = nullptr;
};

/// Estimates the remaining device time of jobs of one type, from means over earlier jobs: remaining
/// = sum over kernels of max(0, mean count - times dispatched) * mean time.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, section 6 (1), doi:10.1145/3600006.3613163.
/// Differs  the means take effect at intervals, not with every observation, so that the remaining
///          time of a job that runs a program from its start is a table entry. Each term is rounded
///          to a nanosecond, so sums do not drift and undone work adds up exactly. Copies, memsets
///          and kernels without an id count as one pseudo-kernel of each kind. The weight of past
///          observations is bounded, so that means follow a changing load.
/// Errors   add and expect after the first begin are bugs (asserted). Programs that were not added
///          count as no work.
/// Cost     O(1) amortised for a segment of a program that the job runs once from start to end,
///          else O(operations). Allocates only when more jobs are under way than ever before.
/// Threads  one owner; no locking.
class estimator {
public:
  /// `loose_kernels`: kernels launched outside programs have ids below it; other ids share one
  /// slot.
  explicit estimator(std::size_t loose_kernels = 0, estimate_weights weights = {})
      : means_(loose_kernels, weights), jobs_(64) {}

  /// Adds a program that these jobs run `runs` times on average; its expected times are the prior.
  /// The program outlives the estimator and has its id before the first job.
  void add(const program& graph, double runs = 1.0) {
    assert(jobs_.made() == 0);
    means_.add(graph, runs);
  }

  /// Adds a program with the same operations as `of`, which some jobs run in its place (another
  /// instance of a captured model). Observations of either count for both.
  void add_replica(const program& replica, const program& of) {
    assert(replica.size() == of.size() && means_.find(of.id()) != means_.programs());
    means_.add_replica(replica, means_.find(of.id()));
  }

  /// Adds an operation that these jobs launch outside programs, `count` times on average.
  void expect(const operation& op, double count = 1.0) {
    assert(jobs_.made() == 0);
    means_.expect(op, count);
  }

  /// Reserves for this many jobs under way.
  void reserve(std::size_t jobs) {
    jobs_.reserve(jobs);
    job_progress* made = nullptr;
    for (std::size_t i = 0; i < jobs; ++i) {
      job_progress& p = jobs_.take();
      if (!p.storage_) allot(p);
      p.spare = made;
      made = &p;
    }
    while (made != nullptr) {
      job_progress& p = *made;
      made = p.spare;
      jobs_.give(p);
    }
  }

  /// The estimated device time of a whole job of this type.
  [[nodiscard]] duration total() const noexcept { return duration{means_.total_ns()}; }

  [[nodiscard]] job_progress& begin() {
    job_progress& p = jobs_.take();
    if (!p.storage_) allot(p);
    std::fill_n(p.positions_, means_.programs() + means_.slots(), 0u);
    p.remaining_ns_ = means_.total_ns();
    p.epoch_ = means_.epoch();
    return p;
  }

  /// Ends a job. Its counts are an observation if it ran to completion.
  void end(job_progress& p, bool completed) noexcept {
    if (completed) observe_counts(p);
    jobs_.give(p);
  }

  /// The estimated remaining device time. Never negative.
  [[nodiscard]] duration remaining(job_progress& p) const noexcept {
    refresh(p);
    return duration{p.remaining_ns_};
  }

  /// Operations were dispatched: those of the program from `first` on, or loose ones.
  void dispatched(job_progress& p, program_id id, std::uint32_t first,
                  std::span<const operation* const> operations) noexcept {
    refresh(p);
    if (id == no_program) {
      for (const operation* op : operations) count_one(p, means_.loose_slot(*op), 1);
      return;
    }
    const std::size_t j = means_.find(id);
    if (j == means_.programs()) return;
    const auto last = first + static_cast<std::uint32_t>(operations.size());
    if (p.positions_[j] == first)
      move(p, j, first, last);
    else
      count_scattered(p, j, first, last, 1);
  }

  /// Dispatched operations were evicted and will be dispatched again.
  void undone(job_progress& p, program_id id, std::uint32_t first,
              std::span<const operation* const> operations) noexcept {
    refresh(p);
    if (id == no_program) {
      for (const operation* op : operations) count_one(p, means_.loose_slot(*op), -1);
      return;
    }
    const std::size_t j = means_.find(id);
    if (j == means_.programs()) return;
    const auto last = first + static_cast<std::uint32_t>(operations.size());
    if (p.positions_[j] == last)
      move(p, j, last, first);
    else
      count_scattered(p, j, first, last, -1);
  }

  /// Observes the time of one operation outside programs.
  void observe(const operation& op, duration took) noexcept {
    const operation* const one = &op;
    means_.observe_loose({&one, 1}, took);
  }

  /// Observes the time of a segment. Its operations share the time in proportion to their means.
  void observe_segment(program_id id, std::uint32_t first,
                       std::span<const operation* const> operations, duration took) noexcept {
    if (operations.empty()) return;
    if (id == no_program) return means_.observe_loose(operations, took);
    const std::size_t j = means_.find(id);
    if (j != means_.programs())
      means_.observe_range(j, first, first + static_cast<std::uint32_t>(operations.size()), took);
  }

  /// The means in effect and their version.
  [[nodiscard]] const estimate_means& means() const noexcept { return means_; }
  /// Makes all observations so far take effect.
  void publish() noexcept { means_.publish(); }

private:
  static constexpr std::uint32_t scattered = job_progress::scattered;

  void allot(job_progress& p) {
    p.storage_ = std::make_unique<std::uint32_t[]>(means_.programs() + means_.slots());
    p.positions_ = p.storage_.get();
    p.counts_ = p.positions_ + means_.programs();
  }

  void refresh(job_progress& p) const noexcept {
    if (p.epoch_ == means_.epoch()) return;
    p.epoch_ = means_.epoch();
    p.remaining_ns_ = 0;
    for (std::size_t i = 0; i < means_.loose_slots(); ++i)
      p.remaining_ns_ += means_.left_ns(i, p.counts_[i]);
    for (std::size_t j = 0; j < means_.programs(); ++j) {
      if (p.positions_[j] != scattered)
        p.remaining_ns_ += means_.left_after_ns(j, p.positions_[j]);
      else
        for (std::size_t i = means_.first_slot(j); i < means_.first_slot(j + 1); ++i)
          p.remaining_ns_ += means_.left_ns(i, p.counts_[i]);
    }
  }

  void move(job_progress& p, std::size_t j, std::uint32_t from, std::uint32_t to) noexcept {
    p.remaining_ns_ += means_.left_after_ns(j, to) - means_.left_after_ns(j, from);
    p.positions_[j] = to;
  }

  void count_one(job_progress& p, std::size_t slot, int step) noexcept {
    std::uint32_t& c = p.counts_[slot];
    assert(step > 0 || c > 0);
    p.remaining_ns_ -= means_.left_ns(slot, c);
    c = step > 0 ? c + 1 : c - 1;
    p.remaining_ns_ += means_.left_ns(slot, c);
  }

  void scatter(job_progress& p, std::size_t j) noexcept {
    for (std::uint32_t k = 0; k < p.positions_[j]; ++k) ++p.counts_[means_.slot_of(j, k)];
    p.positions_[j] = scattered;
  }

  void count_scattered(job_progress& p, std::size_t j, std::uint32_t first, std::uint32_t last,
                       int step) noexcept {
    if (p.positions_[j] != scattered) scatter(p, j);
    for (std::uint32_t k = first; k < last; ++k) count_one(p, means_.slot_of(j, k), step);
  }

  void observe_counts(job_progress& p) noexcept {
    for (std::size_t j = 0; j < means_.programs(); ++j) {
      const std::uint32_t done = p.positions_[j];
      if (done == 0 || done == means_.size(j)) {
        means_.observe_runs(j, done != 0);
        continue;
      }
      if (done != scattered) scatter(p, j);
      for (std::size_t i = means_.first_slot(j); i < means_.first_slot(j + 1); ++i)
        means_.observe_count(i, p.counts_[i]);
    }
    for (std::size_t i = 0; i < means_.loose_slots(); ++i) means_.observe_count(i, p.counts_[i]);
    means_.job_ended();
  }

  estimate_means means_;
  recycler<job_progress> jobs_;
};

} // namespace gsched
