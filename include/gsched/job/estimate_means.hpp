// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// The weights of past values in a mean.
///
/// Units    observations: jobs for a count, executions for a time.
struct estimate_weights {
  double prior = 16.0;  ///< weight of a profile's values
  double most = 4096.0; ///< largest weight of the past; older observations fade
};

/// Mean counts and mean times of the kernels of one job type: those in effect, and the observations
/// since they took effect. Kernels have slots: first those launched outside programs, by id, then
/// the pseudo-kernels of copies, memsets and kernels without an id; then the same for each program.
///
/// Differs  the measured time of a segment is entered at both ends in an array of differences, and
///          is distributed to its operations at the next publish().
/// Cost     observe_range O(1); publish O(slots + operations), after at least that many
///          observations. No allocation after the programs were added.
/// Threads  one owner; no locking.
class estimate_means {
public:
  estimate_means(std::size_t loose_kernels, estimate_weights weights)
      : weights_(weights), loose_kernels_(loose_kernels), slots_(loose_kernels + classes) {}

  void add(const program& graph, double runs) {
    table t;
    t.graph = &graph;
    t.first_slot = slots_.size();
    const auto size = static_cast<std::uint32_t>(graph.size());
    slots_.resize(slots_.size() + graph.kernel_count() + classes);
    const double typical = typical_ns(graph);
    for (std::uint32_t k = 0; k < size; ++k) {
      const operation& op = graph.operations()[k];
      const std::size_t in_graph = slot_in(op, graph.kernel_count());
      slot& s = slots_[t.first_slot + in_graph];
      t.slots.push_back(static_cast<std::uint32_t>(t.first_slot + in_graph));
      ++s.in_graph;
      s.time += op.expected > duration::zero() ? static_cast<double>(op.expected.count()) : typical;
    }
    for (std::size_t i = t.first_slot; i < slots_.size(); ++i) {
      slot& s = slots_[i];
      if (s.in_graph == 0) continue;
      s.time /= s.in_graph;
      s.count = runs * s.in_graph;
      s.time_weight = s.count_weight = weights_.prior;
    }
    t.left.resize(size + 1);
    t.until.resize(size + 1);
    t.ratio.resize(size + 1);
    t.seen.resize(size + 1);
    tables_.push_back(std::move(t));
    operations_ += size;
    rebuild();
  }

  /// Observations of the replica count for program j, which has the same operations.
  void add_replica(const program& replica, std::size_t j) { replicas_.emplace_back(&replica, j); }

  void expect(const operation& op, double count) {
    slot& s = slots_[loose_slot(op)];
    const double time = std::max(1.0, static_cast<double>(op.expected.count()));
    s.time = (s.time * s.count + time * count) / (s.count + count);
    s.count += count;
    s.time_weight = s.count_weight = weights_.prior;
    rebuild();
  }

  // Values in effect ---------------------------------------------------------------------------

  [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }
  [[nodiscard]] std::size_t loose_slots() const noexcept { return loose_kernels_ + classes; }
  [[nodiscard]] std::size_t programs() const noexcept { return tables_.size(); }
  /// The program's index; programs() if it was not added.
  [[nodiscard]] std::size_t find(program_id id) const noexcept {
    std::size_t j = 0;
    while (j < tables_.size() && tables_[j].graph->id() != id) ++j;
    for (std::size_t i = 0; j == tables_.size() && i < replicas_.size(); ++i)
      if (replicas_[i].first->id() == id) return replicas_[i].second;
    return j;
  }
  [[nodiscard]] std::uint32_t size(std::size_t j) const noexcept {
    return static_cast<std::uint32_t>(tables_[j].slots.size());
  }
  /// Slots of program j are [first_slot(j), first_slot(j + 1)).
  [[nodiscard]] std::size_t first_slot(std::size_t j) const noexcept {
    return j < tables_.size() ? tables_[j].first_slot : slots_.size();
  }
  [[nodiscard]] std::size_t slot_of(std::size_t j, std::uint32_t operation) const noexcept {
    return tables_[j].slots[operation];
  }
  [[nodiscard]] std::size_t loose_slot(const operation& op) const noexcept {
    return slot_in(op, loose_kernels_);
  }
  [[nodiscard]] double mean_count(std::size_t i) const noexcept { return slots_[i].count; }
  /// Unit: nanoseconds.
  [[nodiscard]] double mean_time_ns(std::size_t i) const noexcept { return slots_[i].time; }

