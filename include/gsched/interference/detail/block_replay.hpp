// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/corunner.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/detail/block_shape.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/replay_law.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Replays of chains side by side, block by block: places the blocks of each kernel on SMs, and
/// slows those of each SM, by the law, for what is on that SM and on the device.
///
/// Source   a younger kernel starts no block while an older one has blocks to place, and a block
///          goes to the SM that could hold the most of them: gsched.gpu.block_order on one H200.
class block_replay {
public:
  block_replay(std::span<const corunner> graphs, const contention_law& law,
               const replay_law& replays)
      : law_(law), replays_(replays), sides_(graphs.size()) {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      side& s = sides_[i];
      s.chain = graphs[i].chain;
      s.number = i;
      s.at_us = s.chain->endless ? 0 : just_after;
      const auto same = [&](const corunner& g) { return g.partition == graphs[i].partition; };
      const auto first = std::find_if(graphs.begin(), graphs.end(), same) - graphs.begin();
      s.region = sides_[static_cast<std::size_t>(first)].region;
      if (static_cast<std::size_t>(first) < i) continue;
      s.region = regions_.size();
      regions_.push_back(
          {s.chain->sms, 0, 1, std::count_if(graphs.begin(), graphs.end(), same) > 1});
    }
    for (region& r : regions_) {
      r.stand_in();
      r.first = sms_.size();
      sms_.resize(r.first + r.count);
    }
    ends_.assign(sms_.size(), never);
    held_.assign(sms_.size() * sides_.size(), 0);
    freed_.reserve(sms_.size());
    touched_.reserve(sms_.size());
    running_.reserve(sides_.size());
  }

  [[nodiscard]] std::vector<double> run(const replay_window& window) {
    for (std::size_t event = 0; event < window.events && !enough(window); ++event) step();
    std::vector<double> slow;
    slow.reserve(sides_.size());
    for (side& s : sides_) slow.push_back(s.slowdown(now_, window.rank));
    return slow;
  }

