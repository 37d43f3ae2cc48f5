// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gsched {

/// Bytes at addresses [first, last) of one address space.
struct byte_range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  [[nodiscard]] constexpr bool empty() const noexcept { return last <= first; }
  [[nodiscard]] constexpr std::uint64_t bytes() const noexcept {
    return empty() ? 0 : last - first;
  }
  bool operator==(const byte_range&) const noexcept = default;
};

/// Accessed bytes, as disjoint ranges that do not touch, by rising address.
///
/// Cost     |, & and - are linear in the ranges of both sides; construction sorts.
/// Threads  a value.
class access_set {
public:
  access_set() = default;
  /// From any ranges: empty ranges are removed; ranges that touch or overlap are merged.
  access_set(std::vector<byte_range> ranges) : ranges_(std::move(ranges)) {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const byte_range& a, const byte_range& b) { return a.first < b.first; });
    std::size_t kept = 0;
    for (const byte_range& r : ranges_) {
      if (r.empty()) continue;
      if (kept > 0 && r.first <= ranges_[kept - 1].last)
        ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, r.last);
      else
        ranges_[kept++] = r;
    }
    ranges_.resize(kept);
  }

  [[nodiscard]] const std::vector<byte_range>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const byte_range& r : ranges_) sum += r.bytes();
    return sum;
  }
  /// Cost     O(log n).
  [[nodiscard]] bool contains(std::uint64_t address) const noexcept {
    const auto beyond = std::partition_point(ranges_.begin(), ranges_.end(),
                                             [&](const auto& r) { return r.last <= address; });
    return beyond != ranges_.end() && beyond->first <= address;
  }

  bool operator==(const access_set&) const noexcept = default;

  [[nodiscard]] friend access_set operator|(const access_set& a, const access_set& b) {
    access_set all;
    all.ranges_.reserve(a.ranges_.size() + b.ranges_.size());
    auto x = a.ranges_.begin();
    auto y = b.ranges_.begin();
    while (x != a.ranges_.end() || y != b.ranges_.end()) {
      const bool from_a = y == b.ranges_.end() || (x != a.ranges_.end() && x->first <= y->first);
      all.append(from_a ? *x++ : *y++);
    }
    return all;
  }

  [[nodiscard]] friend access_set operator&(const access_set& a, const access_set& b) {
    access_set both;
    auto x = a.ranges_.begin();
    auto y = b.ranges_.begin();
    while (x != a.ranges_.end() && y != b.ranges_.end()) {
      const byte_range shared{std::max(x->first, y->first), std::min(x->last, y->last)};
      if (!shared.empty()) both.ranges_.push_back(shared);
      x->last < y->last ? void(++x) : void(++y);
    }
    return both;
  }

  [[nodiscard]] friend access_set operator-(const access_set& a, const access_set& b) {
    access_set rest;
    auto y = b.ranges_.begin();
    for (byte_range left : a.ranges_) {
      while (y != b.ranges_.end() && y->last <= left.first) ++y;
      for (auto z = y; z != b.ranges_.end() && z->first < left.last; y = z++) {
        if (left.first < z->first) rest.ranges_.push_back({left.first, z->first});
        left.first = std::min(z->last, left.last);
      }
      if (!left.empty()) rest.ranges_.push_back(left);
    }
    return rest;
  }

private:
  void append(const byte_range& r) { // r.first is not below that of earlier calls
    if (!ranges_.empty() && r.first <= ranges_.back().last)
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    else
      ranges_.push_back(r);
  }

  std::vector<byte_range> ranges_;
};

} // namespace gsched