  /// max(0, mean count - done) * mean time, to the nearest nanosecond.
  [[nodiscard]] std::int64_t left_ns(std::size_t i, std::uint32_t done) const noexcept {
    const slot& s = slots_[i];
    const double left = (s.count - done) * s.time;
    return left > 0.0 ? static_cast<std::int64_t>(left + 0.5) : 0;
  }
  /// The sum of left_ns over the slots of program j after its first `done` operations.
  [[nodiscard]] std::int64_t left_after_ns(std::size_t j, std::uint32_t done) const noexcept {
    return tables_[j].left[done];
  }
  [[nodiscard]] std::int64_t total_ns() const noexcept { return total_ns_; }
  /// Increases whenever the values in effect change.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

  // Observations ------------------------------------------------------------------------------

  void observe_range(std::size_t j, std::uint32_t first, std::uint32_t last,
                     duration took) noexcept {
    table& t = tables_[j];
    assert(first < last && last < t.until.size());
    const double ratio = static_cast<double>(took.count()) / (t.until[last] - t.until[first]);
    t.ratio[first] += ratio;
    t.ratio[last] -= ratio;
    ++t.seen[first];
    --t.seen[last];
    observed(last - first);
  }

  void observe_loose(std::span<const operation* const> operations, duration took) noexcept {
    double sum = 0.0;
    for (const operation* op : operations) sum += share(*op);
    const double ratio = static_cast<double>(took.count()) / sum;
    for (const operation* op : operations) {
      slot& s = slots_[loose_slot(*op)];
      s.seen_time += share(*op) * ratio;
      s.seen_times += 1.0;
    }
    observed(operations.size());
  }

  void observe_count(std::size_t i, std::uint32_t count) noexcept {
    slots_[i].seen_count += count;
    slots_[i].seen_jobs += 1.0;
  }
  /// A job ran the whole of program j once, or did not run it.
  void observe_runs(std::size_t j, bool ran) noexcept {
    tables_[j].ran += ran ? 1.0 : 0.0;
    tables_[j].jobs += 1.0;
  }
  void job_ended() noexcept { observed(operations_); }

  /// Whether the counts in effect include observed jobs, not the prior alone.
  [[nodiscard]] bool knows_jobs() const noexcept { return knows_jobs_; }

  void publish() noexcept {
    for (table& t : tables_) collect(t);
    for (slot& s : slots_) {
      if (s.seen_times > 0.0) {
        merge(s.time, s.time_weight, s.seen_time, s.seen_times);
        s.time = std::max(s.time, 1.0); // zero would give the operation no share of later segments
      }
      knows_jobs_ = knows_jobs_ || s.seen_jobs > 0.0;
      if (s.seen_jobs > 0.0) merge(s.count, s.count_weight, s.seen_count, s.seen_jobs);
    }
    rebuild();
    since_ = 0;
    interval_ = std::min(interval_ * 2, 64 * operations_ + 64);
  }

private:
  /// Pseudo-kernels: four directions of copies, memsets, kernels without an id.
  static constexpr std::size_t classes = 6;

  struct slot {
    double count = 0.0; ///< in effect
    double time = 0.0;  ///< in effect, ns
    double count_weight = 0.0;
    double time_weight = 0.0;
    double seen_count = 0.0; ///< sums since the last publish()
    double seen_jobs = 0.0;
    double seen_time = 0.0;
    double seen_times = 0.0;
    std::uint32_t in_graph = 0; ///< occurrences in one run of its program
    std::uint32_t walked = 0;   ///< occurrences visited while tables are rebuilt
  };

