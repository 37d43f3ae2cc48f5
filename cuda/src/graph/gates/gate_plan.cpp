// SPDX-License-Identifier: Apache-2.0
#include "graph/gates/gate_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gsched::cuda {

namespace {

using numbers = std::vector<std::uint32_t>;

/// The schedule of a range in which each operation starts as early as its dependencies allow.
struct schedule {
  std::vector<duration> start, end;
  numbers by_start; ///< operations sorted by start
  numbers by_end;
  numbers place;             ///< by operation: its index in by_start
  std::vector<numbers> next; ///< by operation: its dependents

  schedule(std::span<const numbers> after, std::span<const duration> times)
      : start(after.size()), end(after.size()), by_start(after.size()), by_end(after.size()),
        place(after.size()), next(after.size()) {
    for (std::uint32_t i = 0; i < after.size(); ++i) {
      for (const std::uint32_t u : after[i]) {
        start[i] = std::max(start[i], end[u]);
        next[u].push_back(i);
      }
      end[i] = start[i] + std::max(times[i], duration{1}); // on a path, starts are distinct
    }
    std::iota(by_start.begin(), by_start.end(), 0u);
    by_end = by_start;
    const auto by = [](const std::vector<duration>& at) {
      return [&at](std::uint32_t a, std::uint32_t b) {
        return std::pair(at[a], a) < std::pair(at[b], b);
      };
    };
    std::sort(by_start.begin(), by_start.end(), by(start));
    std::sort(by_end.begin(), by_end.end(), by(end));
    for (std::uint32_t k = 0; k < by_start.size(); ++k) place[by_start[k]] = k;
  }
};

/// A possible gate and its time in the schedule.
struct candidate {
  planned_gate gate;
  duration at{};
  std::uint32_t held_from = 0; ///< index in by_start of the first operation that it holds
  numbers runs;                ///< operations neither held nor ended at its time
};

class planner {
public:
  planner(std::span<const numbers> after, std::span<const duration> times, unsigned every,
          duration slack)
      : after_(after), times_(times), every_(every), slack_(slack), s_(after, times) {}

  [[nodiscard]] std::vector<planned_gate> plan() {
    const auto n = static_cast<std::uint32_t>(after_.size());
    std::size_t since = every_ - 1; // operations since the last gate; allows the first one at once
    if (n > 0) started_.push_back(s_.by_start[0]);
    for (std::uint32_t k = 1; k < n; ++k) {
      const duration now = s_.start[s_.by_start[k]];
      pass_ends(now);
      std::erase_if(started_, [&](std::uint32_t i) { return s_.end[i] <= now; });
      started_.push_back(s_.by_start[k]);
      ++since;
      if (since < every_ || last_.empty()) continue;
      candidate c = at(k);
      if (c.held_from >= n || since < std::size_t{every_} * c.runs.size()) continue;
      if (!place(c)) continue;
      gates_.push_back(std::move(c));
      since = 0;
    }
    std::vector<planned_gate> all;
    all.reserve(gates_.size());
    for (candidate& c : gates_) all.push_back(std::move(c.gate));
    return all;
  }

private:
  /// Updates last_ with the operations that have ended by `until`.
  void pass_ends(duration until) {
    for (; passed_ < s_.by_end.size() && s_.end[s_.by_end[passed_]] <= until; ++passed_) {
      const std::uint32_t i = s_.by_end[passed_];
      std::erase_if(last_, [&](std::uint32_t u) {
        return std::find(after_[i].begin(), after_[i].end(), u) != after_[i].end();
      });
      last_.push_back(i);
    }
  }

  [[nodiscard]] candidate at(std::uint32_t k) const {
    candidate c;
    c.gate.beside = s_.by_start[k];
    c.at = s_.start[c.gate.beside];
    const auto first_from = [&](duration t) {
      return static_cast<std::uint32_t>(
          std::lower_bound(s_.by_start.begin(), s_.by_start.end(), t,
                           [&](std::uint32_t i, duration v) { return s_.start[i] < v; }) -
          s_.by_start.begin());
    };
    c.held_from = first_from(c.at + duration{1});
    c.runs = running(k, c.held_from);
    if (c.runs.size() > 1) { // branches: operations that start within the slack are not held
      c.held_from = first_from(c.at + slack_);
      c.runs = running(k, c.held_from);
    }
    for (const std::uint32_t r : c.runs) {
      c.gate.takes = std::max(c.gate.takes, times_[r]);
      for (const std::uint32_t i : s_.next[r])
        if (s_.place[i] >= c.held_from && holds_first(i, c.held_from)) c.gate.holds.push_back(i);
    }
    std::sort(c.gate.holds.begin(), c.gate.holds.end());
    c.gate.holds.erase(std::unique(c.gate.holds.begin(), c.gate.holds.end()), c.gate.holds.end());
    return c;
  }

  /// The operations before index `before` that have not ended when the k-th one starts.
  [[nodiscard]] numbers running(std::uint32_t k, std::uint32_t before) const {
    numbers all = started_;
    all.insert(all.end(), s_.by_start.begin() + k + 1, s_.by_start.begin() + before);
    return all;
  }

  /// Orders the gate after the earlier ones. False if the gate is not allowed: three gates could be
  /// closed at once, or it would hold the same operations as the last one.
  [[nodiscard]] bool place(candidate& c) {
    duration known{-1}; // an earlier gate already waits for everything that ended by then
    if (!gates_.empty()) {
      candidate& former = gates_.back();
      if (former.held_from >= c.held_from) return false;
      if (ended_of(former, c)) {
        known = former.at;
      } else {
        if (gates_.size() >= 2) {
          const candidate& before = gates_[gates_.size() - 2];
          if (!ended_of(before, c)) return false;
          known = before.at;
        }
        former.gate.followed = all_ended(former.runs, c);
      }
    }
    for (const std::uint32_t u : last_)
      if (s_.end[u] > known) c.gate.waits.push_back(u);
    std::sort(c.gate.waits.begin(), c.gate.waits.end());
    return true;
  }

  /// Whether no dependency of the operation is held itself.
  [[nodiscard]] bool holds_first(std::uint32_t i, std::uint32_t held_from) const {
    return std::none_of(after_[i].begin(), after_[i].end(),
                        [&](std::uint32_t u) { return s_.place[u] >= held_from; });
  }

  /// Whether an operation held by the earlier gate has ended at the time of the later one, so that
  /// the later gate waits for the earlier one.
  [[nodiscard]] bool ended_of(const candidate& earlier, const candidate& later) const {
    for (std::uint32_t k = earlier.held_from; k < s_.by_start.size(); ++k) {
      const std::uint32_t i = s_.by_start[k];
      if (s_.start[i] >= later.at) return false;
      if (s_.end[i] <= later.at) return true;
    }
    return false;
  }
  [[nodiscard]] bool all_ended(const numbers& which, const candidate& at) const {
    return std::all_of(which.begin(), which.end(),
                       [&](std::uint32_t i) { return s_.end[i] <= at.at; });
  }

  std::span<const numbers> after_;
  std::span<const duration> times_;
  unsigned every_;
  duration slack_;
  schedule s_;
  std::size_t passed_ = 0; ///< index in by_end
  numbers last_;           ///< ended operations without an ended dependent
  numbers started_;        ///< operations that have started and not ended
  std::vector<candidate> gates_;
};

} // namespace

std::vector<planned_gate> plan_gates(std::span<const std::vector<std::uint32_t>> after,
                                     std::span<const duration> times, unsigned every,
                                     duration slack) {
  return planner(after, times, std::max(every, 1u), slack).plan();
}

} // namespace gsched::cuda
