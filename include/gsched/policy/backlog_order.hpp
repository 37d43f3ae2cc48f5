// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace gsched {

/// What edf's admission keeps of a job.
struct backlog_entry {
  backlog_entry* left = nullptr;
  backlog_entry* right = nullptr;
  job_id id{}; ///< these two are its key
  time_point deadline = no_deadline;
  duration share{-1}; ///< below zero while it is in no order
  duration on_device{};
  duration own{};
  duration all_shares{}; ///< these three of its subtree
  duration all_on_device{};
  duration least_slack{};
  duration submitted{};   ///< expected time of its segments in flight
  duration unfinished{};  ///< that, and what is not yet dispatched
  time_point entered{};   ///< when it was admitted ...
  duration ahead{};       ///< ... behind how much work, ...
  duration took{};        ///< ... itself taking how long, as was forecast, ...
  std::size_t others = 0; ///< ... beside how many jobs
  bool promised = false;
  bool active = false; ///< it counts wherever it waits, until it ends
};

/// Jobs by deadline, with the device time that each of them still takes of the others: when a
/// further job would end, and whether it would make a promised job late.
///
/// Source   Seidel & Aragon, Algorithmica 16, 1996, doi:10.1007/BF01940876 (treap).
/// Differs  a node's priority is a hash of its id, so equal calls build equal trees. Each node
/// holds
///          sums and the least slack of its subtree.
/// Order    (deadline, id) rising.
/// Units    device time; sums must stay below 292 years.
/// Errors   none; inserting a job twice is a bug (asserted).
/// Cost     all O(log n) expected. Never allocates. A treap because Boost.Intrusive keeps no sums
///          below its nodes.
/// Threads  one owner; no locking.
class backlog_order {
public:
  /// What one job means for the others.
  struct load {
    duration share{};      ///< by how much it delays jobs with later deadlines, all told
    duration on_device{};  ///< ... and jobs with earlier deadlines: what is submitted stays
    duration own{};        ///< its time to the end if nothing delays it
    bool promised = false; ///< it is to end by its deadline
  };
  /// What a job with some deadline meets.
  struct outlook {
    duration ahead{};     ///< shares of jobs with a deadline at or before it, and what is on the
                          ///< device of the others
    duration least_slack; ///< of promised jobs with a later deadline: the latest time at which all
                          ///< may start that is ahead of them; duration::max() without any
  };

  backlog_order() = default;
  backlog_order(const backlog_order&) = delete;
  backlog_order& operator=(const backlog_order&) = delete;
  ~backlog_order() { clear(root_); }

  [[nodiscard]] static bool holds(const backlog_entry& j) noexcept {
    return j.share >= duration::zero();
  }

  /// Inserts it, or changes what it means for the others.
  void set(backlog_entry& j, const job& of, const load& l) noexcept {
    const bool is_new = !holds(j);
    if (is_new) {
      j.id = of.id;
      j.deadline = of.deadline;
    }
    j.share = std::max(l.share, duration{});
    j.on_device = std::max(l.on_device, duration{});
    j.own = std::max(l.own, duration{});
    j.promised = l.promised;
    is_new ? insert(j) : sum_path(root_, j);
  }

  void erase(backlog_entry& j) noexcept {
    assert(holds(j));
    erase(root_, j);
    j = {};
  }

  [[nodiscard]] outlook at(time_point deadline) const noexcept {
    duration before{}; // shares of the jobs that are before the subtree
    duration after{};  // what is on the device of those behind it
    duration slack = none;
    for (const backlog_entry* j = root_; j != nullptr;) {
      const backlog_entry& h = *j;
      if (j->deadline <= deadline) {
        before += h.share + shares(h.left);
        j = h.right;
        continue;
      }
      const duration here = before + shares(h.left);
      slack = std::min({slack, less(own_slack(*j), here + devices(h.right) + after),
                        less(least(h.right), here + h.share + after)});
      after += h.on_device + devices(h.right);
      j = h.left;
    }
    return {before + after, slack};
  }

private:
  static constexpr duration none = duration::max();

  static bool is_before(const backlog_entry& a, const backlog_entry& b) noexcept {
    return std::pair(a.deadline, a.id) < std::pair(b.deadline, b.id);
  }

  static duration shares(const backlog_entry* j) noexcept { return j ? j->all_shares : duration{}; }
  static duration devices(const backlog_entry* j) noexcept {
    return j ? j->all_on_device : duration{};
  }
  static duration least(const backlog_entry* j) noexcept { return j ? j->least_slack : none; }
  static duration less(duration slack, duration by) noexcept {
    return slack == none ? none : slack - by;
  }
  static duration own_slack(const backlog_entry& j) noexcept {
    if (!j.promised || j.deadline == no_deadline) return none;
    return j.deadline.time_since_epoch() - j.own;
  }

  static backlog_entry*& side(backlog_entry& parent, const backlog_entry& j) noexcept {
    return is_before(j, parent) ? parent.left : parent.right;
  }

  static void sum(backlog_entry& j) noexcept {
    backlog_entry& h = j;
    h.all_shares = shares(h.left) + h.share + shares(h.right);
    h.all_on_device = devices(h.left) + h.on_device + devices(h.right);
    const duration here = shares(h.left);
    h.least_slack = std::min({less(least(h.left), h.on_device + devices(h.right)),
                              less(own_slack(j), here + devices(h.right)),
                              less(least(h.right), here + h.share)});
  }

  /// The finaliser of SplitMix64: distinct ids have distinct ranks, spread evenly.
  static std::uint64_t rank(const backlog_entry& j) noexcept {
    std::uint64_t x = index(j.id) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  void insert(backlog_entry& j) noexcept {
    backlog_entry** place = &root_;
    while (*place != nullptr && rank(**place) < rank(j)) place = &side(**place, j);
    std::tie(j.left, j.right) = split(*place, j);
    *place = &j;
    sum_path(root_, j);
  }

  /// Sums of j and of all nodes above it.
  static void sum_path(backlog_entry* tree, const backlog_entry& j) noexcept {
    if (tree != &j) sum_path(side(*tree, j), j);
    sum(*tree);
  }

  static void erase(backlog_entry*& tree, backlog_entry& j) noexcept {
    if (tree == &j) {
      tree = merge(j.left, j.right);
      return;
    }
    erase(side(*tree, j), j);
    sum(*tree);
  }

  static void clear(backlog_entry* tree) noexcept {
    if (tree == nullptr) return;
    clear(tree->left);
    clear(tree->right);
    *tree = {};
  }

  /// What of tree goes before j, and what after.
  static std::pair<backlog_entry*, backlog_entry*> split(backlog_entry* tree,
                                                         const backlog_entry& j) noexcept {
    if (tree == nullptr) return {nullptr, nullptr};
    const bool goes_before = is_before(*tree, j);
    backlog_entry*& inner = goes_before ? tree->right : tree->left;
    auto parts = split(inner, j);
    inner = goes_before ? parts.first : parts.second;
    sum(*tree);
    (goes_before ? parts.first : parts.second) = tree;
    return parts;
  }

  static backlog_entry* merge(backlog_entry* left, backlog_entry* right) noexcept {
    if (left == nullptr || right == nullptr) return left == nullptr ? right : left;
    if (rank(*left) < rank(*right)) {
      left->right = merge(left->right, right);
      sum(*left);
      return left;
    }
    right->left = merge(left, right->left);
    sum(*right);
    return right;
  }

  backlog_entry* root_ = nullptr;
};

} // namespace gsched
