// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace gsched {

/// What was launched and may not yet be submitted, for those who launch themselves and not through
/// jobs. It lets go of as much as may be queued ahead of the device, and is emptied in one step;
/// what it held is destroyed later, by whoever collects.
///
/// Source   the virtual host queue and asynchronous reclamation: Han et al., ACM TOCS 44(1), 2025,
///          sections 4.2 and 4.6, doi:10.1145/3768622.
/// Order    first in, first out.
/// Errors   try_push declines when `capacity` items wait. It may throw std::bad_alloc.
/// Cost     try_push, try_pop, ended and reset O(1); collect O(what was dropped). An allocation
/// only
///          when more items wait, or were dropped and not collected, than ever before.
/// Threads  one owner; collect may be called by one other thread at the same time.
template <class Item>
class host_queue {
public:
  /// bound: device time of what was popped and has not ended.
  host_queue(std::size_t capacity, duration bound) : capacity_(capacity), bound_(bound) {}
  host_queue(const host_queue&) = delete;
  host_queue& operator=(const host_queue&) = delete;
  ~host_queue() {
    reset();
    collect();
  }

  /// expected: device time, zero if not known.
  [[nodiscard]] bool try_push(Item item, duration expected = {}) {
    if (size_ == capacity_) return false;
    node& n = take();
    ::new (static_cast<void*>(n.storage)) Item(std::move(item));
    n.expected = expected;
    n.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &n;
    tail_ = &n;
    ++size_;
    return true;
  }

  /// Gives the oldest item to f and forgets it, if it may be submitted: nothing is ahead of the
  /// device, or no more than the bound would be. Its end is told by `ended`.
  template <class F>
  [[nodiscard]] bool try_pop(F f) {
    if (head_ == nullptr || (ahead_ > 0 && queued_ + head_->expected > bound_)) return false;
    node& n = *head_;
    head_ = n.next;
    if (head_ == nullptr) tail_ = nullptr;
    --size_;
    ++ahead_;
    queued_ += n.expected;
    f(n.item());
    n.item().~Item();
    give(n);
    return true;
  }
  /// One of the popped items has ended.
  void ended(duration expected) noexcept {
    --ahead_;
    queued_ -= expected;
  }
  void set_bound(duration bound) noexcept { bound_ = bound; }

  /// Forgets all that waits; says how much that was.
  std::size_t reset() noexcept {
    if (head_ == nullptr) return 0;
    // Chains are pushed, and taken all at once: no node is looked at by two.
    node* older = dropped_.load(sync::relaxed); // unordered: the exchange below re-reads it
    do {
      tail_->next = older;
    } while (!dropped_.compare_exchange_weak(
        older, head_, sync::release, sync::relaxed)); // [R1] release -> [R1] acquire: the items
    head_ = tail_ = nullptr;
    return std::exchange(size_, 0);
  }

  /// Destroys what was dropped; says how many.
  std::size_t collect() noexcept {
    node* const all = dropped_.exchange(nullptr, sync::acquire); // [R1] acquire <- [R1] in reset
    if (all == nullptr) return 0;
    std::size_t n = 1;
    node* last = all;
    for (last->item().~Item(); last->next != nullptr; ++n) {
      last = last->next;
      last->item().~Item();
    }
    node* older = returned_.load(sync::relaxed); // unordered: the exchange below re-reads it
    do {
      last->next = older;
    } while (!returned_.compare_exchange_weak(
        older, all, sync::release, sync::relaxed)); // [R2] release -> [R2] acquire in take
    return n;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Device time of what is ahead of the device.
  [[nodiscard]] duration queued() const noexcept { return queued_; }
  /// Something was dropped that nobody has collected; stale on return.
  [[nodiscard]] bool was_dropped() const noexcept {
    return dropped_.load(sync::relaxed) != nullptr; // unordered: only a hint
  }

private:
  struct node {
    alignas(Item) std::byte storage[sizeof(Item)];
    node* next = nullptr;
    duration expected{};
    Item& item() noexcept { return *std::launder(reinterpret_cast<Item*>(storage)); }
  };

  [[nodiscard]] node& take() {
    if (free_ == nullptr)
      free_ = returned_.exchange(nullptr, sync::acquire); // [R2] acquire <- [R2] in collect
    if (free_ == nullptr) {
      nodes_.push_back(std::make_unique<node[]>(chunk));
      for (std::size_t i = 0; i < chunk; ++i) give(nodes_.back()[i]);
    }
    return *std::exchange(free_, free_->next);
  }
  void give(node& n) noexcept {
    n.next = free_;
    free_ = &n;
  }

  static constexpr std::size_t chunk = 64;

  std::size_t capacity_;
  duration bound_;
  node* head_ = nullptr;
  node* tail_ = nullptr;
  node* free_ = nullptr;
  std::size_t size_ = 0;
  std::size_t ahead_ = 0; ///< popped and not ended
  duration queued_{};
  std::vector<std::unique_ptr<node[]>> nodes_;
  alignas(sync::cache_line) sync::atomic<node*> dropped_{nullptr};
  alignas(sync::cache_line) sync::atomic<node*> returned_{nullptr};
};

/// Collects for a host_queue on a thread of its own, whenever it is told.
template <class Item>
class background_collector {
public:
  /// The queue outlives it.
  explicit background_collector(host_queue<Item>& of) : queue_(of), thread_([this] { run(); }) {}
  background_collector(const background_collector&) = delete;
  background_collector& operator=(const background_collector&) = delete;
  ~background_collector() {
    stop_.store(true, sync::relaxed); // ordered by wake
    wake();
    thread_.join();
  }

  /// After a reset.
  void wake() noexcept {
    woken_.fetch_add(1, sync::release); // [R1] release -> [R1] acquire in run: stop_
    woken_.notify_one();
  }

private:
  void run() noexcept {
    for (std::uint32_t seen = 0;;) {
      static_cast<void>(queue_.collect());
      woken_.wait(seen, sync::acquire);
      seen = woken_.load(sync::acquire);     // [R1] acquire <- [R1] release in wake
      if (stop_.load(sync::relaxed)) return; // ordered by woken_
    }
  }

  host_queue<Item>& queue_;
  sync::atomic<std::uint32_t> woken_{0};
  sync::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace gsched
