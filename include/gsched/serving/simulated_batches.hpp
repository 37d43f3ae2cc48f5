// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/detail/batch_runs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// Computes the outputs of a request from its inputs, for a model that is simulated; an address is
/// null where the request has none. It does not throw.
using simulated_work = std::function<void(std::size_t model, std::span<const void* const> inputs,
                                          std::span<void* const> outputs)>;

/// A batch_runner in virtual time, which advances in wait only. Batches take the table's latencies
/// and slow each other down as `truth` predicts.
///
/// Order    ends at one time in the order of their events. Equal calls give equal answers.
/// Cost     that of batch_runs, and O(log n) an end.
/// Threads  one owner; table and truth outlive it.
class simulated_batches {
  struct end {
    time_point at;
    std::uint64_t serial;
    std::uint32_t partition;
    std::uint32_t version;
    bool operator<(const end& o) const noexcept { // a max-heap: the earliest end is the top
      return std::tie(o.at, o.serial) < std::tie(at, serial);
    }
  };
  struct slot {
    std::uint32_t version = 0; ///< of its batch's current end; older ends in the heap are outdated
    batch_run run{};           ///< the batch that runs
    time_point begun{}, ended{};
  };

  [[nodiscard]] auto report_end() {
    return [this](std::uint32_t partition, time_point at) {
      ends_.push({at, serial_++, partition, ++slots_[partition].version});
    };
  }

public:
  /// Partitions exist `prepare` after the call of prepare. `work` computes at the end of a batch.
  simulated_batches(const latency_table& table, const interference_function& truth,
                    std::size_t gpus, duration prepare = {}, simulated_work work = {})
      : runs_(table, truth, gpus), prepare_(prepare), work_(std::move(work)) {}

  void prepare(const plan_chooser& decide) {
    prepared_ = now_;
    try {
      if (decide() != nullptr && has_plan_) prepared_ = now_ + prepare_;
    } catch (...) {
      wrong_ = std::current_exception();
    }
    has_plan_ = true; // the first plan needs no time
  }
  [[nodiscard]] bool try_prepared() {
    if (now_ < prepared_) return false;
    prepared_ = no_deadline;
    if (wrong_) std::rethrow_exception(std::exchange(wrong_, nullptr));
    return true;
  }
  void activate(std::span<const served_partition> partitions) {
    slots_.resize(std::max(slots_.size(), partitions.size()));
  }
  /// Always true: the frontend counts SMs, and simulated SMs are interchangeable.
  [[nodiscard]] bool is_available(std::uint32_t) const noexcept { return true; }

  void begin(const batch_run& r) {
    slots_[r.partition].run = r;
    slots_[r.partition].begun = now_;
    runs_.begin(r, now_, report_end());
  }
  [[nodiscard]] std::optional<std::uint32_t> try_end() {
    forget_changed();
    if (ends_.empty() || ends_.top().at > now_) return std::nullopt;
    const std::uint32_t partition = ends_.top().partition;
    ++slots_[partition].version;
    runs_.end(slots_[partition].run.gpu, partition, now_, report_end());
    slots_[partition].ended = now_;
    compute(slots_[partition].run);
    return partition;
  }
  [[nodiscard]] duration least_time_of_last(std::uint32_t partition) const noexcept {
    return slots_[partition].ended - slots_[partition].begun;
  }
  /// Launches take no time, and an end is seen at once.
  [[nodiscard]] std::optional<batch_times> times_of_last(std::uint32_t partition) const noexcept {
    const slot& s = slots_[partition];
    batch_times t; // nvcc reads {} for a duration as 0
    t.launching = t.launched = t.started = s.begun;
    t.ended = t.seen = s.ended;
    return t;
  }

  void wait(time_point t) {
    t = std::min(t, next_change());
    if (t < no_deadline) now_ = std::max(now_, t);
  }
  /// The time at which the next batch ends or partitions exist, or no_deadline.
  [[nodiscard]] time_point next_change() {
    forget_changed();
    return ends_.empty() ? prepared_ : std::min(ends_.top().at, prepared_);
  }
  [[nodiscard]] time_point now() const noexcept { return now_; }

private:
  void compute(const batch_run& r) const {
    if (!work_ || r.data.inputs.size() + r.data.outputs.size() == 0) return;
    const std::size_t inputs = r.data.inputs.size() / r.batch;
    const std::size_t outputs = r.data.outputs.size() / r.batch;
    for (std::size_t i = 0; i < r.batch; ++i)
      work_(r.model, r.data.inputs.subspan(i * inputs, inputs),
            r.data.outputs.subspan(i * outputs, outputs));
  }

  /// Removes outdated ends from the top of the heap.
  void forget_changed() {
    while (!ends_.empty() && slots_[ends_.top().partition].version != ends_.top().version)
      ends_.pop();
  }

  detail::batch_runs runs_;
  duration prepare_;
  simulated_work work_;
  bool has_plan_ = false;
  time_point now_{};
  time_point prepared_ = no_deadline;
  std::exception_ptr wrong_; ///< thrown by the plan chooser
  std::priority_queue<end> ends_;
  std::uint64_t serial_ = 0;
  std::vector<slot> slots_; ///< by partition
};

static_assert(tracing_batch_runner<simulated_batches>);

} // namespace gsched
