// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/sim/detail/block_scheduler.hpp>
#include <gsched/sim/detail/scaling.hpp>
#include <gsched/sim/detail/work_cost.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched::sim {

/// A kernel that is run padded: as it is by itself, and how much of it is run.
struct padded_work {
  operation kernel{}; ///< expected, and by_sms where known, are of all its blocks alone
  /// Of the device's memory throughput that it takes when alone, 0 to 1; where nobody has measured
  /// it, load_of reads it off the times on fewer SMs.
  std::optional<float> memory{};
  std::uint32_t blocks = 0; ///< of this launch
};

/// What padding is predicted to do to one real-time kernel.
struct padded_times {
  duration alone{};      ///< the real-time kernel by itself
  duration real_time{};  ///< until its last block has ended, padded
  duration together{};   ///< of the padded kernel
  duration one_by_one{}; ///< the real-time kernel, then each guest's blocks as a kernel of its own

  /// Of the real-time program: what follows waits for the whole padded kernel.
  [[nodiscard]] double slowdown() const noexcept { return ratio(together, alone); }
  [[nodiscard]] double speed_up() const noexcept { return ratio(one_by_one, together); }

  padded_times& operator+=(const padded_times& o) noexcept {
    alone += o.alone;
    real_time += o.real_time;
    together += o.together;
    one_by_one += o.one_by_one;
    return *this;
  }

private:
  [[nodiscard]] static double ratio(duration a, duration b) noexcept {
    return b > duration::zero() ? static_cast<double>(a.count()) / static_cast<double>(b.count())
                                : 1;
  }
};

/// A kernel as its facts for padding have it: scaling follows the device's law.
[[nodiscard]] inline operation operation_of(const kernel_variant& k) noexcept {
  operation op;
  op.launch = detail::shape_of(k.threads_per_block, k.registers_per_thread, k.shared_bytes);
  op.launch.grid.x = k.blocks;
  op.max_blocks_per_sm = k.level;
  op.expected = k.kernel_time;
  return op;
}

/// Predicts padded kernels: the real-time kernel's blocks and then its guests', all with the room
/// that a block of the proxy takes, placed and slowed by the simulated device's laws.
///
/// Differs  from lanes that run side by side: it is one kernel, so that contention_law::beside,
///          which is what another lane costs by being there, is left out.
/// Errors   bad_option for a part of no blocks, a guest or its host that is no kernel, or a level
/// of
///          zero; does_not_fit for a kernel that no SM holds.
/// Cost     some 10 us a kernel: the scaling tables of its parts.
/// Threads  one owner.
class padded_kernels {
public:
  explicit padded_kernels(const preset& p) : preset_(checked(p)), blocks_(p) {}

  /// `level`: blocks of the padded kernel that an SM holds, as the plan has it; no more than each
  /// part's own.
  [[nodiscard]] padded_times predict(const padded_work& real_time,
                                     std::span<const padded_work> guests, std::uint32_t level) {
    if (level == 0) throw error(errc::bad_option, "padded kernel: level 0, expected 1 or more");
    const work_cost host = cost(real_time, per_sm(real_time));
    padded_times t;
    t.alone = t.one_by_one = run({&host, 1}).back();
    if (guests.empty()) {
      t.real_time = t.together = t.alone;
      return t;
    }
    launch_shape proxy = shape_of(real_time.kernel);
    level = std::min(level, per_sm(real_time));
    std::vector<work_cost> parts(1);
    for (const padded_work& g : guests) {
      if (g.kernel.kind != operation_kind::kernel || real_time.kernel.kind != g.kernel.kind)
        throw error(errc::bad_option, "padded kernel: a part that is no kernel, expected kernels");
      parts.push_back(cost(g, per_sm(g)));
      t.one_by_one += preset_.laws.graph.gap + run({&parts.back(), 1}).back();
      const launch_shape s = shape_of(g.kernel);
      proxy.block.x = std::max(proxy.block.x, s.block.x);
      proxy.registers_per_thread = std::max(proxy.registers_per_thread, s.registers_per_thread);
      proxy.dynamic_shared_bytes = std::max(proxy.dynamic_shared_bytes, s.dynamic_shared_bytes);
      level = std::min(level, per_sm(g));
    }
    parts[0] = cost(real_time, level);
    for (work_cost& c : parts) c.need = blocks_.rooms().need_of(proxy, level);
    const std::vector<duration> ends = run(parts);
    t.real_time = ends.front();
    t.together = *std::max_element(ends.begin(), ends.end());
    return t;
  }

