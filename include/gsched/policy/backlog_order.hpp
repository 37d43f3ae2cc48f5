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

/// Waiting jobs by deadline, which also tells how much work is due by a given time.
///
/// Source   Seidel & Aragon, Algorithmica 16, 1996, doi:10.1007/BF01940876 (treap).
/// Differs  a node's priority is a hash of its id, so equal calls build equal trees.
/// Order    (deadline, id) rising.
/// Units    work is the sum of remaining; it must stay below 292 years.
/// Errors   none; inserting a job twice is a bug (asserted).
/// Cost     insert, pop_front, erase, work_until O(log n) expected; the rest O(1). Never allocates.
/// A
///          treap because Boost.Intrusive keeps no sums below its nodes.
/// Threads  one owner; no locking.
class backlog_order {
public:
  backlog_order() = default;
  backlog_order(const backlog_order&) = delete;
  backlog_order& operator=(const backlog_order&) = delete;
  ~backlog_order() {
    while (pop_front() != nullptr) {
    }
  }

  void insert(job& j) noexcept {
    assert(!is_linked(j));
    job** place = &root_;
    while (*place != nullptr && rank(**place) < rank(j)) {
      (*place)->backlog.work += own_work(j);
      place = &side(**place, j);
    }
    std::tie(j.backlog.left, j.backlog.right) = split(*place, j);
    *place = &j;
    sum(j);
    if (first_ == nullptr || is_before(j, *first_)) first_ = &j;
    ++size_;
  }

  void erase(job& j) noexcept {
    assert(is_linked(j));
    job** place = &root_;
    while (*place != &j) {
      (*place)->backlog.work -= own_work(j);
      place = &side(**place, j);
    }
    *place = merge(j.backlog.left, j.backlog.right);
    j.backlog = {};
    --size_;
    if (first_ != &j) return;
    first_ = root_;
    while (first_ != nullptr && first_->backlog.left != nullptr) first_ = first_->backlog.left;
  }

  job* pop_front() noexcept {
    job* const first = first_;
    if (first != nullptr) erase(*first);
    return first;
  }

  [[nodiscard]] job* front() const noexcept { return first_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// The remaining work of all jobs whose deadline is at or before t.
  [[nodiscard]] duration work_until(time_point t) const noexcept {
    duration work{};
    for (const job* j = root_; j != nullptr;) {
      if (j->deadline <= t) {
        work += own_work(*j) + below(j->backlog.left);
        j = j->backlog.right;
      } else {
        j = j->backlog.left;
      }
    }
    return work;
  }

private:
  static bool is_linked(const job& j) noexcept { return j.backlog.work >= duration::zero(); }

  static bool is_before(const job& a, const job& b) noexcept {
    return std::pair(a.deadline, a.id) < std::pair(b.deadline, b.id);
  }

  static duration own_work(const job& j) noexcept { return std::max(j.remaining, duration{}); }
  static duration below(const job* j) noexcept { return j ? j->backlog.work : duration{}; }

  static job*& side(job& parent, const job& j) noexcept {
    return is_before(j, parent) ? parent.backlog.left : parent.backlog.right;
  }

  static void sum(job& j) noexcept {
    j.backlog.work = own_work(j) + below(j.backlog.left) + below(j.backlog.right);
  }

  /// The finaliser of SplitMix64: distinct ids have distinct ranks, spread evenly.
  static std::uint64_t rank(const job& j) noexcept {
    std::uint64_t x = index(j.id) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
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
  job* first_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace gsched
