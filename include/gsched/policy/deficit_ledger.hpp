// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/age_order.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace gsched {

/// A client's account with deficit fairness, in sixteenths of a nanosecond of device time per unit
/// of weight; deficit_ledger says what the numbers mean. It belongs to one ledger.
struct fair_account {
  std::int64_t served = 0;      ///< while active: what it got, on the ledger's scale
  std::int64_t credit = 0;      ///< while inactive: its deficit when it left, not below zero
  std::int64_t last_own = 0;    ///< what its last pick cost it
  std::int64_t last_shared = 0; ///< what that pick gave to every active client
  std::uint64_t share = 0;      ///< while active: its weight as the ledger counts it
};

/// What deficit fairness keeps of a client: its account and its waiting jobs by age.
class fair_client {
public:
  [[nodiscard]] const client& facts() const noexcept { return *client_; }
  void bind(const client& c) noexcept { client_ = &c; }

  fair_account account{};
  age_order jobs{};
  set_hook deficit_hook{}; ///< linked while it is active

private:
  const client* client_ = nullptr;
};

/// Who is owed device time. A pick of x ns by client u lowers u's deficit by x (1 - w_u / W) and
/// raises that of every other active client v by x w_v / W, where W is the weight of the active.
/// A client is active while it has waiting jobs or is in debt.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (2) and "Efficient
///          implementation". Who is active: Parekh & Gallager, IEEE/ACM ToN 1(3), 1993,
///          doi:10.1109/90.234856 (virtual time).
/// Differs  charges device time where the paper counts kernels, for a kernel takes from one
///          microsecond to a millisecond and a pick is a segment of many. Compares deficits per
///          unit of weight, for else one shift could not serve clients of unequal weight. A client
///          without waiting jobs pays off its debt while others are served and then leaves; one
///          that is owed leaves at once, keeps that credit and earns no more. So deficits add up to
///          zero over all clients, a client cannot shed a debt by a pause, and none saves up while
///          it is idle.
/// Order    (deficit per weight falling, client id rising).
/// Units    thresholds are device time owed to a client of the mean weight, so scaling all weights
///          changes nothing. Weights count from 2^-16 to 2^16, in steps of 2^-16. Accounts are
///          integers: what the division of a shift leaves is carried to the next, and equal calls
///          give equal bits on every machine.
/// Errors   none; picking for a client that waits not is a bug (asserted).
/// Cost     O(log c) of c active clients, amortised over the leaving of those who were in debt: a
///          shift raises all at once by raising level_, on which their counters stand. O(c log c)
///          once in years of device time, when the level is set back to zero.
/// Threads  one owner; no locking.
class deficit_ledger {
public:
  /// Heads and thresholds beyond 2^40 ns (18 minutes) count as that; such a threshold is never met.
  static constexpr duration longest{std::int64_t{1} << 40};

  deficit_ledger() = default;
  deficit_ledger(const deficit_ledger&) = delete;
  deficit_ledger& operator=(const deficit_ledger&) = delete;

  /// Lets go of clients and of their jobs, which may outlive it.
  ~deficit_ledger() {
    const auto release = [](fair_client* c) {
      c->jobs.clear();
      c->account = {};
    };
    waiting_.clear_and_dispose(release);
    indebted_.clear_and_dispose(release);
  }

  /// c gets a first waiting job.
  void enter(fair_client& c) noexcept {
    fair_account& a = c.account;
    if (is_active(c)) { // was in debt
      indebted_.erase(indebted_.iterator_to(c));
    } else {
      a.served = level_ - a.credit;
      a.share = share_of(c);
      total_ += a.share;
      ++active_;
    }
    waiting_.insert(c);
  }

  /// c has no waiting job any more, without having been served.
  void leave(fair_client& c) noexcept {
    assert(is_active(c));
    waiting_.erase(waiting_.iterator_to(c));
    settle(c);
  }

  /// c, which has no waiting job, will never have one again and may be destroyed. Its debt is lost.
  void forget(fair_client& c) noexcept {
    assert(c.jobs.empty());
    if (is_active(c)) {
      indebted_.erase(indebted_.iterator_to(c));
      drop(c);
    }
    c.account = {};
  }

  /// A waiting job of c is picked, for x of device time; it may be its last one.
  void pick(fair_client& c, duration x, bool last) noexcept {
    assert(is_active(c));
    fair_account& a = c.account;
    const auto ns = static_cast<std::uint64_t>(std::clamp(x, duration{1}, longest).count());
    const std::int64_t before = level_;
    share_out(ns << fraction_bits);
    a.last_shared = level_ - before;
    a.last_own = static_cast<std::int64_t>((ns << fraction_bits) / a.share);
    const std::int64_t served = std::min(a.served + a.last_own, level_ + limit);

    const auto place = waiting_.iterator_to(c);
    const auto next = std::next(place);
    if (!last && (next == waiting_.end() ||
                  std::pair(served, id_of(c)) < std::pair(next->account.served, id_of(*next)))) {
      a.served = served; // keeps its place
    } else {
      waiting_.erase(place);
      a.served = served;
      if (last)
        settle(c);
      else
        waiting_.insert(c);
    }
    if (level_ > limit) set_back();
  }