  /// A whole plan: its real-time kernels one after the other, those without guests as well.
  /// `host(i)` gives operation i of the real-time program and `guest(part)` a part's, as
  /// padded_work with its blocks; `first` and `last` are what was planned.
  template <class Host, class Guest>
  [[nodiscard]] padded_times predict(std::span<const pad_part> plan, std::size_t first,
                                     std::size_t last, Host&& host, Guest&& guest) {
    padded_times sum;
    std::size_t next = 0;
    std::vector<padded_work> guests;
    for (std::size_t i = first; i < last; ++i) {
      guests.clear();
      std::uint32_t level = 1;
      for (; next < plan.size() && plan[next].host_operation == i; ++next) {
        guests.push_back(guest(plan[next]));
        level = plan[next].level;
      }
      sum += predict(host(i), guests, level);
    }
    return sum;
  }

private:
  struct sink {
    std::vector<duration>& ends;
    block_scheduler& blocks;
    time_point begin, now;
    void placed(const grid&, auto) noexcept {}
    void left(const grid&, auto) noexcept {}
    void done(std::uint32_t slot) noexcept { ends[blocks[slot].owner] = now - begin; }
  };

  static const preset& checked(const preset& p) {
    p.check();
    return p;
  }

  /// One-dimensional and without clusters, as a proxy launches it.
  [[nodiscard]] static launch_shape shape_of(const operation& op) noexcept {
    const launch_shape& l = op.launch;
    return detail::shape_of(static_cast<std::uint32_t>(l.threads_per_block()),
                            l.registers_per_thread, l.static_shared_bytes + l.dynamic_shared_bytes);
  }

  [[nodiscard]] std::uint32_t per_sm(const padded_work& w) const noexcept {
    if (w.kernel.kind != operation_kind::kernel) return 0;
    return blocks_.rooms().need_of(w.kernel.launch, w.kernel.max_blocks_per_sm).per_sm;
  }

  /// Of the part that is run; at a level, which does not change what the whole takes alone.
  [[nodiscard]] work_cost cost(const padded_work& w, std::uint32_t level) const {
    operation op = w.kernel;
    const bool kernel = op.kind == operation_kind::kernel;
    if (kernel && level == 0)
      throw error(errc::does_not_fit, "padded kernel: " + why_not_fit(preset_.sm, op.launch));
    if (kernel && w.blocks == 0)
      throw error(errc::bad_option, "padded kernel: a part of 0 blocks, expected 1 or more");
    op.max_blocks_per_sm = level;
    const scaling_table scaling(op, preset_.sms, level, preset_.laws.scaling);
    work_cost c = cost_of(op, scaling, preset_.sms, blocks_.rooms(), preset_);
    if (w.memory) c.load.memory = std::clamp(*w.memory, 0.0f, 1.0f);
    if (kernel) c.blocks = std::min<std::uint64_t>(c.blocks, w.blocks);
    c.cluster = 1;
    return c;
  }

  /// When each ends, all having been launched at once, in this order.
  [[nodiscard]] std::vector<duration> run(std::span<const work_cost> parts) {
    std::vector<duration> ends(parts.size());
    sink hears{ends, blocks_, now_, now_};
    for (std::uint32_t i = 0; i < parts.size(); ++i) {
      const std::uint32_t slot = blocks_.take();
      blocks_[slot].cost = parts[i];
      blocks_[slot].where = {0, preset_.sms.count()};
      blocks_[slot].owner = i;
      blocks_.admit(slot, now_);
    }
    for (;;) {
      blocks_.place(now_, hears);
      blocks_.refresh(now_);
      if (blocks_.idle()) return ends;
      hears.now = now_ = blocks_.next_end();
      blocks_.finish(now_, hears);
    }
  }

  preset preset_;
  block_scheduler blocks_;
  time_point now_{};
};

} // namespace gsched::sim