  struct table {
    const program* graph = nullptr;
    std::size_t first_slot = 0;
    std::vector<std::uint32_t> slots; ///< by operation
    std::vector<std::int64_t> left;   ///< by number of dispatched operations: remaining time, ns
    std::vector<double> until;        ///< sum of the mean times of the operations before
    std::vector<double> ratio;        ///< differences: measured time over the sum of the means
    std::vector<std::int64_t> seen;   ///< differences: number of measurements
    double ran = 0.0;
    double jobs = 0.0;
  };

  [[nodiscard]] static std::size_t slot_in(const operation& op, std::size_t kernels) noexcept {
    switch (op.kind) {
    case operation_kind::memcpy: return kernels + static_cast<std::size_t>(op.direction);
    case operation_kind::memset: return kernels + 4;
    default: return index(op.kernel) < kernels ? index(op.kernel) : kernels + 5;
    }
  }

  [[nodiscard]] static double typical_ns(const program& graph) noexcept {
    double sum = 0.0;
    double known = 0.0;
    for (const operation& op : graph.operations()) {
      sum += static_cast<double>(op.expected.count());
      known += op.expected > duration::zero() ? 1.0 : 0.0;
    }
    return known > 0.0 ? sum / known : 1e3;
  }

  [[nodiscard]] double share(const operation& op) const noexcept {
    const double mean = slots_[loose_slot(op)].time;
    return mean > 0.0 ? mean : std::max(1.0, static_cast<double>(op.expected.count()));
  }

  void observed(std::size_t operations) noexcept {
    since_ += operations;
    if (since_ >= std::max(interval_, operations_)) publish();
  }

  void merge(double& mean, double& weight, double& sum, double& n) const noexcept {
    weight = std::min(weight, weights_.most);
    mean = (mean * weight + sum) / (weight + n);
    weight += n;
    sum = n = 0.0;
  }

  void collect(table& t) noexcept {
    double ratio = 0.0;
    std::int64_t seen = 0;
    for (std::size_t k = 0; k < t.slots.size(); ++k) {
      ratio += t.ratio[k];
      seen += t.seen[k];
      if (seen == 0) ratio = 0.0; // the remainder is a rounding error
      slot& s = slots_[t.slots[k]];
      s.seen_time += std::max(0.0, ratio) * s.time;
      s.seen_times += static_cast<double>(seen);
    }
    std::fill(t.ratio.begin(), t.ratio.end(), 0.0);
    std::fill(t.seen.begin(), t.seen.end(), 0);
    if (t.jobs == 0.0) return;
    for (std::size_t i = t.first_slot; i < t.first_slot + t.graph->kernel_count() + classes; ++i) {
      slots_[i].seen_count += t.ran * slots_[i].in_graph;
      slots_[i].seen_jobs += t.jobs;
    }
    t.ran = t.jobs = 0.0;
  }

  void rebuild() noexcept {
    total_ns_ = 0;
    for (std::size_t i = 0; i < loose_slots(); ++i) total_ns_ += left_ns(i, 0);
    for (slot& s : slots_) s.walked = 0;
    for (std::size_t j = 0; j < tables_.size(); ++j) {
      table& t = tables_[j];
      std::int64_t left = 0;
      for (std::size_t i = t.first_slot; i < first_slot(j + 1); ++i) left += left_ns(i, 0);
      total_ns_ += left;
      t.left[0] = left;
      for (std::size_t k = 0; k < t.slots.size(); ++k) {
        slot& s = slots_[t.slots[k]];
        left -= left_ns(t.slots[k], s.walked);
        left += left_ns(t.slots[k], ++s.walked);
        t.left[k + 1] = left;
        t.until[k + 1] = t.until[k] + s.time;
      }
    }
    ++epoch_;
  }

  estimate_weights weights_;
  std::size_t loose_kernels_;
  std::vector<slot> slots_;
  std::vector<table> tables_;
  std::vector<std::pair<const program*, std::size_t>> replicas_;
  std::int64_t total_ns_ = 0;
  std::size_t operations_ = 0; ///< of all programs
  bool knows_jobs_ = false;
  std::size_t since_ = 0;     ///< operations observed since the last publish()
  std::size_t interval_ = 64; ///< operations observed until the next publish()
  std::uint64_t epoch_ = 0;
};

} // namespace gsched