  /// Of the clients with waiting jobs the one that is owed most, or null.
  [[nodiscard]] fair_client* leader() const noexcept {
    return waiting_.empty() ? nullptr : const_cast<fair_client*>(&*waiting_.begin());
  }

  /// The leader if its deficit exceeds the threshold (any does for a threshold of zero), or null.
  [[nodiscard]] fair_client* overdue(duration threshold) const noexcept {
    fair_client* c = leader();
    if (c != nullptr && exceeds(level_ - c->account.served, threshold, total_, active_)) return c;
    return nullptr;
  }

  /// Whether c would be overdue with a waiting job, now or if its last pick were undone.
  [[nodiscard]] bool was_overdue(const fair_client& c, duration threshold) const noexcept {
    const std::int64_t relative = deficit_of(c) + c.account.last_own;
    const fair_client* first = leader();
    if (first != nullptr && first != &c &&
        std::pair(first->account.served, id_of(*first)) < std::pair(level_ - relative, id_of(c)))
      return false;
    const std::int64_t then = std::max(relative - c.account.last_shared, deficit_of(c));
    return exceeds(then, threshold, is_active(c) ? total_ : total_ + share_of(c),
                   is_active(c) ? active_ : active_ + 1);
  }

  /// What c is owed, in sixteenths of a nanosecond per unit of weight.
  [[nodiscard]] std::int64_t deficit_of(const fair_client& c) const noexcept {
    return is_active(c) ? level_ - c.account.served : c.account.credit;
  }

private:
  [[nodiscard]] static client_id id_of(const fair_client& c) noexcept { return c.facts().id; }
  struct owed_more {
    bool operator()(const fair_client& a, const fair_client& b) const noexcept {
      return std::pair(a.account.served, id_of(a)) < std::pair(b.account.served, id_of(b));
    }
  };
  using hook = bi::member_hook<fair_client, set_hook, &fair_client::deficit_hook>;
  using by_deficit =
      bi::set<fair_client, hook, bi::compare<owed_more>, bi::constant_time_size<false>>;

  static constexpr unsigned fraction_bits = 20; ///< of an amount before it is divided by shares
  static constexpr unsigned weight_bits = 16;   ///< of a share; accounts have the other four
  static constexpr std::int64_t limit = std::int64_t{1} << 61; ///< of the level and of a deficit

  static bool is_active(const fair_client& c) noexcept { return c.deficit_hook.is_linked(); }

  static std::uint64_t share_of(const fair_client& c) noexcept {
    assert(c.facts().weight > 0);
    constexpr double one = std::uint64_t{1} << weight_bits;
    return static_cast<std::uint64_t>(std::clamp(c.facts().weight * one + 0.5, 1.0, one * one));
  }

  static bool exceeds(std::int64_t deficit, duration threshold, std::uint64_t total,
                      std::size_t clients) noexcept {
    if (threshold <= duration::zero()) return true;
    if (deficit <= 0 || threshold >= longest) return false;
    const auto scaled = static_cast<std::uint64_t>(threshold.count()) << fraction_bits;
    return static_cast<std::uint64_t>(deficit) > scaled / (total / clients);
  }

  /// c, of neither set, has no waiting job: it goes to the indebted or leaves.
  void settle(fair_client& c) noexcept {
    if (c.account.served > level_) {
      indebted_.insert(c);
      return;
    }
    c.account.credit = level_ - c.account.served;
    drop(c);
  }

  void drop(fair_client& c) noexcept {
    total_ -= c.account.share;
    --active_;
  }

  /// Raises the level by amount / total_. Who pays off its debt on the way leaves there, and the
  /// rest is for the others; whoever is served has waiting jobs, so some are always left.
  void share_out(std::uint64_t amount) noexcept {
    carry_ += amount;
    while (!indebted_.empty()) {
      fair_client& next = *indebted_.begin();
      const auto debt = static_cast<std::uint64_t>(next.account.served - level_);
      if (debt > carry_ / total_) break;
      carry_ -= debt * total_;
      level_ = next.account.served;
      indebted_.erase(indebted_.begin());
      settle(next);
    }
    level_ += static_cast<std::int64_t>(carry_ / total_);
    carry_ %= total_;
  }

  void set_back() noexcept {
    for (by_deficit* set : {&waiting_, &indebted_}) {
      by_deficit all;
      all.swap(*set);
      all.clear_and_dispose([this, set](fair_client* c) {
        c->account.served = std::max(c->account.served - level_, -limit);
        set->insert(*c);
      });
    }
    level_ = 0;
  }

  by_deficit waiting_;
  by_deficit indebted_;     ///< active without a waiting job
  std::uint64_t total_ = 0; ///< shares of both
  std::size_t active_ = 0;  ///< number of both
  std::uint64_t carry_ = 0; ///< amount not yet shared out
  std::int64_t level_ = 0;  ///< an active client's deficit is the level less what it was served
};

} // namespace gsched
