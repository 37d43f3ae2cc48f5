// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/detail/age_order.hpp>

#include <boost/intrusive/set.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace gsched {

/// The account of a client in one deficit_ledger, in sixteenths of a nanosecond of device time per
/// unit of weight.
struct fair_account {
  std::int64_t served = 0;   ///< while active: the time that it was served, on the ledger's scale
  std::int64_t credit = 0;   ///< while inactive: its deficit when it left, at least zero
  std::int64_t last_own = 0; ///< the charge of its last pick
  std::int64_t last_shared = 0; ///< what that pick credited to each active client
  std::uint64_t share = 0;      ///< while active: its weight in the ledger's fixed-point format
};

/// What deficit fairness keeps of a client: its account and its waiting jobs by age.
class fair_client {
public:
  [[nodiscard]] const client& facts() const noexcept { return *client_; }
  void bind(const client& c) noexcept { client_ = &c; }

  fair_account account{};
  age_order jobs{};
  set_hook deficit_hook{}; ///< linked while the client is active

private:
  const client* client_ = nullptr;
};

/// The device time that is owed to each client: its deficit. A pick of x ns by client u lowers the
/// deficit of u by x (1 - w_u / W) and raises that of every other active client v by x w_v / W,
/// where W is the total weight of the active clients. A client is active while it has waiting jobs
/// or a negative deficit (a debt).
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (2) and "Efficient
///          implementation". Active clients: Parekh & Gallager, IEEE/ACM ToN 1(3), 1993,
///          doi:10.1109/90.234856 (virtual time).
/// Differs  charges device time where the paper counts kernels: kernels take from one microsecond
///          to a millisecond, and a pick is a segment of many. Compares deficits per unit of
///          weight; otherwise one shift could not serve clients of unequal weight. A client in debt
///          without waiting jobs repays while others are served and then leaves. A client with
///          credit leaves at once, keeps the credit and earns no more. So the deficits of all
///          clients add up to zero, no client sheds a debt by a pause, and none saves up while it
///          is idle.
/// Order    (deficit per weight falling, client id rising).
/// Units    thresholds are device time owed to a client of the mean weight, so scaling all weights
///          changes nothing. Weights range from 2^-16 to 2^16 in steps of 2^-16. Accounts are
///          integers: the remainder of a division is carried to the next shift, and equal calls
///          give equal bits on every machine.
/// Errors   none; picking for a client without waiting jobs is a bug (asserted).
/// Cost     O(log c) of c active clients, amortised over the clients in debt that leave: a shift
///          raises all deficits at once by raising level_, on which the counters are based. O(c log
///          c) once in years of device time, when the level is reset to zero.
/// Threads  one owner; no locking.
class deficit_ledger {
public:
  /// The largest head and threshold, 2^40 ns (18 minutes): larger heads count as this; such a
  /// threshold is never exceeded.
  static constexpr duration longest{std::int64_t{1} << 40};

  deficit_ledger() = default;
  deficit_ledger(const deficit_ledger&) = delete;
  deficit_ledger& operator=(const deficit_ledger&) = delete;
  deficit_ledger(deficit_ledger&&) = default;

  /// Unlinks the clients and their jobs, which may outlive the ledger.
  ~deficit_ledger() {
    const auto release = [](fair_client* c) {
      c->jobs.clear();
      c->account = {};
    };
    waiting_.clear_and_dispose(release);
    indebted_.clear_and_dispose(release);
  }

  /// c receives its first waiting job.
  void enter(fair_client& c) noexcept {
    fair_account& a = c.account;
    if (is_active(c)) { // it was in debt
      indebted_.erase(indebted_.iterator_to(c));
    } else {
      a.served = level_ - a.credit;
      a.share = share_of(c);
      total_ += a.share;
      ++active_;
    }
    waiting_.insert(c);
  }

  /// c has no waiting job any more, and was not served.
  void leave(fair_client& c) noexcept {
    assert(is_active(c));
    waiting_.erase(waiting_.iterator_to(c));
    retire(c);
  }

  /// c has no waiting job, gets no further job, and may be destroyed. Its debt is dropped.
  void forget(fair_client& c) noexcept {
    assert(c.jobs.empty());
    if (is_active(c)) {
      indebted_.erase(indebted_.iterator_to(c));
      drop(c);
    }
    c.account = {};
  }

  /// A waiting job of c is picked, for x of device time. `last`: it was the only one.
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
      a.served = served; // its position does not change
    } else {
      waiting_.erase(place);
      a.served = served;
      if (last)
        retire(c);
      else
        waiting_.insert(c);
    }
    if (level_ > limit) set_back();
  }

  /// The client with waiting jobs that has the largest deficit, or null.
  [[nodiscard]] fair_client* leader() const noexcept {
    return waiting_.empty() ? nullptr : const_cast<fair_client*>(&*waiting_.begin());
  }

  /// The leader if its deficit exceeds the threshold (any deficit does for a threshold of zero), or
  /// null.
  [[nodiscard]] fair_client* overdue(duration threshold) const noexcept {
    fair_client* c = leader();
    if (c != nullptr && exceeds(level_ - c->account.served, threshold, total_, active_)) return c;
    return nullptr;
  }

  /// Whether c, with a waiting job, would be overdue now or with its last pick undone.
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

  /// The deficit of c, in sixteenths of a nanosecond per unit of weight.
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

  /// fraction bits of an amount before it is divided by shares
  static constexpr unsigned fraction_bits = 20;
  /// fraction bits of a share; accounts have the other four
  static constexpr unsigned weight_bits = 16;
  static constexpr std::int64_t limit = std::int64_t{1} << 61; ///< largest level and deficit

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

  /// Moves c, which has no waiting job and is in neither set, to the clients in debt, or
  /// deactivates it.
  void retire(fair_client& c) noexcept {
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

  /// Raises the level by amount / total_. A client that has repaid its debt on the way leaves
  /// there, and the rest goes to the others. The served client has waiting jobs, so the set of
  /// others is never empty.
  void share_out(std::uint64_t amount) noexcept {
    carry_ += amount;
    while (!indebted_.empty()) {
      fair_client& next = *indebted_.begin();
      const auto debt = static_cast<std::uint64_t>(next.account.served - level_);
      if (debt > carry_ / total_) break;
      carry_ -= debt * total_;
      level_ = next.account.served;
      indebted_.erase(indebted_.begin());
      retire(next);
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
  by_deficit indebted_;     ///< active clients without a waiting job
  std::uint64_t total_ = 0; ///< total share of both sets
  std::size_t active_ = 0;  ///< size of both sets
  std::uint64_t carry_ = 0; ///< remainder of earlier divisions
  std::int64_t level_ = 0; ///< the deficit of an active client is the level less what it was served
};

} // namespace gsched
