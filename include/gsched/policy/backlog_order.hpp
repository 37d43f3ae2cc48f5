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

  [[nodiscard]] static bool holds(const job& j) noexcept {
    return j.backlog.share >= duration::zero();
  }

  /// Inserts it, or changes what it means for the others.
  void set(job& j, const load& l) noexcept {
    const bool is_new = !holds(j);
    j.backlog.share = std::max(l.share, duration{});
    j.backlog.on_device = std::max(l.on_device, duration{});
    j.backlog.own = std::max(l.own, duration{});
    j.backlog.promised = l.promised;
    is_new ? insert(j) : sum_path(root_, j);
  }

  void erase(job& j) noexcept {
    assert(holds(j));
    erase(root_, j);
    j.backlog = {};
  }

  [[nodiscard]] outlook at(time_point deadline) const noexcept {
    duration before{}; // shares of the jobs that are before the subtree
    duration after{};  // what is on the device of those behind it
    duration slack = none;
    for (const job* j = root_; j != nullptr;) {
      const backlog_hook& h = j->backlog;
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

  static bool is_before(const job& a, const job& b) noexcept {
    return std::pair(a.deadline, a.id) < std::pair(b.deadline, b.id);
  }

  static duration shares(const job* j) noexcept { return j ? j->backlog.all_shares : duration{}; }
  static duration devices(const job* j) noexcept {
    return j ? j->backlog.all_on_device : duration{};
  }
  static duration least(const job* j) noexcept { return j ? j->backlog.least_slack : none; }
  static duration less(duration slack, duration by) noexcept {
    return slack == none ? none : slack - by;
  }
  static duration own_slack(const job& j) noexcept {
    if (!j.backlog.promised || j.deadline == no_deadline) return none;
    return j.deadline.time_since_epoch() - j.backlog.own;
  }

  static job*& side(job& parent, const job& j) noexcept {
    return is_before(j, parent) ? parent.backlog.left : parent.backlog.right;
  }

  static void sum(job& j) noexcept {
    backlog_hook& h = j.backlog;
    h.all_shares = shares(h.left) + h.share + shares(h.right);
    h.all_on_device = devices(h.left) + h.on_device + devices(h.right);
    const duration here = shares(h.left);
    h.least_slack = std::min({less(least(h.left), h.on_device + devices(h.right)),
                              less(own_slack(j), here + devices(h.right)),
                              less(least(h.right), here + h.share)});
  }

  /// The finaliser of SplitMix64: distinct ids have distinct ranks, spread evenly.
  static std::uint64_t rank(const job& j) noexcept {
    std::uint64_t x = index(j.id) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  void insert(job& j) noexcept {
    job** place = &root_;
    while (*place != nullptr && rank(**place) < rank(j)) place = &side(**place, j);
    std::tie(j.backlog.left, j.backlog.right) = split(*place, j);
    *place = &j;
    sum_path(root_, j);
  }

  /// Sums of j and of all nodes above it.
  static void sum_path(job* tree, const job& j) noexcept {
    if (tree != &j) sum_path(side(*tree, j), j);
    sum(*tree);
  }

  static void erase(job*& tree, job& j) noexcept {
    if (tree == &j) {
      tree = merge(j.backlog.left, j.backlog.right);
      return;
    }
    erase(side(*tree, j), j);
    sum(*tree);
  }

  static void clear(job* tree) noexcept {
    if (tree == nullptr) return;
    clear(tree->backlog.left);
    clear(tree->backlog.right);
    tree->backlog = {};
  }

  /// What of tree goes before j, and what after.
  static std::pair<job*, job*> split(job* tree, const job& j) noexcept {
    if (tree == nullptr) return {nullptr, nullptr};
    const bool goes_before = is_before(*tree, j);
    job*& inner = goes_before ? tree->backlog.right : tree->backlog.left;
    auto parts = split(inner, j);
    inner = goes_before ? parts.first : parts.second;
    sum(*tree);
    (goes_before ? parts.first : parts.second) = tree;
    return parts;
  }

  static job* merge(job* left, job* right) noexcept {
    if (left == nullptr || right == nullptr) return left == nullptr ? right : left;
    if (rank(*left) < rank(*right)) {
      left->backlog.right = merge(left->backlog.right, right);
      sum(*left);
      return left;
    }
    right->backlog.left = merge(left, right->backlog.left);
    sum(*right);
    return right;
  }

  job* root_ = nullptr;
};

} // namespace gsched
