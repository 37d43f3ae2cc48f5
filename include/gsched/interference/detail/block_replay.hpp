// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/corunner.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/detail/block_shape.hpp>
#include <gsched/interference/detail/replay_order.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/interference/surroundings.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
  /// `as_if_shared`: places single blocks on all SMs, although no other graph shares them.
  block_replay(std::span<const corunner> graphs, const contention_law& law,
               const replay_law& replays, bool as_if_shared = false)
      : law_(law), replays_(replays), graphs_(graphs.size()) {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      graph& g = graphs_[i];
      g.chain = graphs[i].chain;
      const auto same = [&](const corunner& c) { return c.partition == graphs[i].partition; };
      const auto first = std::find_if(graphs.begin(), graphs.end(), same) - graphs.begin();
      g.region = graphs_[static_cast<std::size_t>(first)].region;
      if (static_cast<std::size_t>(first) < i) continue;
      g.region = regions_.size();
      const bool shared = as_if_shared || std::count_if(graphs.begin(), graphs.end(), same) > 1;
      regions_.push_back({g.chain->sms, 0, 1, shared});
    }
    for (const region& r : regions_) all_sms_ += r.sms;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      region& r = regions_[i];
      r.stand_in(endless_blocks(graphs, i));
      r.first = sms_.size();
      sms_.resize(r.first + r.count);
    }
    for (std::size_t i = 0; i < graphs_.size(); ++i) add_lanes(i, as_if_shared);
    ends_.assign(sms_.size(), never);
    held_.assign(sms_.size() * lanes_.size(), 0);
    freed_.reserve(sms_.size());
    touched_.reserve(sms_.size());
    running_.reserve(lanes_.size());
  }

  [[nodiscard]] std::vector<double> run(const replay_window& window) {
    for (std::size_t event = 0; event < window.events && !enough(window); ++event) step();
    std::vector<double> slow;
    slow.reserve(graphs_.size());
    for (graph& g : graphs_) slow.push_back(slowdown(g, window.rank));
    return slow;
  }

