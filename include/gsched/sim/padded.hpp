// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/sim/detail/blocks/block_scheduler.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>
#include <gsched/sim/detail/laws/work_cost.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched::sim {

/// A kernel in a padded launch: its properties alone, and the number of its blocks that are
/// launched.
struct padded_work {
  operation kernel{}; ///< `expected`, and by_sms if known, are those of all its blocks alone
  /// The demand of the whole kernel alone on the device; if not measured, load_of estimates it from
  /// the times on fewer SMs.
  std::optional<demand> takes{};
  std::uint32_t blocks = 0; ///< blocks of this launch
};

/// The predicted times of one padded real-time kernel.
struct padded_times {
  duration alone{};     ///< the real-time kernel alone
  duration real_time{}; ///< end of its last block in the padded kernel
  duration together{};  ///< the whole padded kernel
  duration
      one_by_one{}; ///< the real-time kernel, then each co-runner's blocks as a separate kernel

  /// The slow-down of the real-time program, which waits for the whole padded kernel.
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

/// A kernel with the properties of a kernel_variant; its scaling follows the device's law.
[[nodiscard]] inline operation operation_of(const kernel_variant& k) noexcept {
  operation op;
  op.launch = detail::shape_of(k.threads_per_block, k.registers_per_thread, k.shared_bytes);
  op.launch.grid.x = k.blocks;
  op.max_blocks_per_sm = k.level;
  op.expected = k.kernel_time;
  return op;
}

/// Predicts padded kernels: the blocks of the real-time kernel, then those of its co-runners, each
/// with the resources of a block of the proxy kernel, placed and slowed down by the laws of the
/// simulated device.
///
/// Differs  from lanes that run concurrently: it is one kernel, so replay_law, the cost of kernels
///          of other lanes, does not apply.
/// Errors   bad_option: a part of no blocks, a co-runner or a host that is no kernel, or a level of
///          zero; does_not_fit: a kernel that fits on no SM.
/// Cost     about 10 us a kernel, for the scaling tables of its parts.
/// Threads  one owner.
class padded_kernels {
public:
  explicit padded_kernels(const preset& p) : preset_(checked(p)), blocks_(p) {}

  /// `level`: blocks of the padded kernel that an SM holds, according to the plan; at most the
  /// level of each part.
  [[nodiscard]] padded_times predict(const padded_work& real_time,
                                     std::span<const padded_work> corunners, std::uint32_t level) {
    if (level == 0) throw error(errc::bad_option, "padded kernel: level 0, expected 1 or more");
    const work_cost host = cost(real_time, per_sm(real_time));
    padded_times t;
    t.alone = t.one_by_one = run({&host, 1}).back();
    if (corunners.empty()) {
      t.real_time = t.together = t.alone;
      return t;
    }
    launch_shape proxy = shape_of(real_time.kernel);
    level = std::min(level, per_sm(real_time));
    std::vector<work_cost> parts(1);
    for (const padded_work& g : corunners) {
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
    for (work_cost& c : parts) c.need = blocks_.packer().need_of(proxy, level);
    const std::vector<duration> ends = run(parts);
    t.real_time = ends.front();
    t.together = *std::max_element(ends.begin(), ends.end());
    return t;
  }

  /// Predicts a whole plan: its real-time kernels one after another, with and without co-runners.
  /// `host(i)` returns operation i of the real-time program and `corunner(part)` that of a part, as
  /// padded_work with its blocks. [first, last) is the planned range.
  template <class Host, class Corunner>
  [[nodiscard]] padded_times predict(std::span<const pad_part> plan, std::size_t first,
                                     std::size_t last, Host&& host, Corunner&& corunner) {
    padded_times sum;
    std::size_t next = 0;
    std::vector<padded_work> corunners;
    for (std::size_t i = first; i < last; ++i) {
      corunners.clear();
      std::uint32_t level = 1;
      for (; next < plan.size() && plan[next].host_operation == i; ++next) {
        corunners.push_back(corunner(plan[next]));
        level = plan[next].level;
      }
      sum += predict(host(i), corunners, level);
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

  /// One-dimensional and without clusters, as a proxy kernel is launched.
  [[nodiscard]] static launch_shape shape_of(const operation& op) noexcept {
    const launch_shape& l = op.launch;
    return detail::shape_of(static_cast<std::uint32_t>(l.threads_per_block()),
                            l.registers_per_thread, l.static_shared_bytes + l.dynamic_shared_bytes);
  }

  [[nodiscard]] std::uint32_t per_sm(const padded_work& w) const noexcept {
    if (w.kernel.kind != operation_kind::kernel) return 0;
    return blocks_.packer().need_of(w.kernel.launch, w.kernel.max_blocks_per_sm).per_sm;
  }

  /// The cost of the launched blocks, at a level; the level does not change the time of the whole
  /// kernel alone.
  [[nodiscard]] work_cost cost(const padded_work& w, std::uint32_t level) const {
    operation op = w.kernel;
    const bool kernel = op.kind == operation_kind::kernel;
    if (kernel && level == 0)
      throw error(errc::does_not_fit, "padded kernel: " + why_not_fit(preset_.sm, op.launch));
    if (kernel && w.blocks == 0)
      throw error(errc::bad_option, "padded kernel: a part of 0 blocks, expected 1 or more");
    op.max_blocks_per_sm = level;
    const scaling_table scaling(op, preset_.sms, level, preset_.laws.scaling);
    work_cost c =
        cost_of(op, nullptr, scaling, preset_.sms, blocks_.packer(), preset_, preset_.laws.graph);
    if (w.takes) c.load.take(*w.takes);
    if (kernel) c.blocks = std::min<std::uint64_t>(c.blocks, w.blocks);
    c.cluster = 1;
    return c;
  }

  /// The end times of all parts, launched at the same time in this order.
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
