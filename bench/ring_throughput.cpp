// SPDX-License-Identifier: Apache-2.0
//
// The notification ring: words pushed by one writer, words drained by one reader, and end to end
// from 1, 2 and 4 writers under flow control. For comparison: rings whose reader resets each slot,
// as in the Paella paper, by a store (which can erase an unread word) or by an exchange; a ring
// whose writers exchange; a deque with a lock. Every word is checked; a wrong sum ends the program
// with 1.
#include <gsched/core/sync.hpp>
#include <gsched/notify/flow_control.hpp>
#include <gsched/notify/ring.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace gsched;

bool all_right = true;

notification word(std::uint64_t i) {
  return {notification_type::blocks_started, 16, static_cast<std::uint16_t>(i % 132),
          static_cast<std::uint32_t>(i)};
}

/// The library's ring.
class by_lap {
public:
  explicit by_lap(std::size_t slots) : ring_(slots), writer_(ring_.writer()) {}
  void push(const notification& n) noexcept { ring_writer(writer_).push(n); }
  template <class F>
  std::size_t drain(F&& f) noexcept {
    return ring_.reader().drain(f);
  }

private:
  host_ring ring_;
  ring_writer writer_;
};

enum class reset { reader_stores, reader_exchanges, writer_exchanges };

/// A non-zero slot holds a word; the reader resets it.
template <reset How>
class by_reset {
public:
  explicit by_reset(std::size_t slots) : slots_(slots) {}

  void push(const notification& n) noexcept {
    // relaxed: tickets must be distinct, and publish nothing
    const std::uint64_t t = ticket_.fetch_add(1, sync::relaxed);
    sync::atomic<std::uint64_t>& slot = slots_[t & (slots_.size() - 1)];
    if constexpr (How == reset::writer_exchanges) {
      // [B1] release -> [B1] acquire below: the word. The previous value shows an overrun.
      if (slot.exchange(pack(n), sync::release) != 0) overruns_.fetch_add(1, sync::relaxed);
    } else {
      slot.store(pack(n), sync::release); // [B1] release -> [B1] acquire below: the word
    }
  }

  template <class F>
  std::size_t drain(F&& f) noexcept {
    std::size_t read = 0;
    for (;; ++read) {
      sync::atomic<std::uint64_t>& slot = slots_[next_ & (slots_.size() - 1)];
      std::uint64_t w = slot.load(sync::acquire); // [B1] acquire <- [B1] release above
      if (w == 0) return read;
      if constexpr (How == reset::reader_exchanges) {
        w = slot.exchange(0, sync::acquire); // [B1] acquire <- [B1] release above
      } else {
        slot.store(0, sync::relaxed); // relaxed: flow control orders it before the next word
      }
      ++next_;
      if (const std::optional<notification> n = unpack(w)) f(*n);
    }
  }

private:
  std::vector<sync::atomic<std::uint64_t>> slots_;
  alignas(sync::cache_line) sync::atomic<std::uint64_t> ticket_{0};
  sync::atomic<std::uint64_t> overruns_{0};
  alignas(sync::cache_line) std::uint64_t next_ = 0;
};

class locked_deque {
public:
  explicit locked_deque(std::size_t) {}
  void push(const notification& n) {
    const std::lock_guard hold(mutex_);
    words_.push_back(n);
  }
  template <class F>
  std::size_t drain(F&& f) {
    std::deque<notification> taken;
    {
      const std::lock_guard hold(mutex_);
      taken.swap(words_);
    }
    for (const notification& n : taken) f(n);
    return taken.size();
  }

private:
  std::mutex mutex_;
  std::deque<notification> words_;
};

enum class timed { push, drain };

/// Fills and drains a ring, lap after lap, in one thread; one of the two is timed.
template <class Ring, timed What>
void lap(benchmark::State& state) {
  const auto slots = static_cast<std::size_t>(state.range(0));
  Ring ring(slots);
  std::uint64_t written = 0;
  std::uint64_t expected = 0;
  std::uint64_t sum = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < slots; ++i) expected += static_cast<std::uint32_t>(written + i);
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < slots; ++i) ring.push(word(written++));
    const auto full = std::chrono::steady_clock::now();
    std::uint64_t part = 0;
    const std::size_t n = ring.drain([&](const notification& w) { part += w.instance; });
    benchmark::DoNotOptimize(part);
    const auto end = std::chrono::steady_clock::now();
    const auto time = What == timed::push ? full - begin : end - full;
    state.SetIterationTime(std::chrono::duration<double>(time).count());
    sum += part;
    if (n != slots) all_right = false;
  }
  if (sum != expected) all_right = false;
  state.SetItemsProcessed(static_cast<std::int64_t>(written));
}

/// From several threads to one reader, which grants as many words as fit.
template <class Ring>
void end_to_end(benchmark::State& state) {
  constexpr std::size_t slots = 4096;
  constexpr std::uint32_t batch = 64;
  const auto writers = static_cast<std::size_t>(state.range(0));
  const std::uint64_t each = 1'000'000 / writers / batch * batch;
  struct alignas(sync::cache_line) allowance {
    sync::atomic<std::uint64_t> words{0};
  };
  std::uint64_t total = 0;
  for (auto _ : state) {
    Ring ring(slots);
    flow_control flow(slots);
    std::vector<allowance> allowed(writers);
    std::vector<std::uint64_t> given(writers, 0);
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < writers; ++w)
      threads.emplace_back([&, w] {
        for (std::uint64_t i = 0; i < each; ++i) {
          // [B2] acquire <- [B2] release below: a launch
          while (allowed[w].words.load(sync::acquire) <= i) std::this_thread::yield();
          ring.push(word(i));
        }
      });
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t read = 0;
    std::uint64_t sum = 0;
    while (read < each * writers) {
      for (std::size_t w = 0; w < writers; ++w)
        while (given[w] < each && flow.try_reserve(batch)) {
          given[w] += batch;
          // [B2] release -> [B2] acquire above: a launch
          allowed[w].words.store(given[w], sync::release);
          if (writers > 1) break; // alternately
        }
      const std::size_t n = ring.drain([&](const notification& x) { sum += x.instance; });
      flow.release(n);
      read += n;
      if (n == 0) std::this_thread::yield();
    }
    const auto end = std::chrono::steady_clock::now();
    for (std::thread& t : threads) t.join();
    state.SetIterationTime(std::chrono::duration<double>(end - begin).count());
    if (sum != writers * (each * (each - 1) / 2)) all_right = false;
    total += read;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(total));
}

template <class Ring>
void add(const std::string& ring) {
  const auto row = [&](const char* what, void (*run)(benchmark::State&)) {
    const std::string name = std::string("ring/") + what + "/wall/" + ring;
    return benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime();
  };
  row("push", lap<Ring, timed::push>)->ArgName("capacity")->Arg(4096);
  row("drain", lap<Ring, timed::drain>)->ArgName("capacity")->Arg(1024)->Arg(4096)->Arg(65536);
  auto* all = row("end_to_end", end_to_end<Ring>)->Unit(benchmark::kMillisecond);
  all->ArgName("writers")->Arg(1)->Arg(2)->Arg(4);
}

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add<by_lap>("by_lap");
  add<by_reset<reset::reader_stores>>("reader_stores");
  add<by_reset<reset::reader_exchanges>>("reader_exchanges");
  add<by_reset<reset::writer_exchanges>>("writer_exchanges");
  add<locked_deque>("locked_deque");
  benchmark::RunSpecifiedBenchmarks();
  return all_right ? 0 : 1;
}