private:
  static constexpr double never = std::numeric_limits<double>::max();
  static constexpr double tiny = 1e-9;
  static constexpr double just_after = 1e-3; ///< graphs start after the endless kernels

  /// Blocks that a kernel placed on an SM at once.
  struct group {
    std::size_t side = 0;
    std::uint32_t blocks = 0;
    double left = 1;  ///< of their time
    double speed = 0; ///< per microsecond
  };
  struct sm {
    std::array<double, 4> left{1, 1, 1, 1}; ///< of its warps, registers, shared memory and slots
    std::vector<group> groups{};
    double updated = 0;
  };

  struct side {
    const kernel_chain* chain = nullptr;
    std::size_t number = 0;
    std::size_t region = 0;
    std::size_t at = 0; ///< its kernel
    bool running = false;
    double at_us = 0; ///< when the kernel starts, or a copy ends
    double begun = 0; ///< start of this replay
    double work = 0;  ///< of an endless kernel, in microseconds alone
    std::vector<double> replays{};
    // The running kernel.
    block_shape shape{};
    double unplaced = 0;
    double resident = 0;
    double on = 0;      ///< SMs with its blocks
    bool tried = false; ///< it has taken the room that was there
    double l2 = 0;      ///< its use of the device
    double dram = 0;
    std::uint32_t placements = 0;

    [[nodiscard]] const chain_kernel& kernel() const noexcept { return chain->kernels[at]; }
    [[nodiscard]] bool copies() const noexcept { return !(shape.blocks > 0); }
    [[nodiscard]] bool has_ended() const noexcept { return !(unplaced > 0) && !(resident > 0); }

    [[nodiscard]] double slowdown(double end, double rank) {
      if (replays.size() > 1) replays.erase(replays.begin()); // the other graphs had just begun
      if (replays.empty()) {                                  // by its progress
        for (std::size_t i = 0; i < at; ++i) work += chain->kernels[i].us + chain->gap_us;
        if (running && !copies() && !chain->endless)
          work += (1 - (unplaced + resident / 2) / shape.blocks) * kernel().us;
        return work > 0 ? std::max(1.0, (end - begun) / work) : std::max(1.0, end);
      }
      const auto below = static_cast<std::size_t>(rank * static_cast<double>(replays.size()));
      const auto ranked =
          replays.begin() + static_cast<std::ptrdiff_t>(std::min(replays.size() - 1, below));
      std::nth_element(replays.begin(), ranked, replays.end());
      return std::max(1.0, *ranked / chain->replay_us());
    }
  };

  [[nodiscard]] bool enough(const replay_window& w) const noexcept {
    return now_ >= w.us && std::all_of(sides_.begin(), sides_.end(), [&](const side& s) {
             return s.chain->endless || s.replays.size() >= w.replays;
           });
  }
  [[nodiscard]] std::uint32_t& held(std::size_t on, const side& s) noexcept {
    return held_[on * sides_.size() + s.number];
  }

  void step() {
    double next = never;
    for (const side& s : sides_)
      if (!s.running || s.copies()) next = std::min(next, s.at_us);
    for (const double end : ends_) next = end < next ? end : next; // by value: no branch
    if (next == never) next = now_ + 1;                            // only endless kernels run
    for (side& s : sides_)
      if (s.running && s.chain->endless) s.work += (next - now_) * pace(s);
    now_ = std::max(now_, next);
    for (std::size_t i = 0; i < sms_.size(); ++i)
      if (ends_[i] <= now_ + tiny) end_blocks(i);
    for (side& s : sides_) {
      const bool due = s.at_us <= now_ + tiny;
      if (!s.running) {
        if (due) start(s);
      } else if (s.copies() ? due : s.has_ended()) {
        finish(s);
      }
    }
    place();
    find_speeds();
  }

  void start(side& s) {
    s.running = changed_ = true;
    running_.push_back(&s);
    for (side& other : sides_)
      if (&other != &s) {
        const double blocks = other.region == s.region ? 0 : s.kernel().blocks;
        lose(other, replays_.lost_us(blocks, other.kernel().takes.busiest()));
      }
    s.shape = block_shape(s.kernel(), regions_[s.region], law_);
    s.unplaced = s.shape.blocks;
    s.resident = s.on = 0;
    s.tried = false;
    if (s.copies()) s.at_us = now_ + s.kernel().us;
  }

  void finish(side& s) {
    s.running = false;
    changed_ = true;
    running_.erase(std::find(running_.begin(), running_.end(), &s));
    double traffic = 0;
    for (const side* other : running_) traffic += other->l2;
    s.at_us = now_ + s.chain->gap_us + replays_.gap_us * traffic;
    if (++s.at < s.chain->kernels.size()) return;
    s.at = 0;
    s.replays.push_back(now_ - s.begun);
    s.begun = now_;
  }

  /// The progress of its running kernel in the last `us` is undone.
  void lose(side& s, double us) {
    if (!s.running || s.copies() || s.chain->endless) return;
    for_each_sm(s, [&](std::size_t i) {
      advance(i);
      for (group& g : sms_[i].groups)
        if (g.side == s.number)
          g.left = std::min(std::max(1.0, g.left), g.left + us / s.shape.block_us);
    });
  }

  template <class F>
  void for_each_sm(const side& s, F f) {
    const region& r = regions_[s.region];
    for (std::size_t i = r.first; i < r.first + r.count; ++i)
      if (held(i, s) > 0) f(i);
  }

  void advance(std::size_t i) noexcept {
    sm& m = sms_[i];
    for (group& g : m.groups) g.left -= (now_ - m.updated) * g.speed;
    m.updated = now_;
  }

  void end_blocks(std::size_t i) {
    advance(i);
    sm& m = sms_[i];
    const auto ends = [&](const group& g) {
      side& s = sides_[g.side];
      if (s.chain->endless || g.left * s.shape.block_us > tiny) return false;
      for (std::size_t r = 0; r < m.left.size(); ++r) m.left[r] += s.shape.shares[r] * g.blocks;
      s.resident -= g.blocks;
      if ((held(i, s) -= g.blocks) == 0) s.on -= 1;
      return true;
    };
    m.groups.erase(std::remove_if(m.groups.begin(), m.groups.end(), ends), m.groups.end());
    freed_.push_back(i);
    touched_.push_back(i);
  }

  /// Places what fits, from the oldest kernel to the youngest. One behind another that waits for
  /// room gets none.
  void place() {
    for (std::size_t k = 0; k < running_.size(); ++k) {
      side& s = *running_[k];
      if (!(s.unplaced > 0)) continue;
      const bool waits = std::any_of(
          running_.begin(), running_.begin() + static_cast<long>(k),
          [&](const side* older) { return older->region == s.region && older->unplaced > 0; });
      if (waits || (s.tried && freed_.empty())) continue;
      open_.clear();
      const region& r = regions_[s.region];
      if (s.tried) {
        for (const std::size_t i : freed_)
          if (r.has(i)) open_.push_back({i, 0, 0});
      } else {
        for (std::size_t i = r.first; i < r.first + r.count; ++i) open_.push_back({i, 0, 0});
      }
      place_on_open(s);
    }
    freed_.clear();
  }

  /// In each round the SMs with the most room take one block.
  void place_on_open(side& s) {
    s.tried = true;
    double room = 0, most = 0;
    for (open_sm& o : open_) {
      o.room = s.shape.fit(sms_[o.sm].left, held(o.sm, s));
      room += o.room;
      most = std::max(most, o.room);
    }
    double give = std::min(room, s.unplaced);
    if (give == room) {
      for (open_sm& o : open_) o.take = o.room;
    } else {
      for (double level = most; give > 0; --level)
        for (open_sm& o : open_)
          if (o.room >= level && give > 0) {
            ++o.take;
            --give;
          }
    }
    for (const open_sm& o : open_)
      if (o.take > 0) put(s, o.sm, static_cast<std::uint32_t>(o.take));
  }

  void put(side& s, std::size_t i, std::uint32_t blocks) {
    advance(i);
    sm& m = sms_[i];
    for (std::size_t r = 0; r < m.left.size(); ++r) m.left[r] -= s.shape.shares[r] * blocks;
    if (held(i, s) == 0) s.on += 1;
    held(i, s) += blocks;
    s.unplaced -= blocks;
    s.resident += blocks;
    m.groups.push_back({s.number, blocks, 1 + s.shape.apart * scatter(s.placements++, i), 0});
    touched_.push_back(i);
  }

  /// A number from -0.5 to 0.5, by a hash of the arguments.
  static double scatter(std::uint32_t n, std::size_t i) noexcept {
    std::uint32_t h = (n * 2654435761u) ^ (static_cast<std::uint32_t>(i) * 40503u);
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    return static_cast<double>(h & 0xffffu) / 65535 - 0.5;
  }

  /// Updates the SMs whose blocks have changed; all, if the kernels or their use of L2 and DRAM
  /// have.
  void find_speeds() {
    constexpr double same = 0.04; // parts of the device's capacity
    double l2 = 0, dram = 0;
    for (side* const s : running_) {
      s->l2 = s->dram = 0;
      if (!(s->resident > 0)) continue;
      const double active =
          s->resident / s->shape.at_once / s->shape.block_time(s->resident / s->on, s->resident);
      l2 += s->l2 = std::min(1.0, s->kernel().takes.of(resource::l2) * active);
      dram += s->dram = std::min(1.0, s->kernel().takes.of(resource::dram) * active);
    }
    if (changed_ || std::abs(l2 - l2_) > same || std::abs(dram - dram_) > same) {
      l2_ = l2;
      dram_ = dram;
      changed_ = false;
      known_.clear();
      for (std::size_t i = 0; i < sms_.size(); ++i) find_speed(i);
    } else {
      for (const std::size_t i : touched_) find_speed(i);
    }
    touched_.clear();
  }

  void find_speed(std::size_t i) {
    advance(i);
    double end = never;
    if (!sms_[i].groups.empty()) {
      const double* const speeds = speeds_of(i);
      for (group& g : sms_[i].groups) {
        g.speed = speeds[g.side];
        if (!sides_[g.side].chain->endless)
          end = std::min(end, now_ + std::max(0.0, g.left) / g.speed);
      }
    }
    ends_[i] = end;
  }

  /// The speeds of the blocks of each side, the same on SMs that hold equally many.
  [[nodiscard]] const double* speeds_of(std::size_t i) {
    const std::size_t n = sides_.size();
    const auto here = held_.begin() + static_cast<std::ptrdiff_t>(i * n);
    for (const mixture& m : known_)
      if (std::equal(m.blocks.begin(), m.blocks.end(), here)) return m.speeds.data();
    mixture m{{here, here + static_cast<std::ptrdiff_t>(n)}, std::vector<double>(n)};
    for (std::size_t k = 0; k < running_.size(); ++k)
      if (m.blocks[running_[k]->number] > 0) m.speeds[running_[k]->number] = speed(k, m.blocks);
    known_.push_back(std::move(m));
    return known_.back().speeds.data();
  }

  /// The speed of blocks of the k-th running kernel on an SM with so many blocks of each side.
  [[nodiscard]] double speed(std::size_t k, const std::vector<std::uint32_t>& blocks) const {
    surroundings around;
    for (std::size_t j = 0; j < running_.size(); ++j) {
      const side& other = *running_[j];
      const double near = blocks[other.number];
      if (j != k && other.resident > 0)
        around.add(use_of(other, near), near > 0 ? 1 : 0, 1, near * other.shape.warps, j < k);
    }
    const side& s = *running_[k];
    const double here = blocks[s.number];
    return 1 / (s.shape.block_us * s.shape.block_time(here, s.resident) *
                law_.slowdown(use_of(s, here), here * s.shape.warps, around));
  }

  /// What a kernel takes of an SM with so many of its blocks, and of the device. More blocks than it
  /// has alone do not make it one that others wait for: their pauses leave others room.
  [[nodiscard]] static demand use_of(const side& s, double here) noexcept {
    demand d = s.kernel().takes;
    const double active = s.shape.solo_warps > 0 ? here * s.shape.warps / s.shape.solo_warps : here;
    const double more = here > 0 ? active / s.shape.block_time(here, s.resident) : 0;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      d.use[r] = std::min(std::max(contention_law::full_from, d.use[r]), d.use[r] * more);
    d.of(resource::l2) = s.l2;
    d.of(resource::dram) = s.dram;
    return d;
  }

  /// The progress of an endless kernel, in microseconds alone per microsecond.
  [[nodiscard]] double pace(const side& s) {
    double sum = 0;
    for_each_sm(s, [&](std::size_t i) {
      for (const group& g : sms_[i].groups)
        if (g.side == s.number) sum += g.speed * g.blocks;
    });
    return s.resident > 0 ? sum * s.shape.block_us / s.resident : 0;
  }

  struct open_sm {
    std::size_t sm = 0;
    double room = 0;
    double take = 0;
  };
  struct mixture {
    std::vector<std::uint32_t> blocks; ///< of each side
    std::vector<double> speeds;
  };

  contention_law law_;
  replay_law replays_;
  std::vector<side> sides_;
  std::vector<side*> running_; ///< in the order of their starts
  std::vector<region> regions_;
  std::vector<sm> sms_;
  std::vector<double> ends_;        ///< next end of blocks on each SM
  std::vector<std::uint32_t> held_; ///< blocks of each side on each SM, a row an SM
  std::vector<std::size_t> freed_;
  std::vector<std::size_t> touched_;
  std::vector<open_sm> open_;
  std::vector<mixture> known_;
  bool changed_ = false; ///< which kernels run
  double l2_ = 0;        ///< use of the device for which the speeds are
  double dram_ = 0;
  double now_ = 0;
};

} // namespace gsched::detail
