// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <boost/intrusive/set.hpp>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// A job with the hook that links it in the common order while it waits for an instance.
struct waiting_job : job {
  set_hook wait_hook{};
};

/// The jobs of one model that wait to start. A model of it also keeps: each waiting job leaves
/// once, by take or by leave; no call except prepare allocates, locks or throws.
class start_queue {
public:
  virtual ~start_queue() = default;
  /// Called before the first job of that client waits. May allocate.
  virtual void prepare(const client& c) = 0;
  virtual void wait(waiting_job& j, time_point now) noexcept = 0;
  virtual void leave(waiting_job& j) noexcept = 0;
  /// Removes and returns the next job; empty() must be false.
  [[nodiscard]] virtual waiting_job& take(time_point now) noexcept = 0;
  [[nodiscard]] virtual bool empty() const noexcept = 0;
};

/// The instances of one model. An instance is a resource that a job owns from its start to its end,
/// such as the memory of a captured graph, which has fixed addresses. Jobs wait while no instance
/// is free.
///
/// Order    that of the start_queue. Without one, or once models exclude one another: real-time
///          first, then earliest deadline, earliest arrival, lowest id, because jobs of several
///          models then need one order.
/// Cost     that of the queue, or O(log n) of n waiting jobs; no allocation after construction.
/// Threads  one owner; no locking.
class instance_pool {
public:
  static constexpr std::uint32_t unlimited = 0;

  explicit instance_pool(std::uint32_t count = unlimited) : limited_(count != unlimited) {
    if (count > (1u << 20))
      throw error(errc::bad_option,
                  "instances: " + std::to_string(count) + ", expected at most 2^20");
    usable_ = count;
    free_.resize(count);
    std::iota(free_.rbegin(), free_.rend(), 0u); // the lowest number is taken first
  }

  [[nodiscard]] bool limited() const noexcept { return limited_; }
  [[nodiscard]] bool has_free() const noexcept { return !limited_ || !free_.empty(); }
  [[nodiscard]] bool has_waiting() const noexcept {
    return !in_common_.empty() || (queue_ != nullptr && !queue_->empty());
  }

  /// Sets the queue of waiting jobs. Set-up; no job waits yet.
  void set_queue(std::unique_ptr<start_queue> q) noexcept { queue_ = std::move(q); }
  [[nodiscard]] start_queue* queue() const noexcept { return queue_.get(); }
  /// From now on jobs wait in the order that is common to all models. Set-up.
  void keep_common_order(time_point now) noexcept {
    common_ = true;
    while (queue_ != nullptr && !queue_->empty()) in_common_.insert(queue_->take(now));
  }

  /// Takes an instance; has_free() must hold. Returns its number, which is below the count; 0 if
  /// instances are not limited.
  [[nodiscard]] std::uint32_t take() noexcept {
    if (!limited_) return 0;
    const std::uint32_t which = free_.back();
    free_.pop_back();
    return which;
  }
  void give_back(std::uint32_t which) noexcept {
    if (limited_) free_.push_back(which); // within its initial size
  }

  /// Called instead of giving an instance back, if it cannot be used any more. The last one is
  /// given back nevertheless, so that jobs take it and fail (all_lost) and none waits for ever.
  void retire(std::uint32_t which) noexcept {
    if (limited_ && --usable_ == 0) all_lost_ = true;
    if (!limited_ || all_lost_) give_back(which);
  }
  /// Whether no usable instance is left.
  [[nodiscard]] bool all_lost() const noexcept { return all_lost_; }

  void wait(waiting_job& j, time_point now) noexcept {
    if (uses_queue())
      queue_->wait(j, now);
    else
      in_common_.insert(j);
  }
  void leave(waiting_job& j) noexcept {
    if (uses_queue())
      queue_->leave(j);
    else
      in_common_.erase(in_common_.iterator_to(j));
  }
  /// The next job in the common order; null if none waits there.
  [[nodiscard]] waiting_job* first_in_common() noexcept {
    return in_common_.empty() ? nullptr : &*in_common_.begin();
  }
  /// Removes and returns the next job; has_waiting() must hold.
  [[nodiscard]] waiting_job& take_waiting(time_point now) noexcept {
    if (uses_queue()) return queue_->take(now);
    waiting_job& first = *in_common_.begin();
    in_common_.erase(in_common_.begin());
    return first;
  }
  /// Whether a waiting job precedes j, which does not wait yet or is first_in_common.
  [[nodiscard]] bool waits_before(const job& j) const noexcept {
    if (uses_queue()) return !queue_->empty();
    return !in_common_.empty() && sooner{}(*in_common_.begin(), j);
  }

private:
  struct sooner {
    bool operator()(const job& a, const job& b) const noexcept {
      return std::tie(a.service, a.deadline, a.arrival, a.id) <
             std::tie(b.service, b.deadline, b.arrival, b.id);
    }
  };
  [[nodiscard]] bool uses_queue() const noexcept { return queue_ != nullptr && !common_; }

  bool limited_;
  bool common_ = false;
  bool all_lost_ = false;
  std::uint32_t usable_ = 0; ///< instances that were not retired
  std::vector<std::uint32_t> free_;
  bi::set<waiting_job, bi::member_hook<waiting_job, set_hook, &waiting_job::wait_hook>,
          bi::compare<sooner>, bi::constant_time_size<false>>
      in_common_;
  std::unique_ptr<start_queue> queue_;
};

} // namespace gsched
