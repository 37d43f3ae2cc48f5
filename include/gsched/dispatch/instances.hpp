// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/job.hpp>

#include <boost/intrusive/set.hpp>

#include <cstdint>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace gsched {

/// The instances of one model: what a job must have to itself from its start to its end, such as
/// the memory of a captured graph, which has one set of addresses. Jobs that find none free wait.
///
/// Order    real-time first, then earliest deadline, earliest arrival, lowest id. Jobs of one model
///          take about equally long, so this is also what a policy that looks at time would choose;
///          one that shares between clients sees a job only once it has its instance.
/// Cost     O(log n) of n that wait; no allocation after construction.
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
    std::iota(free_.rbegin(), free_.rend(), 0u); // the lowest is taken first
  }

  [[nodiscard]] bool limited() const noexcept { return limited_; }
  [[nodiscard]] bool has_free() const noexcept { return !limited_ || !free_.empty(); }
  [[nodiscard]] bool has_waiting() const noexcept { return !waiting_.empty(); }

  /// has_free() must hold. The number is below the count; 0 for any of unlimited ones.
  [[nodiscard]] std::uint32_t take() noexcept {
    if (!limited_) return 0;
    const std::uint32_t which = free_.back();
    free_.pop_back();
    return which;
  }
  void give_back(std::uint32_t which) noexcept {
    if (limited_) free_.push_back(which); // within what it held at first
  }

  /// Instead of giving it back, where it cannot be used any more. The last one is given back all
  /// the same, so that jobs fail instead of waiting for ever.
  void retire(std::uint32_t which) noexcept {
    if (limited_ && usable_ > 1)
      --usable_;
    else
      give_back(which);
  }

  /// The job is in no policy: it is linked by the hook that a policy would use.
  void wait(job& j) noexcept { waiting_.insert(j); }
  void leave(job& j) noexcept { waiting_.erase(waiting_.iterator_to(j)); }
  /// The job that is next; has_waiting() must hold.
  [[nodiscard]] job& first() noexcept { return *waiting_.begin(); }
  /// Whether a job waits that comes before j.
  [[nodiscard]] bool waits_before(const job& j) const noexcept {
    return !waiting_.empty() && sooner{}(*waiting_.begin(), j);
  }

private:
  struct sooner {
    bool operator()(const job& a, const job& b) const noexcept {
      return std::tie(a.service, a.deadline, a.arrival, a.id) <
             std::tie(b.service, b.deadline, b.arrival, b.id);
    }
  };
  bool limited_;
  std::uint32_t usable_ = 0; ///< those that were not retired
  std::vector<std::uint32_t> free_;
  bi::set<job, bi::member_hook<job, set_hook, &job::order_hook>, bi::compare<sooner>,
          bi::constant_time_size<false>>
      waiting_;
};

} // namespace gsched
