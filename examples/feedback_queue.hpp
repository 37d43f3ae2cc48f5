// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

/// A multi-level feedback queue. A job starts at the first level and moves down one level each time
/// it has used the level's time, which doubles from level to level; higher levels are served first.
/// Short jobs are preferred although no size is known. Jobs that have waited since an earlier
/// period precede all others, so none starves.
///
/// Source   Corbato, Merwin-Daggett, Daley, AFIPS 1962, "An experimental time-sharing system".
/// Order    (period of its last enqueue, level, id) rising.
class feedback_queue {
public:
  static constexpr std::string_view name = "feedback_queue";
  static constexpr gsched::duration first_level = std::chrono::microseconds{200};
  static constexpr gsched::duration period = std::chrono::milliseconds{20};
  static constexpr std::uint32_t levels = 8;

  using key = std::pair<std::int64_t, std::uint32_t>; ///< period, level
  using order = gsched::keyed_jobs<key>;
  struct per_job : order::per_job {
    std::uint32_t level = 0;
    gsched::duration used{}; ///< device time used at this level
  };

  void enqueue(per_job& j, gsched::time_point now) noexcept {
    const std::int64_t current = now.time_since_epoch() / period;
    if (j.used >= first_level * (1u << j.level)) {
      j.level = std::min(j.level + 1, levels - 1);
      j.used = {};
    }
    waiting_.insert(j, {current, j.level});
  }
  [[nodiscard]] per_job* try_pick(gsched::time_point) noexcept {
    auto* const picked = static_cast<per_job*>(waiting_.pop_front());
    if (picked != nullptr) picked->used += (*picked)->head;
    return picked;
  }
  void erase(per_job& j) noexcept { waiting_.erase(j); }

  [[nodiscard]] bool wants_preempt(const per_job&, gsched::time_point) const noexcept {
    return false;
  }
  [[nodiscard]] gsched::duration slice(const per_job& j) const noexcept {
    return first_level * (1u << j.level);
  }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

static_assert(gsched::policy<feedback_queue>);
