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

/// What the admission of edf keeps of a job.
struct backlog_entry {
  backlog_entry* left = nullptr;
  backlog_entry* right = nullptr;
  job_id id{}; ///< these two are its key
  time_point deadline = no_deadline;
  duration share{-1}; ///< negative: not in the order
  duration on_device{};
  duration own{};
  duration all_shares{}; ///< these three: of its subtree
  duration all_on_device{};
  duration least_slack{};
  duration submitted{};   ///< expected time of its in-flight segments
  duration unfinished{};  ///< `submitted`, and the work not yet dispatched
  time_point entered{};   ///< when it was admitted
  duration ahead{};       ///< work ahead of it at its admission
  duration took{};        ///< its own time, as forecast at its admission
  std::size_t others = 0; ///< active jobs at its admission
  bool promised = false;
  bool active = false; ///< from its admission to its end, wherever it waits
};

/// Jobs by deadline, with the device time that each takes from the others. Answers when a further
/// job would end, and whether it would make a promised job late.
///
/// Source   Seidel & Aragon, Algorithmica 16, 1996, doi:10.1007/BF01940876 (treap).
/// Differs  the priority of a node is a hash of its id, so equal calls build equal trees. Each node
///          holds sums and the least slack of its subtree.
/// Order    (deadline, id) rising.
/// Units    device time; sums must stay below 292 years.
/// Errors   none; inserting a job twice is a bug (asserted).
/// Cost     O(log n) expected for each call. Never allocates. Boost.Intrusive has no trees with
///          sums of subtrees.
/// Threads  one owner; no locking.
class backlog_order {
public:
  /// The effect of one job on the others.
  struct load {
    duration share{}; ///< delay of jobs with later deadlines, in total
    /// delay of jobs with earlier deadlines: submitted work is not taken back
    duration on_device{};
    duration own{};        ///< time to its end if nothing delays it
    bool promised = false; ///< it was admitted to end by its deadline
  };
  /// The situation of a job with a given deadline.
  struct outlook {
    /// shares of jobs with an earlier or equal deadline, and on_device of the others
    duration ahead{};
    /// of promised jobs with a later deadline: the latest time, since the epoch, at which the work
    /// ahead of them may start; duration::max() without such jobs
    duration least_slack;
  };

  backlog_order() = default;
  backlog_order(const backlog_order&) = delete;
  backlog_order& operator=(const backlog_order&) = delete;
  backlog_order(backlog_order&& from) noexcept : root_(std::exchange(from.root_, nullptr)) {}
  ~backlog_order() { clear(root_); }

  [[nodiscard]] static bool holds(const backlog_entry& j) noexcept {
    return j.share >= duration::zero();
  }

  /// Inserts the job, or updates its effect on the others.
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
    duration before{}; // shares of the jobs before the subtree
    duration after{};  // on_device of the jobs behind it
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

  /// The finaliser of SplitMix64: distinct ids have distinct, evenly spread ranks.
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

  /// Updates the sums of j and of all nodes above it.
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

  /// Splits the tree into the nodes before j and those after it.
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
