// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/detail/tail_decay.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace gsched {

/// Serves jobs in order of arrival, where each arrival counts as earlier by a boost that is larger
/// for smaller jobs. One parameter trades tail latency against mean latency.
///
/// The boost of a job of size s is log(1 / (1 - exp(-g s))) / g. g is `factor` times the decay rate
/// of the tail of the work that arriving jobs find waiting; that rate is learned. Factor 1
/// optimises the tail: in a light-tailed M/G/1 queue no policy has a lighter tail. As the factor
/// approaches 0, small jobs pass more of the larger ones, and the mean approaches that of srpt.
///
/// Source   Yu and Scully, "Strongly Tail-Optimal Scheduling in the Light-Tailed M/G/1", 2024
///          (gamma-Boost).
/// Differs  g is learned from the backlog, and scaled. A device runs several jobs concurrently, so
///          a boost is divided by the rate at which it serves while jobs wait. All waiting jobs are
///          ordered by the present g: if keys were fixed at arrival, jobs from before a burst would
///          wait for the whole burst. Jobs whose sizes differ by less than a quarter may share a
///          class with one boost. Work in service does not count as found.
/// Order    (arrival - boost of the class, id) rising.
/// Units    sizes are device time, as estimated when a job arrives.
/// Bounds   a boost is at most longest_boost.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order, and a comparison for each class with a waiting job, at most 164; a
///          logarithm for each of those when g has changed by 2%. Never allocates.
/// Threads  one owner; no locking.
class gamma_boost {
public:
  using order = job_order<&job::arrival>; ///< the jobs of one size class
  using per_job = order::per_job;
  static constexpr std::string_view name = "boost";
  static constexpr double default_factor = 0.3;
  static constexpr duration longest_boost = std::chrono::hours{1};

  [[nodiscard]] static constexpr bool is_factor(double f) noexcept { return f >= 1e-6 && f <= 1e6; }
  /// A number that is_factor() refuses counts as the default.
  explicit gamma_boost(double factor = default_factor) noexcept
      : factor_(is_factor(factor) ? factor : default_factor) {}

  /// A policy with the same factor that has learned nothing.
  [[nodiscard]] gamma_boost fresh() const noexcept { return gamma_boost(factor_); }

  void enqueue(per_job& j, time_point) noexcept {
    if (!any_ || newest_ < j->id)
      learn_arrival(*j); // a new job has the highest id
    else
      left_ns_ -= static_cast<double>(j->remaining.count());
    const std::size_t c = class_of(j->total);
    classes_[c].insert(j);
    waiting_[c / 64] |= std::uint64_t{1} << c % 64;
    backlog_ += j->remaining;
    ++size_;
  }
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* const first = front().best;
    if (first == nullptr) return nullptr;
    // If a job has waited since the last pick, the device served at its full rate. Work that left
    // the queue and did not return counts as served, because the estimated sizes include the
    // slow-down by other jobs, which the head's time does not.
    if (waited_since_) {
      served_ns_ += left_ns_;
      took_ns_ += static_cast<double>((now - *waited_since_).count());
      if (took_ns_ > remembered_ns) { // older observations lose weight
        served_ns_ /= 2;
        took_ns_ /= 2;
      }
    }
    remove(*first);
    left_ns_ = static_cast<double>((*first)->remaining.count());
    waited_since_.reset();
    if (size_ > 0) waited_since_ = now;
    return first;
  }
  void erase(per_job& j) noexcept { remove(j); }

  /// Strict: an equal key never preempts.
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point) const noexcept {
    const auto [first, least] = front();
    const key own = key_of(running->arrival, class_of(running->total), running->id);
    return first != nullptr && least < own;
  }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  [[nodiscard]] double factor() const noexcept { return factor_; }
  /// The boost of a job of that size at the present estimates.
  [[nodiscard]] duration boost_of(duration size) const noexcept { return boost_at(class_of(size)); }

