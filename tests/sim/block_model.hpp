// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/occupancy/calculator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

/// A GPU block by block, as simply as possible: the simulated device must agree with it if kernels
/// do not slow one another down. Times are whole nanoseconds.
namespace block_model {

struct kernel {
  std::uint32_t blocks = 1;
  std::uint32_t cluster = 1;
  gsched::block_allocation block{};
  std::int64_t block_ns = 1;
};

struct lane {
  std::size_t queue = 0;
  int priority = 0;
  std::size_t first_sm = 0;
  std::size_t last_sm = 0;
};

struct submitted {
  std::size_t lane = 0;
  std::int64_t arrival = 0;
  std::vector<kernel> kernels;
};

struct span {
  std::int64_t start = -1;
  std::int64_t end = -1;
  bool operator==(const span&) const = default;
};

class gpu {
public:
  gsched::architecture_limits sm{};
  std::size_t sms = 1;
  std::size_t queues = 1;
  std::size_t resident_grids = 1;
  std::int64_t gap_in_graph = 0;
  std::int64_t gap_segments = 0;
  std::vector<lane> lanes;
  std::vector<submitted> segments; ///< in order of submission

  /// [segment][kernel]
  std::vector<std::vector<span>> run() {
    std::vector<std::vector<span>> out;
    for (const submitted& s : segments) {
      out.emplace_back(s.kernels.size());
      next_.push_back(0);
    }
    busy_.assign(lanes.size(), false);
    last_end_.assign(lanes.size(), never);
    for (std::int64_t now = 0; now != late; now = next_time(now)) {
      end_blocks(now, out);
      for (std::size_t q = 0; q < queues; ++q) issue(q, now);
      place(now, out);
    }
    return out;
  }

private:
  static constexpr std::int64_t late = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();

  struct grid {
    std::size_t segment, index;
    std::uint32_t unplaced;
    std::uint32_t running = 0;
    bool done = false;
  };
  struct block {
    std::size_t grid, sm;
    std::int64_t end;
  };

  const kernel& of(const grid& g) const { return segments[g.segment].kernels[g.index]; }

  std::size_t live() const {
    return static_cast<std::size_t>(
        std::count_if(grids_.begin(), grids_.end(), [](const grid& g) { return !g.done; }));
  }

  std::uint32_t capacity(const kernel& k, std::size_t on) const {
    std::uint32_t slots = sm.max_blocks, warps = sm.max_warps, registers = sm.registers,
                  shared = sm.shared_bytes;
    for (const block& b : blocks_) {
      if (b.sm != on) continue;
      const gsched::block_allocation& a = of(grids_[b.grid]).block;
      slots -= 1;
      warps -= a.warps;
      registers -= a.registers;
      shared -= a.shared_bytes;
    }
    std::uint32_t n = 0;
    while (slots >= n + 1 && warps >= (n + 1) * k.block.warps &&
           registers >= (n + 1) * k.block.registers && shared >= (n + 1) * k.block.shared_bytes)
      ++n;
    return n;
  }

  void end_blocks(std::int64_t now, std::vector<std::vector<span>>& out) {
    for (const block& b : blocks_)
      if (b.end == now) --grids_[b.grid].running;
    std::erase_if(blocks_, [now](const block& b) { return b.end == now; });
    for (grid& g : grids_) {
      if (g.done || g.unplaced > 0 || g.running > 0) continue;
      g.done = true;
      out[g.segment][g.index].end = now;
      busy_[segments[g.segment].lane] = false;
      last_end_[segments[g.segment].lane] = now;
    }
  }

  std::int64_t ready(std::size_t s) const {
    const std::size_t l = segments[s].lane;
    if (last_end_[l] == never) return segments[s].arrival;
    const std::int64_t gap = next_[s] == 0 ? gap_segments : gap_in_graph;
    return std::max(segments[s].arrival, last_end_[l] + gap);
  }

  /// The first segment of the queue with kernels to issue.
  std::size_t head(std::size_t q) const {
    for (std::size_t s = 0; s < segments.size(); ++s)
      if (lanes[segments[s].lane].queue == q && next_[s] < segments[s].kernels.size()) return s;
    return segments.size();
  }

  void issue(std::size_t q, std::int64_t now) {
    for (std::size_t s = head(q); s < segments.size(); s = head(q)) {
      if (busy_[segments[s].lane] || ready(s) > now || live() == resident_grids) return;
      busy_[segments[s].lane] = true;
      grids_.push_back({s, next_[s], segments[s].kernels[next_[s]].blocks});
      ++next_[s];
    }
  }

  void place(std::int64_t now, std::vector<std::vector<span>>& out) {
    std::vector<std::size_t> order;
    for (std::size_t g = 0; g < grids_.size(); ++g)
      if (grids_[g].unplaced > 0) order.push_back(g);
    const auto lane_of = [&](std::size_t g) { return lanes[segments[grids_[g].segment].lane]; };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const int x = lane_of(a).priority;
      const int y = lane_of(b).priority;
      return x != y ? x > y : a < b;
    });
    std::vector<bool> held(sms, false); // by a kernel that has not placed all blocks
    for (const std::size_t g : order) {
      const lane l = lane_of(g);
      bool waits = false;
      for (std::size_t i = l.first_sm; i < l.last_sm; ++i) waits = waits || held[i];
      if (!waits) place_blocks(g, l, now, out);
      if (grids_[g].unplaced == 0) continue;
      for (std::size_t i = l.first_sm; i < l.last_sm; ++i) held[i] = true;
    }
  }

  void place_blocks(std::size_t g, const lane& l, std::int64_t now,
                    std::vector<std::vector<span>>& out) {
    const kernel& k = of(grids_[g]);
    std::uint32_t room = 0;
    for (std::size_t i = l.first_sm; i < l.last_sm; ++i) room += capacity(k, i);
    std::uint32_t n = std::min(room, grids_[g].unplaced);
    for (n -= n % k.cluster; n > 0; --n) {
      std::size_t best = l.first_sm;
      for (std::size_t i = l.first_sm; i < l.last_sm; ++i)
        if (capacity(k, i) > capacity(k, best)) best = i;
      blocks_.push_back({g, best, now + k.block_ns});
      --grids_[g].unplaced;
      ++grids_[g].running;
      span& s = out[grids_[g].segment][grids_[g].index];
      if (s.start < 0) s.start = now;
    }
  }

  std::int64_t next_time(std::int64_t now) const {
    std::int64_t next = late;
    for (const block& b : blocks_) next = std::min(next, b.end);
    for (std::size_t q = 0; q < queues; ++q) {
      const std::size_t s = head(q);
      if (s == segments.size() || busy_[segments[s].lane] || ready(s) <= now) continue;
      next = std::min(next, ready(s));
    }
    return next;
  }

  std::vector<std::size_t> next_;      ///< kernel of each segment
  std::vector<bool> busy_;             ///< lanes
  std::vector<std::int64_t> last_end_; ///< lanes
  std::vector<grid> grids_;            ///< in the order in which they left their queues
  std::vector<block> blocks_;
};

} // namespace block_model
