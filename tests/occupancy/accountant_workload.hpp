// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/program.hpp>
#include <gsched/notify/grouping.hpp>
#include <gsched/occupancy/accountant.hpp>
#include <gsched/occupancy/program_footprint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gsched::test {

/// A call on an accountant, to repeat it on a model.
struct call {
  enum class kind { charge, release, started, ended };
  kind what{};
  segment_id segment{};
  footprint asked{};
  std::optional<segment_id> behind{}; ///< charge: on its lane
  bool followed = false;              ///< release: another segment was queued behind it
  std::uint32_t operation = 0;
  kernel_demand demand{};
  std::uint32_t sm = 0;
  std::uint32_t blocks = 0;
};

template <class A>
void apply(A& a, const call& c) {
  switch (c.what) {
  case call::kind::charge: a.charge(c.segment, c.asked, c.behind); break;
  case call::kind::release: a.release(c.segment); break;
  case call::kind::started: a.started(c.segment, c.operation, c.demand, c.sm, c.blocks); break;
  case call::kind::ended: a.ended(c.segment, c.operation, c.sm, c.blocks); break;
  }
}

/// A random GPU that behaves correctly: segments of a random program are charged, their kernels'
/// blocks start and end in groups as instrumented kernels report them, and each segment is released
/// at its end. Some are queued behind others, and start when those have ended.
class workload {
public:
  static constexpr std::size_t operations = 24;

  explicit workload(std::uint64_t seed, sm_count sms = sm_count{4}, bool ends_on_other_sms = false)
      : random_(seed), sms_(sms), wander_(ends_on_other_sms), program_("random", draw_program()),
        footprints_(limits_for(9, 0), sms, program_) {}

  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }
  [[nodiscard]] std::size_t running() const { return live_.size(); }

  /// A new segment of one to four operations.
  [[nodiscard]] call draw_charge() {
    live l;
    l.id = segment_id{next_++};
    l.first = below(operations - 4);
    l.last = l.first + 1 + below(4);
    live_.push_back(l);
    skip_copies(live_.back());
    call c{.what = call::kind::charge, .segment = l.id, .asked = footprint_of_last()};
    if (live_.size() > 1 && below(3) == 0) {
      const segment_id before = live_[below(live_.size() - 1)].id;
      if (!is_followed(before)) c.behind = live_.back().behind = before;
    }
    return c;
  }
  [[nodiscard]] footprint footprint_of_last() const {
    return footprints_.range(live_.back().first, live_.back().last);
  }
  /// Reverts the last drawn charge, which was not made.
  void forget_last() { live_.pop_back(); }

  /// The next event of one of the running segments.
  [[nodiscard]] call draw_progress() {
    std::size_t i = below(live_.size());
    while (waits(live_[i])) i = (i + 1) % live_.size(); // at least one segment is behind none
    live& l = live_[i];
    if (l.first + l.operation == l.last) return release_at(i);
    const kernel_demand& k = footprints_.kernel(l.first + l.operation);
    call c{.segment = l.id, .operation = l.operation, .demand = k};
    const bool may_end = l.ended < l.started && l.ended + group(k, l.ended) <= l.started;
    if (l.started < k.blocks && (!may_end || below(2) == 0)) {
      c.what = call::kind::started;
      c.blocks = group(k, l.started);
      c.sm = static_cast<std::uint32_t>(below(sms_.count()));
      l.started += c.blocks;
      l.on.push_back(c.sm);
      return c;
    }
    c.what = call::kind::ended;
    c.blocks = group(k, l.ended);
    c.sm = wander_ ? static_cast<std::uint32_t>(below(sms_.count()))
                   : l.on[l.ended / max_group_blocks];
    l.ended += c.blocks;
    if (l.ended == k.blocks) {
      ++l.operation;
      skip_copies(l);
    }
    return c;
  }

  /// A segment that ends before it is done, or never started: evicted or failed.
  [[nodiscard]] call draw_release() { return release_at(below(live_.size())); }

  /// A call that no GPU makes, on running segments and on others.
  [[nodiscard]] call draw_nonsense() {
    call c;
    c.what = static_cast<call::kind>(below(4));
    c.segment = segment_id{below(next_ + 2)};
    if (c.what == call::kind::release && is_live(c.segment)) c.segment = segment_id{next_ + 7};
    if (c.what == call::kind::charge && !is_live(c.segment)) c.what = call::kind::started;
    c.asked = footprints_.range(0, 1 + below(4));
    c.operation = static_cast<std::uint32_t>(below(5));
    c.demand = footprints_.kernel(below(operations));
    c.sm = static_cast<std::uint32_t>(below(sms_.count() + 1));
    c.blocks = static_cast<std::uint32_t>(below(20));
    return c;
  }

private:
  struct live {
    segment_id id{};
    std::optional<segment_id> behind{};
    std::size_t first = 0;
    std::size_t last = 0;
    std::uint32_t operation = 0; ///< within the segment
    std::uint64_t started = 0;
    std::uint64_t ended = 0;
    std::vector<std::uint32_t> on{}; ///< SM of each group
  };

  [[nodiscard]] std::vector<operation> draw_program() {
    std::vector<operation> ops(operations);
    for (operation& op : ops) {
      op.expected = duration{static_cast<duration::rep>(1 + below(50'000))};
      if (below(6) == 0) {
        op.kind = operation_kind::memcpy;
        continue;
      }
      op.launch.grid.x = static_cast<std::uint32_t>(1 + below(below(3) == 0 ? 300 : 20));
      op.launch.block.x = static_cast<std::uint32_t>(1 + below(1024));
      op.launch.registers_per_thread = static_cast<std::uint32_t>(16 + below(48));
      op.launch.dynamic_shared_bytes =
          static_cast<std::uint32_t>(below(4) == 0 ? below(200'000) : 0);
    }
    return ops;
  }

  static std::uint32_t group(const kernel_demand& k, std::uint64_t before) {
    return group_size(before / max_group_blocks, k.blocks);
  }

  void skip_copies(live& l) {
    l.started = l.ended = 0;
    l.on.clear();
    while (l.first + l.operation < l.last && footprints_.kernel(l.first + l.operation).blocks == 0)
      ++l.operation;
  }

  [[nodiscard]] bool is_live(segment_id s) const {
    return std::any_of(live_.begin(), live_.end(), [&](const live& l) { return l.id == s; });
  }

  [[nodiscard]] bool is_followed(segment_id s) const {
    return std::any_of(live_.begin(), live_.end(), [&](const live& l) { return l.behind == s; });
  }

  /// Whether the segment ahead of it still has something to run.
  [[nodiscard]] bool waits(const live& l) const {
    const auto before =
        std::find_if(live_.begin(), live_.end(), [&](const live& b) { return b.id == l.behind; });
    return before != live_.end() && before->first + before->operation != before->last;
  }

  [[nodiscard]] call release_at(std::size_t i) {
    const live out = live_[i];
    const call c{.what = call::kind::release, .segment = out.id, .followed = is_followed(out.id)};
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    for (live& l : live_)
      if (l.behind == out.id) l.behind = out.behind;
    return c;
  }

  std::mt19937_64 random_;
  sm_count sms_;
  bool wander_;
  program program_;
  program_footprint footprints_;
  std::vector<live> live_;
  std::uint64_t next_ = 0;
};

} // namespace gsched::test