private:
  /// The assumed waiting work that a job finds, in units of the mean size: that of an M/M/1 queue
  /// at load 3/4. It has the weight of this many observed jobs.
  static constexpr double assumed_excess = 4;
  static constexpr double assumed_jobs = 64;
  static constexpr double remembered_sizes = 1024;
  static constexpr double least_excess = 0.05; ///< in units of the mean size
  static constexpr double same_rate = 0.02;
  static constexpr double remembered_ns = 1e9;    ///< time with waiting jobs
  static constexpr std::size_t class_count = 164; ///< four a power of two, up to 2^41 ns

  struct cached_boost {
    std::uint64_t epoch = 0;
    duration value{};
  };

  [[nodiscard]] static std::size_t class_of(duration size) noexcept {
    const auto ns = static_cast<std::uint64_t>(std::max<duration::rep>(size.count(), 4));
    const auto octave = static_cast<std::size_t>(std::bit_width(ns)) - 1;
    return std::min(4 * octave + (ns >> (octave - 2) & 3), class_count - 1);
  }
  /// The size in the middle of a class.
  [[nodiscard]] static double size_of(std::size_t c) noexcept {
    return std::ldexp(1.125 + 0.25 * static_cast<double>(c % 4), static_cast<int>(c / 4));
  }

  void learn_arrival(const job& j) noexcept {
    any_ = true;
    newest_ = j.id;
    sizes_.learn(static_cast<double>(j.total.count()), remembered_sizes);
    decay_.learn(static_cast<double>(backlog_.count()));
    const double assumed = assumed_excess * sizes_.mean();
    const double known = decay_.seen() / (decay_.seen() + assumed_jobs);
    const double excess = known * decay_.mean_excess() + (1 - known) * assumed;
    const double rate = factor_ / std::max({excess, least_excess * sizes_.mean(), 1.0});
    const double speed = took_ns_ > 0 ? std::clamp(served_ns_ / took_ns_, 1.0, 1024.0) : 1.0;
    if (std::abs(rate - rate_) <= same_rate * rate_ &&
        std::abs(speed - speed_) <= same_rate * speed_)
      return;
    rate_ = rate;
    speed_ = speed;
    ++epoch_;
  }
  [[nodiscard]] duration boost_at(std::size_t c) const noexcept {
    cached_boost& b = boosts_[c];
    if (b.epoch != epoch_) {
      constexpr auto most = static_cast<double>(duration{longest_boost}.count());
      const double work = rate_ > 0 ? -std::log(-std::expm1(-rate_ * size_of(c))) / rate_ : 0;
      const double ns = work / speed_;
      b = {epoch_, duration{static_cast<duration::rep>(std::clamp(ns, 0.0, most))}};
    }
    return b.value;
  }

  /// Saturates; ties by id.
  using key = std::pair<std::int64_t, job_id>;
  [[nodiscard]] key key_of(time_point arrival, std::size_t c, job_id id) const noexcept {
    const std::int64_t at = arrival.time_since_epoch().count();
    const std::int64_t lead = boost_at(c).count();
    constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    return {at < lowest + lead ? lowest : at - lead, id};
  }
  struct first_job {
    per_job* best = nullptr;
    key least{};
  };
  [[nodiscard]] first_job front() const noexcept {
    first_job first;
    for (std::size_t word = 0; word < waiting_.size(); ++word)
      for (std::uint64_t left = waiting_[word]; left != 0; left &= left - 1) {
        const std::size_t c = 64 * word + static_cast<std::size_t>(std::countr_zero(left));
        per_job* const head = classes_[c].front();
        const key k = key_of(head->key, c, head->id);
        if (first.best == nullptr || k < first.least) first = {head, k};
      }
    return first;
  }
  void remove(per_job& j) noexcept {
    const std::size_t c = class_of(j->total);
    classes_[c].erase(j);
    if (classes_[c].empty()) waiting_[c / 64] &= ~(std::uint64_t{1} << c % 64);
    backlog_ -= j->remaining;
    --size_;
  }

  std::array<order, class_count> classes_;
  std::array<std::uint64_t, (class_count + 63) / 64> waiting_{}; ///< one bit a class
  mutable std::array<cached_boost, class_count> boosts_{};
  std::uint64_t epoch_ = 1;                  ///< version of rate_ and speed_
  double rate_ = 0;                          ///< decay rate, in work
  double speed_ = 1;                         ///< work served a unit of time while jobs wait
  std::optional<time_point> waited_since_{}; ///< time of the last pick, if it left a job waiting
  double left_ns_ = 0;                       ///< net work that has left the queue since then
  double served_ns_ = 0;
  double took_ns_ = 0;
  double factor_;
  duration backlog_{};
  tail_decay decay_;
  latest_mean sizes_;
  std::size_t size_ = 0;
  job_id newest_{};
  bool any_ = false;
};

static_assert(policy<gamma_boost>);

} // namespace gsched
