// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gsched {

/// Who is owed device time. A pick of x ns by client u lowers u's deficit by x (1 - w_u / W) and
/// raises that of every client v that waits by x w_v / W, where W is the weight of all that wait.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (2) and "Efficient
///          implementation"; Shreedhar & Varghese, SIGCOMM 1995, doi:10.1145/217382.217453.
/// Differs  charges device time where the paper counts kernels, because a kernel takes from one
///          microsecond to a millisecond and a pick is a segment of many. Deficits are compared per
///          unit of weight, for else one shift could not serve clients of unequal weight. Only
///          clients with waiting jobs earn. One without keeps the credit with which it left, and
///          earns nothing; a debt shrinks while others are served, to zero at most. So the credit
///          of a client that comes back is bounded by what it once waited for.
/// Order    (deficit per weight falling, client id rising).
/// Units    thresholds are device time owed to a client of the mean weight, so scaling all weights
///          changes nothing. Accounts are integers: sums are exact, what the shift's division
///          leaves is carried to the next pick, and equal calls give equal bits on every machine.
/// Errors   none; entering twice or charging a client that has not entered is a bug (asserted).
/// Cost     O(log c) of c clients with waiting jobs: the shift raises all of them at once by
/// raising
///          level_, below which their counters stand. O(c log c) once in years of device time, when
///          the level is set back to zero.
/// Threads  one owner; no locking.
class deficit_ledger {
public:
  /// Heads and thresholds beyond 2^40 ns (18 minutes) count as that; such a threshold is never met.
  static constexpr duration longest{std::int64_t{1} << 40};

  deficit_ledger() = default;

  /// c has a waiting job from now on.
  void enter(client& c) noexcept {
    assert(!c.deficit_hook.is_linked());
    fair_account& a = c.account;
    const std::int64_t balance = deficit_of(c);
    a.share = share_of(c);
    a.served = level_ - balance;
    total_ += a.share;
    clients_.insert(c);
  }

  /// c has no waiting job from now on.
  void leave(client& c) noexcept {
    fair_account& a = c.account;
    clients_.erase(clients_.iterator_to(c));
    total_ -= a.share;
    a.balance = level_ - a.served;
    a.left_at = level_;
    a.epoch = epoch_;
  }

  /// One of c's waiting jobs was picked for x of device time.
  void charge(client& c, duration x) noexcept {
    assert(c.deficit_hook.is_linked());
    fair_account& a = c.account;
    const std::uint64_t amount =
        static_cast<std::uint64_t>(std::clamp(x, duration{1}, longest).count()) << fraction_bits;
    carry_ += amount;
    a.last_shared = static_cast<std::int64_t>(carry_ / total_);
    carry_ %= total_;
    a.last_own = static_cast<std::int64_t>(amount / a.share);
    level_ += a.last_shared;
    const auto place = clients_.iterator_to(c);
    const auto next = std::next(place);
    const std::int64_t served = std::min(a.served + a.last_own, level_ + limit);
    if (next == clients_.end() ||
        std::pair(served, c.id) < std::pair(next->account.served, next->id)) {
      a.served = served; // still in its place
    } else {
      clients_.erase(place);
      a.served = served;
      clients_.insert(c);
    }
    if (level_ > limit) set_back();
  }

  /// The client that is owed most; null if none waits.
  [[nodiscard]] client* leader() const noexcept {
    return clients_.empty() ? nullptr : const_cast<client*>(&*clients_.begin());
  }

  /// The leader if its deficit exceeds the threshold (any will do for a threshold of zero), or
  /// null.
  [[nodiscard]] client* overdue(duration threshold) const noexcept {
    client* c = leader();
    if (c == nullptr || !exceeds(level_ - c->account.served, threshold, total_, clients_.size()))
      return nullptr;
    return c;
  }

  /// Whether c would be overdue, had its last pick not been charged and had it a waiting job.
  [[nodiscard]] bool was_overdue(const client& c, duration threshold) const noexcept {
    const fair_account& a = c.account;
    const bool here = c.deficit_hook.is_linked();
    const std::int64_t deficit = deficit_of(c) + a.last_own;
    const client* first = leader();
    if (first != nullptr && first != &c &&
        std::pair(level_ - deficit, c.id) > std::pair(first->account.served, first->id))
      return false;
    const std::int64_t before = std::max(deficit - a.last_shared, deficit - a.last_own);
    return exceeds(before, threshold, here ? total_ : total_ + share_of(c),
                   here ? clients_.size() : clients_.size() + 1);
  }

  /// What c is owed per unit of weight, in sixteenths of a nanosecond.
  [[nodiscard]] std::int64_t deficit_of(const client& c) const noexcept {
    const fair_account& a = c.account;
    if (c.deficit_hook.is_linked()) return level_ - a.served;
    if (a.balance >= 0) return a.balance;
    const std::int64_t risen = a.epoch == epoch_       ? level_ - a.left_at
                               : a.epoch + 1 == epoch_ ? level_ + (last_level_ - a.left_at)
                                                       : limit;
    return std::min(std::int64_t{0}, a.balance + risen);
  }

private:
  struct owed_more {
    bool operator()(const client& a, const client& b) const noexcept {
      return std::pair(a.account.served, a.id) < std::pair(b.account.served, b.id);
    }
  };
  using hook = bi::member_hook<client, set_hook, &client::deficit_hook>;
  using by_deficit = bi::set<client, hook, bi::compare<owed_more>>;

  static constexpr unsigned fraction_bits = 20; ///< of an amount before it is divided by weights
  static constexpr unsigned weight_bits = 16;   ///< of a weight; accounts have the other four
  static constexpr std::int64_t limit = std::int64_t{1} << 61; ///< of level_ and of |deficit|

  static std::uint64_t share_of(const client& c) noexcept {
    assert(c.weight > 0);
    constexpr double one = std::uint64_t{1} << weight_bits;
    return static_cast<std::uint64_t>(std::clamp(c.weight * one + 0.5, 1.0, one * one));
  }

  static bool exceeds(std::int64_t deficit, duration threshold, std::uint64_t total,
                      std::size_t clients) noexcept {
    if (threshold <= duration::zero()) return true;
    if (deficit <= 0 || threshold > longest) return false;
    const std::uint64_t mean = total / clients;
    return static_cast<std::uint64_t>(deficit) >
           (static_cast<std::uint64_t>(threshold.count()) << fraction_bits) / mean;
  }

  void set_back() noexcept {
    by_deficit before;
    before.swap(clients_);
    before.clear_and_dispose([this](client* c) {
      c->account.served = std::max(c->account.served - level_, -limit);
      clients_.insert(*c);
    });
    last_level_ = level_;
    level_ = 0;
    ++epoch_;
  }

  by_deficit clients_;
  std::uint64_t total_ = 0;     ///< shares of all clients with waiting jobs
  std::uint64_t carry_ = 0;     ///< amount not yet shared out, below total_ when it was left
  std::int64_t level_ = 0;      ///< a deficit is the level less served
  std::int64_t last_level_ = 0; ///< the level when it was last set back
  std::uint32_t epoch_ = 0;     ///< how often it was
};

} // namespace gsched
