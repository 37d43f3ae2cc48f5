// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/dispatch/corun_rule.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gsched {

/// Which models have jobs in flight, how much these jobs are slowed by each other, and whether
/// another one fits beside them under a corun_rule. Sums are integers, so they return to zero.
///
/// A claim reserves a place for a job that does not fit yet. While it stands, work fits only if it
/// would also fit with that job in flight, so whatever keeps that job waiting ends, and nothing
/// takes its place:
///  - a job in flight that slows the claiming model, or is slowed by it, beyond a limit gets no
///    further segment;
///  - a job that would bring the claiming model beyond its limit does not start;
///  - jobs that no exceeded limit concerns go on.
///
/// Cost     O(models in flight) each; no allocation after construction.
/// Threads  one owner; no locking.
class corun_gate {
public:
  using row = corun_rule::row;
  using excess = corun_rule::excess;

  /// The rule outlives it. Null: nothing else is called.
  explicit corun_gate(const corun_rule* rule) : rule_(rule) {
    if (rule_ == nullptr) return;
    rows_.resize(rule_->models() + 1);
    in_flight_.reserve(rows_.size());
  }

  [[nodiscard]] const corun_rule* rule() const noexcept { return rule_; }

  /// Whether a job of the model may be in flight now. `counted`: it is in flight already.
  [[nodiscard]] bool fits(row x, bool counted) const noexcept {
    // the claim is for a job of that model that is not in flight
    return fits(x, counted, claim_ && (*claim_ != x || counted) ? claim_ : std::nullopt);
  }

  /// A job of the model is in flight from now on.
  void began(row x) noexcept {
    excess own = 0;
    for (const row y : in_flight_) {
      own += rows_[y].jobs * rule_->of(x, y);
      if (y != x) rows_[y].sum += rule_->of(y, x);
    }
    state& s = rows_[x];
    s.sum = own; // its jobs that were in flight before are beside this one now, too
    if (s.jobs++ > 0) return;
    s.place = static_cast<std::uint32_t>(in_flight_.size());
    in_flight_.push_back(x); // within its capacity
  }
  void ended(row x) noexcept {
    state& s = rows_[x];
    assert(s.jobs > 0);
    if (--s.jobs > 0) {
      s.sum -= rule_->of(x, x);
    } else {
      s.sum = 0;
      rows_[in_flight_.back()].place = s.place;
      in_flight_[s.place] = in_flight_.back();
      in_flight_.pop_back();
    }
    for (const row y : in_flight_)
      if (y != x) rows_[y].sum -= rule_->of(y, x);
  }

  void claim(row x) noexcept { claim_ = x; }
  void drop_claim() noexcept { claim_.reset(); }

  /// The number of models in flight of which the rule does not know how they and x slow each other.
  [[nodiscard]] std::size_t unknown_beside(row x) const noexcept {
    std::size_t n = 0;
    for (const row y : in_flight_) n += !rule_->knows(x, y) || !rule_->knows(y, x);
    return n;
  }
  /// The sum of excesses of each job in flight of the model.
  [[nodiscard]] excess sum(row x) const noexcept { return rows_[x].sum; }
  [[nodiscard]] std::size_t models_in_flight() const noexcept { return in_flight_.size(); }

private:
  struct state {
    std::uint64_t jobs = 0;
    excess sum = 0; ///< of each of its jobs, while there are any
    std::uint32_t place = 0;
  };

  [[nodiscard]] bool fits(row x, bool counted, std::optional<row> claimed) const noexcept {
    const auto of = [&](row slowed, std::optional<row> beside) {
      return beside ? rule_->of(slowed, *beside) : 0;
    };
    excess own = of(x, claimed);
    excess of_claimed = 0;
    for (const row y : in_flight_) {
      if (!counted) own += rows_[y].jobs * rule_->of(x, y);
      if (claimed) of_claimed += rows_[y].jobs * rule_->of(*claimed, y);
      const excess more = rule_->of(y, x);
      if (y == x || more == 0) continue;
      if (rows_[y].sum + (counted ? 0 : more) + of(y, claimed) > rule_->limit(y)) return false;
    }
    if (counted) own += rows_[x].sum;
    if (own > rule_->limit(x)) return false;
    const excess more = claimed ? rule_->of(*claimed, x) : 0;
    return more == 0 || of_claimed + (counted ? 0 : more) <= rule_->limit(*claimed);
  }

  const corun_rule* rule_;
  std::vector<state> rows_;
  std::vector<row> in_flight_; ///< the models that have jobs in flight
  std::optional<row> claim_;
};

} // namespace gsched
