// SPDX-License-Identifier: Apache-2.0
#include "sim_accuracy/laws.hpp"

#include <gsched/sim/contention.hpp>
#include <gsched/sim/graph_law.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sim_accuracy {

using namespace gsched;
using sim::kernel_load;
using sim::surroundings;

namespace {

constexpr double between_replays_us = 2;
constexpr double at_least_us = 15000; ///< as long as the pairs were measured
constexpr double at_least_replays = 5;

/// An operation on its lane's partition.
struct step {
  bool kernel = false;
  double blocks = 1;
  double per_sm = 1;
  double resident = 1; ///< blocks at once when it is alone
  double warps = 1;
  double wave_us = 0; ///< of blocks that start together, alone
  kernel_load load{};
};

/// Blocks that were placed together.
struct cohort {
  double blocks;
  double left; ///< part of their work
};

struct lane {
  double sms = 0;
  std::vector<step> steps;
  std::size_t at = 0;
  bool started = false; ///< the step at `at` has arrived at the device
  double wait_us = 0;   ///< until it does
  double arrived_us = 0;
  double replay_from_us = 0;
  double unplaced = 0;
  double resident = 0;
  double speed = 0; ///< of its cohorts, a microsecond
  std::vector<cohort> cohorts;
  std::vector<double> replays_us;

  const step& now() const { return steps[at]; }
  bool running() const { return started && !cohorts.empty(); }
  double part_resident() const { return std::min(1.0, resident / now().resident); }
};

class pair_run {
public:
  pair_run(lane& a, lane& b, bool shared) : lanes_{&a, &b}, shared_(shared) {}

  void until(double end_us) {
    while (now_us_ < end_us) {
      place();
      double step_us = end_us - now_us_ + 1;
      for (std::size_t i = 0; i < 2; ++i) step_us = std::min(step_us, next_event(i));
      now_us_ += step_us;
      for (std::size_t i = 0; i < 2; ++i) advance(i, step_us);
    }
  }

private:
  /// The leftover policy: who came later waits until all earlier blocks are placed.
  void place() {
    std::size_t order[2] = {0, 1};
    if (lanes_[1]->started &&
        (!lanes_[0]->started || lanes_[1]->arrived_us < lanes_[0]->arrived_us))
      std::swap(order[0], order[1]);
    for (const std::size_t i : order) {
      lane& l = *lanes_[i];
      if (!l.started || l.unplaced <= 0) continue;
      if (!l.now().kernel) {
        l.unplaced = 0;
        l.cohorts.push_back({0, 1});
        continue;
      }
      double room = l.sms;
      for (std::size_t k = 0; k < 2; ++k)
        if ((k == i || shared_) && lanes_[k]->started)
          room -= lanes_[k]->resident / lanes_[k]->now().per_sm;
      const double n = std::min(std::floor(room * l.now().per_sm + 1e-6), l.unplaced);
      if (n >= 1) {
        l.unplaced -= n;
        l.resident += n;
        l.cohorts.push_back({n, 1});
      }
      if (l.unplaced > 0 && shared_) break;
    }
  }

  surroundings around(std::size_t i) const {
    const lane& l = *lanes_[i];
    const lane& other = *lanes_[1 - i];
    surroundings s;
    s.beside = true;
    const double own = l.started ? l.resident / l.sms : 0;
    if (l.started) s.own_warps = static_cast<float>(std::max(1.0, own) * l.now().warps);
    if (!other.running()) return s;
    const step& o = other.now();
    const double memory = o.load.memory * other.part_resident();
    (shared_ ? s.near_memory : s.far_memory) = static_cast<float>(memory);
    const double others = other.resident / other.sms;
    if (!shared_ || own <= 0 || others <= 0) return s;
    // Blocks go where most room is, so the two meet only on SMs that neither could avoid.
    const double mine = std::min(1.0, own);
    const double theirs = std::min(1.0, others);
    const double meet = std::max(0.0, mine + theirs - 1) / mine;
    s.other_warps = static_cast<float>(meet * others * o.warps / theirs);
    return s;
  }

  double next_event(std::size_t i) {
    lane& l = *lanes_[i];
    if (!l.started) return l.wait_us;
    const step& s = l.now();
    const double stretch = s.kernel ? law_.stretch(s.load, around(i)) : 1.0;
    l.speed = 1 / std::max(s.wave_us * stretch, 1e-6);
    double first = 1e18;
    for (const cohort& c : l.cohorts) first = std::min(first, c.left / l.speed);
    return first;
  }

  void advance(std::size_t i, double us) {
    lane& l = *lanes_[i];
    if (!l.started) {
      if ((l.wait_us -= us) > 1e-9) return;
      l.started = true;
      l.arrived_us = now_us_;
      l.unplaced = l.now().blocks;
      l.resident = 0;
      if (l.at == 0) l.replay_from_us = now_us_;
      return;
    }
    for (cohort& c : l.cohorts)
      if ((c.left -= us * l.speed) <= 1e-9) l.resident -= c.blocks;
    std::erase_if(l.cohorts, [](const cohort& c) { return c.left <= 1e-9; });
    if (!l.cohorts.empty() || l.unplaced > 0) return;
    l.started = false;
    l.wait_us = to_us(graph_.gap + law_.gap(around(i)));
    if (++l.at < l.steps.size()) return;
    l.at = 0;
    l.wait_us = between_replays_us;
    l.replays_us.push_back(now_us_ - l.replay_from_us);
  }

  lane* lanes_[2];
  bool shared_;
  double now_us_ = 0;
  sim::contention_law law_{};
  sim::graph_law graph_{};
};

lane lane_of(const scaled_graph& g, sm_count sms) {
  const sim::graph_law graph;
  const sim::contention_law law;
  lane l;
  l.sms = sms.count();
  for (const scaled_operation& op : g.operations) {
    step s;
    s.load = sim::load_of(*op.work, op.table, sms, op.blocks_per_sm);
    s.wave_us = to_us(graph.operation(op.table.at(sms)));
    s.kernel = op.work->kind == operation_kind::kernel;
    if (s.kernel) {
      s.blocks = std::max(1.0, static_cast<double>(op.work->launch.blocks()));
      s.per_sm = op.blocks_per_sm;
      s.resident = std::min(s.blocks, s.per_sm * l.sms);
      s.warps = s.load.warps;
      const double full = std::floor(s.blocks / s.resident);
      surroundings last; // a wave that is not full runs faster
      last.own_warps =
          static_cast<float>(std::max(1.0, (s.blocks - full * s.resident) / l.sms) * s.warps);
      const bool rest = s.blocks - full * s.resident > 0.5;
      s.wave_us /= full + (rest ? double{law.stretch(s.load, last)} : 0.0);
    }
    l.steps.push_back(s);
  }
  return l;
}

double median(std::vector<double>& v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

} // namespace

pair_times run_pair(const scaled_graph& a, sm_count a_sms, const scaled_graph& b, sm_count b_sms) {
  lane lanes[2] = {lane_of(a, a_sms), lane_of(b, b_sms)};
  lanes[1].wait_us = between_replays_us; // not in step
  pair_run run(lanes[0], lanes[1], a_sms == a.device && b_sms == b.device);
  const double both = to_us(replay(a, a_sms)) + to_us(replay(b, b_sms));
  for (double end = std::max(at_least_us, at_least_replays * both);; end *= 2) {
    run.until(end);
    if (!lanes[0].replays_us.empty() && !lanes[1].replays_us.empty()) break;
  }
  return {{median(lanes[0].replays_us), median(lanes[1].replays_us)}};
}

} // namespace sim_accuracy
