// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/placement.hpp>
#include <gsched/interference/replay_law.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace gsched {

/// A graph that is replayed beside others. Graphs with the same number of a partition share its
/// SMs; other graphs share only L2 and DRAM with them.
struct corunner {
  const kernel_chain* chain = nullptr;
  std::uint32_t partition = 0;
};

/// How long corun_slowdowns simulates, and which of a graph's replays it reports.
struct replay_window {
  double us = 15000;              ///< at least this long
  std::size_t replays = 4;        ///< and until each graph has ended this often
  std::size_t events = 2'000'000; ///< but at most this many events
  double rank = 0.5;              ///< 0: the fastest replay; 0.5: the median; 1: the slowest
};

namespace detail {

/// Replays of chains side by side, kernel by kernel.
class chain_replay {
public:
  chain_replay(std::span<const corunner> graphs, const contention_law& law,
               const replay_law& replays)
      : law_(law), replays_(replays), sides_(graphs.size()) {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      sides_[i].chain = graphs[i].chain;
      sides_[i].partition = graphs[i].partition;
      sides_[i].wait = graphs[i].chain->endless ? 0 : just_after;
    }
    running_.reserve(graphs.size());
    group_.reserve(graphs.size());
  }

  [[nodiscard]] std::vector<double> run(const replay_window& window) {
    for (std::size_t event = 0; event < window.events && !enough(window); ++event) step();
    std::vector<double> slow;
    for (side& s : sides_) slow.push_back(s.slowdown(now_, window.rank));
    return slow;
  }

private:
  static constexpr double done = 1e-9;
  static constexpr double just_after = 1e-3; ///< graphs start after the endless kernels

  struct side {
    const kernel_chain* chain = nullptr;
    std::uint32_t partition = 0;
    std::size_t at = 0;
    double wait = 0; ///< until the kernel starts
    bool running = false;
    resident_kernel now{};
    double speed = 0;
    double begun = 0; ///< start of this replay
    double work = 0;  ///< of an endless kernel, in microseconds alone
    std::vector<double> replays{};

    [[nodiscard]] const chain_kernel& kernel() const noexcept { return chain->kernels[at]; }

    /// Its progress of the last `us` is undone.
    void lose(double us) noexcept {
      if (!running)
        wait += us;
      else if (!chain->endless)
        now.left = std::min(1.0, now.left + us / kernel().us);
    }

    [[nodiscard]] double slowdown(double end, double rank) {
      if (replays.size() > 1) replays.erase(replays.begin()); // the other graphs had just begun
      if (replays.empty()) {                                  // by its progress
        for (std::size_t i = 0; i < at; ++i) work += chain->kernels[i].us + chain->gap_us;
        if (running) work += (1 - now.left) * kernel().us;
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

  void step() {
    if (changed_) find_speeds();
    changed_ = false;
    double by = std::numeric_limits<double>::max();
    for (const side& s : sides_) {
      if (!s.running) {
        by = std::min(by, s.wait);
      } else if (s.speed > 0 && !s.chain->endless) {
        const double to = s.now.until < s.now.left - done ? s.now.until : 0;
        by = std::min(by, (s.now.left - to) * s.kernel().us / s.speed);
      }
    }
    if (by == std::numeric_limits<double>::max()) by = 1; // only endless kernels run
    now_ += by;
    for (side& s : sides_) advance(s, by);
  }

  void advance(side& s, double by) {
    if (!s.running) {
      s.wait -= by;
      if (s.wait > done) return;
      s.running = changed_ = true;
      s.now = {};
      s.now.kernel = &s.kernel();
      running_.push_back(&s);
      for (side& other : sides_)
        if (&other != &s) other.lose(replays_.start_us);
      return;
    }
    if (!(s.speed > 0)) return;
    if (s.chain->endless) {
      s.work += by * s.speed;
      return;
    }
    const double before = s.now.left;
    s.now.left -= by * s.speed / s.kernel().us;
    if (s.now.left > done) {
      changed_ |= s.now.left <= s.now.until + done && before > s.now.until + done;
      return;
    }
    s.running = false;
    s.now.left = 1;
    changed_ = true;
    s.wait = s.chain->gap_us + replays_.gap_us;
    running_.erase(std::find(running_.begin(), running_.end(), &s));
    if (++s.at < s.chain->kernels.size()) return;
    s.at = 0;
    s.replays.push_back(now_ - s.begun);
    s.begun = now_;
  }

  /// The speeds of all running kernels. `running_` is ordered by their starts.
  void find_speeds() {
    for (side* const first : running_) {
      if (is_first_of_partition(first)) place(first->partition, first->chain->sms);
    }
    for (std::size_t i = 0; i < running_.size(); ++i) {
      side& s = *running_[i];
      s.speed = 0;
      if (!(s.now.placed > 0)) continue;
      const chain_kernel& own = s.kernel();
      const double sms = s.chain->sms;
      const double coverage = own.coverage(sms) * s.now.placed;
      const auto shared_with = [&](const side& other) {
        return other.partition == s.partition
                   ? shared_part(coverage, other.kernel().coverage(sms) * other.now.placed)
                   : 0;
      };
      double shared = 0;
      for (const side* const other : running_)
        if (other != &s) shared += shared_with(*other);
      const double raised = raised_by_slowest(shared, own.waves(sms) / s.now.placed);
      surroundings around;
      for (std::size_t j = 0; j < running_.size(); ++j) {
        const side& other = *running_[j];
        if (j == i || !(other.now.placed > 0)) continue;
        const chain_kernel& k = other.kernel();
        around.add(k.takes, raised * shared_with(other), other.now.placed,
                   k.warps_per_sm(other.chain->sms), j < i);
      }
      s.speed = 1 / law_.slowdown(own.takes, s.now.placed, own.warps_per_sm(sms), around);
    }
  }

  [[nodiscard]] bool is_first_of_partition(const side* s) const noexcept {
    for (const side* const other : running_) {
      if (other == s) return true;
      if (other->partition == s->partition) return false;
    }
    return false;
  }

  void place(std::uint32_t partition, double sms) {
    group_.clear();
    for (const side* const s : running_)
      if (s->partition == partition) group_.push_back(s->now);
    place_blocks(group_, sms, replays_);
    std::size_t at = 0;
    for (side* const s : running_)
      if (s->partition == partition) s->now = group_[at++];
  }

  contention_law law_;
  replay_law replays_;
  std::vector<side> sides_;
  std::vector<side*> running_;
  std::vector<resident_kernel> group_;
  bool changed_ = true;
  double now_ = 0;
};

} // namespace detail

/// Simulates graphs that are replayed without a pause, side by side, kernel beside kernel. Returns
/// the slow-down of each graph: its median replay, or that of the window's rank, over a replay alone.
///
/// Source   the workload-level estimate from a kernel-level one that Elvinger et al. ask for: SoCC
///          2025, section 5.1, doi:10.1145/3772052.3772270.
/// Differs  it simulates instead of averaging: which kernels meet depends on all speeds, and the
///          median of a short graph's replays is not their mean.
/// Order    all graphs start at the same time; an earlier graph's kernel counts as the older one.
/// Cost     some 100 ns an event for two graphs; a kernel has one to six. O(graphs squared).
/// Threads  a pure function.
[[nodiscard]] inline std::vector<double> corun_slowdowns(std::span<const corunner> graphs,
                                                         const contention_law& law,
                                                         const replay_law& replays,
                                                         const replay_window& window = {}) {
  return detail::chain_replay(graphs, law, replays).run(window);
}

} // namespace gsched
