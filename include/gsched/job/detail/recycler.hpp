// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <memory>
#include <vector>

namespace gsched {

/// A pool of objects that are created once, in chunks, and keep their addresses. An object that is
/// taken has the state in which it was returned. T has a member `T* spare`, which the pool uses
/// while it holds the object.
///
/// Errors   take and reserve may throw std::bad_alloc.
/// Cost     O(1); allocates only when more objects are in use than ever before.
/// Threads  one owner; no locking.
template <class T>
class recycler {
public:
  explicit recycler(std::size_t chunk) noexcept : chunk_(std::max<std::size_t>(chunk, 1)) {}
  recycler(const recycler&) = delete;
  recycler& operator=(const recycler&) = delete;

  [[nodiscard]] T& take() {
    if (spare_ == nullptr) grow(chunk_);
    T& t = *spare_;
    spare_ = t.spare;
    return t;
  }

  void give(T& t) noexcept {
    t.spare = spare_;
    spare_ = &t;
  }

  /// Creates objects until the pool has at least this many.
  void reserve(std::size_t objects) {
    if (objects > made_) grow(objects - made_);
  }

  [[nodiscard]] std::size_t made() const noexcept { return made_; }

private:
  void grow(std::size_t objects) {
    chunks_.push_back(std::make_unique<T[]>(objects));
    for (std::size_t i = objects; i-- > 0;) give(chunks_.back()[i]);
    made_ += objects;
  }

  T* spare_ = nullptr;
  std::size_t chunk_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<T[]>> chunks_;
};

/// A table of objects that never move, by dense index, on pages from a recycler.
///
/// Cost     O(1). The first 8 pages allocate only the pages; later pages also a directory, which
///          the table keeps.
/// Threads  one owner; no locking.
template <class T, std::size_t PageSize>
class paged_table {
public:
  struct page {
    std::array<T, PageSize> items{};
    page* spare = nullptr;
  };

  paged_table() noexcept = default;
  paged_table(const paged_table&) = delete;
  paged_table& operator=(const paged_table&) = delete;
  ~paged_table() { assert(size_ == 0); } // call clear() first: only the owner knows the recycler

  /// The object behind the last one, in the state in which it was returned.
  T& push_back(recycler<page>& pages) {
    if (size_ == pages_ * PageSize) {
      if (pages_ >= first_.size()) more_.reserve(pages_ - first_.size() + 1);
      page& p = pages.take();
      if (pages_ < first_.size())
        first_[pages_] = &p;
      else
        more_.push_back(&p);
      ++pages_;
    }
    return (*this)[size_++];
  }

  void clear(recycler<page>& pages) noexcept {
    for (std::size_t i = 0; i < pages_; ++i) pages.give(at(i));
    more_.clear();
    pages_ = 0;
    size_ = 0;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) const noexcept {
    assert(i < size_);
    return at(i / PageSize).items[i % PageSize];
  }

private:
  [[nodiscard]] page& at(std::size_t i) const noexcept {
    return i < first_.size() ? *first_[i] : *more_[i - first_.size()];
  }

  std::array<page*, 8> first_{};
  std::vector<page*> more_;
  std::size_t pages_ = 0;
  std::size_t size_ = 0;
};

} // namespace gsched