private:
  static constexpr double never = replay_order::never;
  static constexpr double tiny = 1e-9;
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static constexpr double just_after = 1e-3; ///< graphs start after the endless kernels

  /// Blocks that a kernel placed on an SM at once.
  struct group {
    std::size_t lane = 0;
    std::uint32_t blocks = 0;
    double left = 1;  ///< of their time; of a persistent kernel, what its queue has when they end
    double speed = 0; ///< per microsecond
    double lost = 0;  ///< of their time, to starts of other kernels
  };
  struct sm {
    std::array<double, 4> left{1, 1, 1, 1}; ///< of its warps, registers, shared memory and slots
    double split = 0; ///< part of its memory that is shared memory, since it held no block
    std::vector<group> groups{};
    double updated = 0;
    std::size_t ran = none; ///< the graph whose blocks it took last
    bool freed = false;     ///< it is among freed_
  };

  struct graph {
    const kernel_chain* chain = nullptr;
    std::size_t region = 0;
    std::size_t first = 0; ///< of its lanes
    std::size_t lanes = 1;
    replay_order order{};
    double alone_us = 0; ///< a replay
    double dram = 0;     ///< its mean use
    double begun = 0;    ///< start of this replay
    double done_us = 0;  ///< of this replay: the time alone of what has ended
    double work = 0;     ///< of an endless kernel, in microseconds alone
    std::vector<double> replays{};
  };

  /// An operation of a graph that runs, or none. A graph has as many lanes as branches.
  struct lane {
    const kernel_chain* chain = nullptr;
    std::size_t graph = 0;
    std::size_t number = 0;
    std::size_t region = 0;
    double scale = 1;   ///< SMs of the device for one of its region
    std::size_t at = 0; ///< its operation
    bool running = false;
    double until_us = 0; ///< when a copy ends
    block_shape shape{};
    double unplaced = 0;
    double queue = 0;      ///< work left of a persistent kernel, in blocks' times
    double queue_rate = 0; ///< at which its blocks do it, per microsecond
    double queue_lost = 0; ///< added to it by starts of other kernels
    double next_end = 0;   ///< what the queue has when the next of them end
    double resident = 0;
    double known_resident = 0; ///< as speeds were computed last
    double on = 0;             ///< SMs with its blocks
    bool tried = false;        ///< it has taken the room that was there
    double l2 = 0;             ///< its use of the device
    double dram = 0;
    double dispatch = 0;   ///< part of the dispatcher's time that it takes
    double makes_late = 0; ///< microseconds, see replay_law::late_us
    std::uint32_t placements = 0;

    [[nodiscard]] const chain_kernel& kernel() const noexcept { return chain->kernels[at]; }
    [[nodiscard]] bool copies() const noexcept { return !(shape.blocks > 0); }
    [[nodiscard]] bool has_ended() const noexcept { return !(unplaced > 0) && !(resident > 0); }
    [[nodiscard]] bool is_persistent() const noexcept {
      return shape.common_work > 0 && !chain->endless;
    }
    [[nodiscard]] double until_next_end() const noexcept {
      return queue_rate > 0 ? std::max(0.0, queue - next_end) / queue_rate : never;
    }
    /// Of its queue, but for what takes no time.
    [[nodiscard]] bool has_at_most(double work) const noexcept {
      return (queue - work) * shape.block_us < tiny;
    }
  };

  /// Of the first endless kernel of a region; 0 if there is none.
  [[nodiscard]] double endless_blocks(std::span<const corunner> graphs, std::size_t in) const {
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (graphs_[i].region == in && graphs[i].chain->endless)
        return graphs[i].chain->kernels.front().blocks;
    return 0;
  }

  void add_lanes(std::size_t number, bool alone) {
    constexpr std::size_t most = 6;
    graph& g = graphs_[number];
    const bool branches = regions_[g.region].shared && g.chain->has_branches();
    g.order = {*g.chain, branches, g.chain->endless ? 0 : just_after};
    g.first = lanes_.size();
    g.lanes = std::min(most, g.order.width());
    g.alone_us = g.chain->replay_us();
    g.dram = mean_demand(*g.chain).of(resource::dram);
    if (branches && !alone) {
      const corunner self{g.chain, 0};
      g.alone_us = block_replay({&self, 1}, law_, replays_, true).median_us();
    }
    for (std::size_t i = 0; i < g.lanes; ++i) {
      lane l;
      l.chain = g.chain;
      l.graph = number;
      l.number = lanes_.size();
      l.region = g.region;
      l.scale = regions_[g.region].scale();
      lanes_.push_back(l);
    }
  }
  /// Of the replays of its only graph.
  [[nodiscard]] double median_us() {
    constexpr std::size_t replays = 5, events = 1'000'000;
    graph& g = graphs_[0];
    for (std::size_t i = 0; i < events && g.replays.size() < replays; ++i) step();
    return g.replays.empty() ? g.chain->replay_us() : ranked(g.replays, 0.5);
  }
  static double ranked(std::vector<double>& of, double rank) {
    const auto below = static_cast<std::size_t>(rank * static_cast<double>(of.size()));
    const auto at = of.begin() + static_cast<std::ptrdiff_t>(std::min(of.size() - 1, below));
    std::nth_element(of.begin(), at, of.end());
    return *at;
  }

  /// With its sensitivity, if it has SMs of its own, and what it loses of L2.
  [[nodiscard]] double slowdown(graph& g, double rank) const {
    const double slow = std::max(1.0, as_replayed(g, rank));
    double dram = 0; // of the others
    for (const graph& other : graphs_)
      if (&other != &g) dram += other.dram * pressure_on(g, other);
    return (regions_[g.region].shared ? slow : g.chain->factors.slowed(slow)) +
           lost_of(*g.chain).beside(dram);
  }
  /// An endless kernel has nothing in L2 that it uses again. Without waits the estimated cost of
  /// starts has a part of this.
  [[nodiscard]] static l2_loss lost_of(const kernel_chain& c) noexcept {
    if (c.endless) return {};
    return c.lost.known() || !c.has_waits() ? c.lost : l2_loss{l2_loss::usual};
  }
  [[nodiscard]] double as_replayed(graph& g, double rank) const {
    if (g.replays.size() > 1) g.replays.erase(g.replays.begin()); // the other graphs had just begun
    if (!g.replays.empty()) return ranked(g.replays, rank) / g.alone_us;
    double work = g.work + g.done_us; // by its progress
    for (std::size_t i = g.first; i < g.first + g.lanes; ++i) {
      const lane& l = lanes_[i];
      if (l.running && !l.copies() && !g.chain->endless)
        work += (1 - (l.unplaced + l.resident / 2) / l.shape.blocks) * l.kernel().us;
    }
    work *= g.alone_us / g.chain->replay_us();
    return work > 0 ? (now_ - g.begun) / work : now_;
  }

  [[nodiscard]] bool enough(const replay_window& w) const noexcept {
    return now_ >= w.us && std::all_of(graphs_.begin(), graphs_.end(), [&](const graph& g) {
             return g.chain->endless || g.replays.size() >= w.replays;
           });
  }
  [[nodiscard]] std::uint32_t& held(std::size_t on, const lane& l) noexcept {
    return held_[on * lanes_.size() + l.number];
  }

  /// A lane that runs nothing; null if the graph has none.
  [[nodiscard]] lane* free_lane(const graph& g) noexcept {
    for (std::size_t i = g.first; i < g.first + g.lanes; ++i)
      if (!lanes_[i].running) return &lanes_[i];
    return nullptr;
  }

  void step() {
    double next = never;
    for (const graph& g : graphs_)
      if (free_lane(g)) next = std::min(next, starts_us(g));
    for (const lane& l : lanes_)
      if (l.running && l.copies()) next = std::min(next, l.until_us);
    for (const lane* l : running_)
      if (l->is_persistent()) next = std::min(next, now_ + l->until_next_end());
    for (const double end : ends_) next = end < next ? end : next; // by value: no branch
    if (next == never) next = now_ + 1;                            // only endless kernels run
    for (lane& l : lanes_)
      if (l.running && l.chain->endless) graphs_[l.graph].work += (next - now_) * pace(l);
    for (lane* l : running_) l->queue -= (next - now_) * l->queue_rate;
    now_ = std::max(now_, next);
    for (lane* l : running_)
      if (l->queue_rate > 0 && l->has_at_most(l->next_end)) end_persistent(*l);
    for (std::size_t i = 0; i < sms_.size(); ++i)
      if (ends_[i] <= now_ + tiny) end_blocks(i);
    for (graph& g : graphs_) {
      while (starts_us(g) <= now_ + tiny) {
        lane* const free = free_lane(g);
        if (!free) break;
        start(*free, g.order.take());
      }
      for (std::size_t i = g.first; i < g.first + g.lanes; ++i) {
        lane& l = lanes_[i];
        if (l.running && (l.copies() ? l.until_us <= now_ + tiny : l.has_ended())) finish(l);
      }
    }
    place();
    find_speeds();
  }

  /// When the next operation of a graph starts, as things stand: not while the dispatcher places
  /// blocks on other SMs. So of two equal graphs in step, neither starts its kernels in the pauses
  /// of the other alone, at no cost.
  [[nodiscard]] double starts_us(const graph& g) const noexcept {
    double from = g.order.due_us();
    if (from == never) return never;
    if (g.region != dispatches_for_) from = std::max(from, dispatches_until_);
    double late = 0;
    for (const lane* l : running_) {
      if (l->region == g.region || !(l->dispatch > 0)) continue;
      const double rest = places_for_us(*l);
      if (!(rest > tiny)) continue;
      if (!replay_law::keeps_dispatcher(l->dispatch))
        late += l->makes_late;
      else if (rest == never)
        return never; // until its last block is placed
      else
        from = std::max(from, now_ + rest);
    }
    return from + late;
  }

  /// How long from now a kernel has blocks to place; never, if that depends on what ends before.
  [[nodiscard]] double places_for_us(const lane& l) const noexcept {
    const region& r = regions_[l.region];
    if (r.shared) return l.unplaced > 0 ? never : 0;
    for (const group& g : sms_[r.first].groups)
      if (g.lane == l.number && g.speed > 0)
        return (g.left - (now_ - sms_[r.first].updated) * g.speed - 1 / l.kernel().waves(r.sms)) /
               g.speed;
    return 0;
  }

  void start(lane& l, std::size_t operation) {
    l.at = operation;
    l.running = changed_ = true;
    dispatches_for_ = l.region;
    const chain_kernel& k = l.kernel();
    const double sms = regions_[l.region].sms;
    dispatches_until_ = now_ + replays_.dispatch_us(std::min(k.blocks, sms * k.per_sm));
    const bool at_once = l.chain->endless || k.waves(sms) <= 1;
    l.dispatch = at_once ? 0 : replay_law::dispatch_use(k.blocks, k.us);
    l.makes_late = replay_law::late_us(l.dispatch, k.warps, k.blocks / (k.us * sms));
    running_.push_back(&l);
    for (lane& other : lanes_)
      if (&other != &l) lose(other, lost_us(other, l));
    started_ = now_;
    l.shape = block_shape(l.kernel(), regions_[l.region], law_);
    l.unplaced = l.shape.blocks;
    l.queue = l.shape.queued_work();
    l.queue_rate = l.queue_lost = l.next_end = 0;
    l.resident = l.on = 0;
    l.tried = false;
    if (l.copies()) l.until_us = now_ + l.kernel().us;
  }

  /// What a running kernel loses as another one starts. On the same SMs both lose of L1 by what the
  /// other reads anyway, which the law has.
  [[nodiscard]] double lost_us(const lane& l, const lane& starting) const noexcept {
    const chain_kernel& k = l.kernel();
    const double busiest = k.takes.busiest();
    if (l.region == starting.region) return replays_.lost_us(0, busiest);
    const start_loss loss =
        l.chain->at_start.known() ? l.chain->at_start : start_loss::of(k.takes.waits, k.us);
    const double us = loss.known() ? loss.lost_us(l.chain->sms, now_ - started_)
                                   : replays_.lost_us(starting.kernel().blocks, busiest);
    return us * starting.chain->factors.pressure;
  }

  void finish(lane& l) {
    l.running = false;
    changed_ = true;
    running_.erase(std::find(running_.begin(), running_.end(), &l));
    double l2 = 0, streams = 0;
    for (const lane* other : running_)
      if (other->chain->endless)
        streams += other->dram;
      else
        l2 += other->l2 * pressure_on(l, *other);
    graph& g = graphs_[l.graph];
    g.done_us += l.kernel().us + g.chain->gap_us;
    if (!g.order.end(l.at, now_ + g.chain->gap_us + replays_.gap(l2, streams, g.dram))) return;
    g.replays.push_back(now_ - g.begun);
    g.begun = now_;
    g.done_us = 0;
  }

  /// Its running kernel ends `us` later. Before it has done anything, several such losses are one.
  /// In all a block loses at most `most` times its own time, so it ends even if each start costs more
  /// than the time between two.
  void lose(lane& l, double us) {
    if (!l.running || l.copies() || l.chain->endless) return;
    constexpr double most = 9;
    const double part = us / l.shape.block_us;
    if (l.is_persistent()) {
      const double lost = std::min(part * l.resident, most * l.shape.blocks - l.queue_lost);
      const double whole = l.shape.blocks * (l.shape.longest + part);
      l.queue_lost += lost;
      l.queue = std::min(std::max(whole, l.queue), l.queue + lost);
      return;
    }
    for_each_sm(l, [&](std::size_t i) {
      advance(i);
      for (group& g : sms_[i].groups) {
        if (g.lane != l.number) continue;
        const double lost = std::min(part, most - g.lost);
        g.lost += lost;
        g.left = std::min(std::max(1 + part, g.left), g.left + lost);
      }
    });
  }

  template <class F>
  void for_each_sm(const lane& l, F f) {
    const region& r = regions_[l.region];
    for (std::size_t i = r.first; i < r.first + r.count; ++i)
      if (held(i, l) > 0) f(i);
  }

  void advance(std::size_t i) noexcept {
    sm& m = sms_[i];
    for (group& g : m.groups)
      if (!lanes_[g.lane].is_persistent()) g.left -= (now_ - m.updated) * g.speed;
    m.updated = now_;
  }

  void end_blocks(std::size_t i) {
    advance(i);
    end_groups(i, [&](const group& g) {
      const lane& l = lanes_[g.lane];
      return !l.chain->endless && !l.is_persistent() && g.left * l.shape.block_us <= tiny;
    });
  }

  /// Ends the blocks of a persistent kernel that find no work in its queue. Those that are not
  /// placed yet will find none either.
  void end_persistent(lane& l) {
    double next = 0;
    for_each_sm(l, [&](std::size_t i) {
      advance(i);
      end_groups(i, [&](const group& g) {
        if (g.lane != l.number) return false;
        if (!l.has_at_most(g.left)) {
          next = std::max(next, g.left);
          return false;
        }
        l.queue_rate -= g.blocks * g.speed;
        return true;
      });
    });
    l.unplaced = 0;
    l.next_end = next;
    if (!(l.resident > 0)) l.queue = l.queue_rate = 0;
  }

  /// Ends those on an SM for which ends(group) is true.
  template <class Ends>
  void end_groups(std::size_t i, Ends&& ends) {
    sm& m = sms_[i];
    const auto end = [&](const group& g) {
      if (!ends(g)) return false;
      lane& l = lanes_[g.lane];
      for (std::size_t r = 0; r < m.left.size(); ++r) m.left[r] += l.shape.shares[r] * g.blocks;
      l.resident -= g.blocks;
      if ((held(i, l) -= g.blocks) == 0) l.on -= 1;
      return true;
    };
    m.groups.erase(std::remove_if(m.groups.begin(), m.groups.end(), end), m.groups.end());
    touched_.push_back(i);
    if (!m.freed) freed_.push_back(i);
    m.freed = true;
  }

  /// Places what fits, from the oldest kernel to the youngest. One behind another that waits for
  /// room gets none.
  void place() {
    for (std::size_t k = 0; k < running_.size(); ++k) {
      lane& l = *running_[k];
      if (!(l.unplaced > 0)) continue;
      const bool waits = std::any_of(
          running_.begin(), running_.begin() + static_cast<long>(k),
          [&](const lane* older) { return older->region == l.region && older->unplaced > 0; });
      if (waits || (l.tried && freed_.empty())) continue;
      open_.clear();
      const region& r = regions_[l.region];
      if (l.tried) {
        for (const std::size_t i : freed_)
          if (r.has(i)) open_.push_back({i, 0, 0});
      } else {
        for (std::size_t i = r.first; i < r.first + r.count; ++i) open_.push_back({i, 0, 0});
      }
      place_on_open(l);
    }
    for (const std::size_t i : freed_) sms_[i].freed = false;
    freed_.clear();
  }

  /// In each round the SMs with the most room take one block.
  void place_on_open(lane& l) {
    l.tried = true;
    double room = 0, most = 0;
    for (open_sm& o : open_) {
      const sm& m = sms_[o.sm];
      const bool waits = !m.groups.empty() && m.split + tiny < l.shape.least_split;
      o.room = waits ? 0 : l.shape.fit(m.left, held(o.sm, l));
      room += o.room;
      most = std::max(most, o.room);
    }
    double give = std::min(room, l.unplaced);
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
      if (o.take > 0) put(l, o.sm, static_cast<std::uint32_t>(o.take));
  }

  void put(lane& l, std::size_t i, std::uint32_t blocks) {
    advance(i);
    sm& m = sms_[i];
    if (m.groups.empty()) m.split = l.chain->endless ? 1 : l.shape.set_split;
    for (std::size_t r = 0; r < m.left.size(); ++r) m.left[r] -= l.shape.shares[r] * blocks;
    if (held(i, l) == 0) l.on += 1;
    held(i, l) += blocks;
    const double early = scatter(l.placements++, i);
    const bool is_first = !(l.unplaced < l.shape.blocks); // one block at least takes all the time
    const double time = l.shape.longest - (is_first ? 0 : l.shape.apart * early);
    l.unplaced -= blocks;
    l.resident += blocks;
    const bool fetches_code = m.ran != none && m.ran != l.graph && !l.chain->endless;
    m.ran = l.graph;
    const double fetches = fetches_code ? replays_.code_us(dram_) / l.shape.block_us : 0;
    m.groups.push_back({l.number, blocks, time + fetches});
    if (l.is_persistent()) {
      l.queue += blocks * fetches;
      m.groups.back().left = is_first ? 0 : l.shape.queued_at_end(early);
      l.next_end = std::max(l.next_end, m.groups.back().left);
    }
    touched_.push_back(i);
  }

  /// A number from 0 to 1, by a hash of the arguments.
  static double scatter(std::uint32_t n, std::size_t i) noexcept {
    std::uint32_t h = (n * 2654435761u) ^ (static_cast<std::uint32_t>(i) * 40503u);
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    return static_cast<double>(h & 0xffffu) / 65535;
  }

  /// Updates the SMs whose blocks have changed; all, if the kernels or their use of L2 and DRAM
  /// have, or the blocks that share it.
  void find_speeds() {
    constexpr double same = 0.04; // parts of the device's capacity
    double l2 = 0, dram = 0;
    for (lane* const l : running_) {
      const double moved = std::abs(l->resident - l->known_resident) * l->shape.bound;
      changed_ |= moved > same * l->shape.at_once;
      l->l2 = l->dram = 0;
      if (!(l->resident > 0)) continue;
      const double active =
          l->resident / l->shape.at_once / l->shape.block_time(l->resident / l->on, l->resident);
      l2 += l->l2 = std::min(1.0, l->kernel().takes.of(resource::l2) * active);
      dram += l->dram = std::min(1.0, l->kernel().takes.of(resource::dram) * active);
    }
    if (changed_ || std::abs(l2 - l2_) > same || std::abs(dram - dram_) > same) {
      l2_ = l2;
      dram_ = dram;
      changed_ = false;
      for (lane* const l : running_) l->known_resident = l->resident;
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
        lane& l = lanes_[g.lane];
        if (l.is_persistent()) l.queue_rate += g.blocks * (speeds[g.lane] - g.speed);
        g.speed = speeds[g.lane];
        if (!l.chain->endless && !l.is_persistent())
          end = std::min(end, now_ + std::max(0.0, g.left) / g.speed);
      }
    }
    ends_[i] = end;
  }

  /// The speeds of the blocks of each lane, the same on SMs that hold equally many.
  [[nodiscard]] const double* speeds_of(std::size_t i) {
    const std::size_t n = lanes_.size();
    const auto here = held_.begin() + static_cast<std::ptrdiff_t>(i * n);
    for (const mixture& m : known_)
      if (std::equal(m.blocks.begin(), m.blocks.end(), here)) return m.speeds.data();
    mixture m{{here, here + static_cast<std::ptrdiff_t>(n)}, std::vector<double>(n)};
    for (std::size_t k = 0; k < running_.size(); ++k)
      if (m.blocks[running_[k]->number] > 0) m.speeds[running_[k]->number] = speed(k, m.blocks);
    known_.push_back(std::move(m));
    return known_.back().speeds.data();
  }

  /// The speed of blocks of the k-th running kernel on an SM with so many blocks of each lane.
  [[nodiscard]] double speed(std::size_t k, const std::vector<std::uint32_t>& blocks) const {
    const lane& l = *running_[k];
    surroundings around;
    double older = 0; // part of the dispatcher's time that older kernels take
    for (std::size_t j = 0; j < running_.size(); ++j) {
      const lane& other = *running_[j];
      if (j < k && other.region != l.region) older += other.dispatch;
      if (j != k && other.resident > 0)
        add(around, l, other, blocks, j < k, slowed_by_third(k, j, blocks));
    }
    const double here = blocks[l.number];
    double slow = law_.slowdown(use_of(l, here), here * l.shape.warps, around);
    // Some rules hold beside one endless kernel alone: others beside that make it no better.
    if (around.beside > 1 && around.endless == 1)
      slow = std::max(slow, slowed_by_endless(k, blocks));
    return 1 / (l.shape.block_us * l.shape.block_time(here, l.resident) *
                std::max(slow, replay_law::waits_for_dispatcher(l.dispatch, older)));
  }

  /// The slow-down of the k-th running kernel on such an SM by the endless kernel there alone.
  [[nodiscard]] double slowed_by_endless(std::size_t k,
                                         const std::vector<std::uint32_t>& blocks) const {
    const lane& l = *running_[k];
    surroundings around;
    for (std::size_t j = 0; j < running_.size(); ++j)
      if (const lane& other = *running_[j];
          j != k && blocks[other.number] > 0 && surroundings::is_endless(use_of(other, 1)))
        add(around, l, other, blocks, j < k, slowed_by_third(k, j, blocks));
    const double here = blocks[l.number];
    return law_.slowdown(use_of(l, here), here * l.shape.warps, around);
  }

  /// Adds a neighbour to what a kernel meets on an SM with so many blocks of each lane, while
  /// others slow the neighbour.
  void add(surroundings& around, const lane& l, const lane& other,
           const std::vector<std::uint32_t>& blocks, bool is_older, double slow = 1) const {
    const double near = blocks[other.number];
    demand d = beside(l, other, near);
    if (slow > 1) {
      for (double& use : d.use) use /= slow;
      d.queue_cycles /= slow;
      d.waits.blocked /= slow;
    }
    around.add(d, near > 0 ? 1 : 0, 1, near * other.shape.warps, is_older);
  }
  /// How much the graphs other than these two slow the j-th running kernel, if it is on such an SM:
  /// 1 in a pair, which the law was fitted to with what each takes alone.
  [[nodiscard]] double slowed_by_third(std::size_t k, std::size_t j,
                                       const std::vector<std::uint32_t>& blocks) const {
    const lane& l = *running_[j];
    const lane& first = *running_[k];
    const double here = blocks[l.number];
    if (graphs_.size() < 3 || l.graph == first.graph || !(here > 0)) return 1;
    surroundings around;
    for (std::size_t i = 0; i < running_.size(); ++i)
      if (const lane& other = *running_[i];
          other.graph != l.graph && other.graph != first.graph && other.resident > 0)
        add(around, l, other, blocks, i < j);
    return std::max(1.0, law_.slowdown(use_of(l, here), here * l.shape.warps, around));
  }

  /// How much more than its counters say a neighbour's traffic costs a kernel on other SMs.
  /// Of graphs or of lanes.
  template <class T>
  [[nodiscard]] static double pressure_on(const T& one, const T& other) noexcept {
    return other.region != one.region ? other.chain->factors.pressure : 1;
  }
  /// What a neighbour takes, with so many blocks on an SM of the kernel.
  [[nodiscard]] demand beside(const lane& l, const lane& other, double near) const noexcept {
    demand d = use_of(other, near);
    d.pressure = pressure_on(l, other);
    return d;
  }

  /// What a kernel takes of an SM with so many of its blocks, and of the device. More blocks than
  /// it has alone do not make it one that others wait for: their pauses leave others room. The
  /// counter of L1 has the accesses to shared memory too; those of an endless kernel leave L1 to
  /// others. The more of the device's SMs have stores that L1 cannot pass on, the more of them
  /// memory's queues hold.
  [[nodiscard]] demand use_of(const lane& l, double here) const noexcept {
    demand d = l.kernel().takes;
    d.stores = d.waits.blocked * l.on * l.scale / all_sms_;
    const double active = l.shape.solo_warps > 0 ? here * l.shape.warps / l.shape.solo_warps : here;
    const double more = here > 0 ? active / l.shape.block_time(here, l.resident) : 0;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      d.use[r] = std::min(std::max(contention_law::full_from, d.use[r]), d.use[r] * more);
    d.queue_cycles *= active;
    d.of(resource::l2) = l.l2;
    d.of(resource::dram) = l.dram;
    d.steady = l.chain->endless;
    if (!d.steady) return d;
    d.of(resource::l1) = std::max(0.0, d.of(resource::l1) - d.of(resource::shared_memory));
    d.queued = surroundings::queued(d, l.resident * l.shape.warps * l.scale);
    return d;
  }

  /// The progress of an endless kernel, in microseconds alone per microsecond.
  [[nodiscard]] double pace(const lane& l) {
    double sum = 0;
    for_each_sm(l, [&](std::size_t i) {
      for (const group& g : sms_[i].groups)
        if (g.lane == l.number) sum += g.speed * g.blocks;
    });
    return l.resident > 0 ? sum * l.shape.block_us / l.resident : 0;
  }

  struct open_sm {
    std::size_t sm = 0;
    double room = 0;
    double take = 0;
  };
  struct mixture {
    std::vector<std::uint32_t> blocks; ///< of each lane
    std::vector<double> speeds;
  };

  contention_law law_;
  replay_law replays_;
  std::vector<graph> graphs_;
  std::vector<lane> lanes_;
  std::vector<lane*> running_; ///< in the order of their starts
  std::vector<region> regions_;
  double all_sms_ = 0;
  std::vector<sm> sms_;
  std::vector<double> ends_;        ///< next end of blocks on each SM
  std::vector<std::uint32_t> held_; ///< blocks of each lane on each SM, a row an SM
  std::vector<std::size_t> freed_;
  std::vector<std::size_t> touched_;
  std::vector<open_sm> open_;
  std::vector<mixture> known_;
  bool changed_ = false; ///< which kernels run
  double l2_ = 0;        ///< use of the device for which the speeds are
  double dram_ = 0;
  double dispatches_until_ = 0;    ///< until then the dispatcher starts a kernel
  std::size_t dispatches_for_ = 0; ///< of this region
  double started_ = -never;        ///< when a kernel last did
  double now_ = 0;
};

} // namespace gsched::detail
