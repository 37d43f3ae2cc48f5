// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/simulated_batches.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace gsched {

/// simulated_batches whose virtual time follows the real clock, for clients that really wait.
///
/// Differs  ends are reported when they are asked for, so late where the host falls behind.
/// Cost     as simulated_batches, and a reading of the clock for each call.
/// Threads  one owner; table and truth outlive it.
class paced_batches {
public:
  paced_batches(const latency_table& table, const interference_function& truth, std::size_t gpus,
                duration prepare = {}, simulated_work work = {})
      : on_(table, truth, gpus, prepare, std::move(work)) {}

  void prepare(const plan_chooser& decide) {
    catch_up();
    on_.prepare(decide);
  }
  [[nodiscard]] bool try_prepared() {
    catch_up();
    return on_.try_prepared();
  }
  void activate(std::span<const served_partition> partitions) { on_.activate(partitions); }
  [[nodiscard]] bool is_available(std::uint32_t p) const noexcept { return on_.is_available(p); }
  void begin(const batch_run& r) {
    catch_up();
    if (r.partition >= times_.size()) times_.resize(r.partition + 1);
    times_[r.partition].begun = now();
    on_.begin(r);
  }
  [[nodiscard]] std::optional<std::uint32_t> try_end() {
    catch_up();
    const auto ended = on_.try_end();
    if (ended) times_[*ended].seen = now();
    return ended;
  }
  [[nodiscard]] duration least_time_of_last(std::uint32_t partition) const noexcept {
    const real_times& real = times_[partition];
    return std::min(on_.least_time_of_last(partition), real.seen - real.begun);
  }

  /// Sleeps until the first event or the time.
  void wait(time_point t) {
    catch_up();
    const time_point until = std::min(t, on_.next_change());
    if (until > now() && until < no_deadline)
      std::this_thread::sleep_until(
          epoch_ + std::chrono::duration_cast<clock::duration>(until.time_since_epoch()));
  }
  [[nodiscard]] time_point now() const noexcept {
    return time_point{std::chrono::duration_cast<duration>(clock::now() - epoch_)};
  }

private:
  using clock = std::chrono::steady_clock;

  /// Virtual time may be behind when a batch begins; then it ends sooner than it would take.
  struct real_times {
    time_point begun{}, seen{};
  };

  /// Advances the virtual time, at most to the first event, which is then to be asked for.
  void catch_up() { on_.wait(now()); }

  simulated_batches on_;
  std::vector<real_times> times_; ///< by partition: of the last batch
  clock::time_point epoch_ = clock::now();
};

static_assert(batch_runner<paced_batches>);

} // namespace gsched
