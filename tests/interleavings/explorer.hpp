// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

/// Explores every interleaving of a few threads that run the library's own code. The headers in
/// `replaced`, which come first on the include path of these tests, lead atomics, futexes and
/// sockets here.
///
/// A thread is a fibre that gives way before each access to memory that is shared. Stores that are
/// not seq_cst wait in a buffer of their thread, in order, as on x86; when one reaches memory is
/// part of the interleaving. seq_cst stores, exchanges and system calls empty the buffer first. A
/// state is what is in shared memory, in buffers and in sockets, and what each thread has read so
/// far; a state that was met before is not explored again, so the search ends though threads loop.
namespace gsched::interleavings {

class explorer {
public:
  /// Kinds of things that are mixed into what a thread has read.
  enum class what : std::uint64_t { load = 1, store, exchange, call, choice };

  [[nodiscard]] static explorer*& current() noexcept {
    static explorer* it = nullptr;
    return it;
  }

  bool weak = false; ///< seq_cst stores and exchanges are buffered too, as if they were release
  std::uint64_t most_states = 20'000'000;

  // What a test asks ---------------------------------------------------------------------------

  /// Calls make() for each interleaving, which calls share(), thread() and, at the end, check().
  /// Returns the first failure, or an empty string.
  std::string explore(const std::function<void(explorer&)>& make,
                      const std::function<void()>& destroy) {
    current() = this;
    stacks_.resize(most_threads);
    do {
      begin();
      make(*this);
      run();
      destroy();
      ++runs;
    } while (failure_.empty() && next());
    current() = nullptr;
    return failure_;
  }
  /// Memory that threads share. Its bytes are part of the state.
  void share(void* at, std::size_t bytes) {
    ranges_.push_back({static_cast<unsigned char*>(at), bytes});
  }
  /// `daemon`: it need not end.
  void thread(bool daemon, std::function<void()> f) {
    threads_.push_back({});
    threads_.back().daemon = daemon;
    threads_.back().body = std::move(f);
  }
  /// What else is part of the state: the numbers that f returns.
  void observe(std::function<std::uint64_t()> f) { observers_.push_back(std::move(f)); }
  void at_end(std::function<std::string()> check) { check_ = std::move(check); }
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }

  std::uint64_t runs = 0;
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

  // What the replaced headers ask ----------------------------------------------------------------

  [[nodiscard]] bool watches(const void* at) const noexcept {
    if (running_ < 0) return false;
    for (const range& r : ranges_)
      if (at >= r.at && at < r.at + r.bytes) return true;
    return false;
  }
  /// Before a thread's access.
  void give_way() {
    me().spun = nullptr;
    swap_out();
  }
  std::uint64_t load(const void* at, std::size_t bytes) {
    // To spin on a word that has not changed is one step.
    if (me().spun != at || seen_by(at, bytes) != me().spun_value) {
      give_way();
      note(what::load, offset(at), seen_by(at, bytes));
    }
    me().spun = at;
    if (at == kept_) me().kept_value = seen_by(at, bytes);
    return me().spun_value = seen_by(at, bytes);
  }
  void store(void* at, std::size_t bytes, std::uint64_t value, bool seq_cst) {
    if (seq_cst && !weak) {
      give_way();
      drain();
      std::memcpy(at, &value, bytes);
    } else {
      me().buffer.push_back({at, bytes, value}); // it is its way to memory that others see
    }
    note(what::store, offset(at), value);
  }
  /// f(old) gives the new value.
  template <class F>
  std::uint64_t exchange(void* at, std::size_t bytes, F f) {
    if (weak) {
      const std::uint64_t old = seen_by(at, bytes);
      me().buffer.push_back({at, bytes, f(old)});
      note(what::exchange, offset(at), old);
      return old;
    }
    give_way();
    drain();
    const std::uint64_t old = seen_by(at, bytes), now = f(old);
    std::memcpy(at, &now, bytes);
    note(what::exchange, offset(at), old);
    return old;
  }
  /// A system call: f() gives what it returns.
  template <class F>
  std::uint64_t call(F f) {
    if (running_ < 0) return f();
    give_way();
    drain();
    const std::uint64_t value = f();
    note(what::call, 0, value);
    return value;
  }
  /// A system call that returns once holds().
  void wait(std::function<bool()> holds) {
    give_way();
    drain();
    if (!holds()) {
      me().waits_for = std::move(holds);
      swap_out();
      me().waits_for = nullptr;
    }
    note(what::call, 1, 0);
  }
  /// Something that may go this way or that, from 0 to n - 1.
  std::uint64_t choose(std::uint64_t n) {
    if (running_ < 0) return 0;
    const std::uint64_t value = decide(n);
    note(what::choice, 0, value);
    return value;
  }
  [[nodiscard]] bool inside() const noexcept { return running_ >= 0; }
  /// Whether the first thread runs.
  [[nodiscard]] bool is_first() const noexcept { return running_ == 0; }
  /// Has last_read tell what the running thread has loaded from there last.
  void keep(const void* at) noexcept { kept_ = at; }
  [[nodiscard]] std::uint64_t last_read() { return me().kept_value; }
  /// The running thread is at the start of a loop, and these numbers are all that it knows.
  void forget_all_but(std::initializer_list<std::uint64_t> known) {
    me().read = 0;
    me().spun = nullptr;
    for (const std::uint64_t k : known) me().read = mix(me().read, k);
  }

private:
  static constexpr std::size_t most_threads = 4;
  static constexpr std::size_t stack_bytes = std::size_t{1} << 18;

  struct range {
    unsigned char* at;
    std::size_t bytes;
  };
  struct buffered {
    void* at;
    std::size_t bytes;
    std::uint64_t value;
  };
  struct fibre {
    std::function<void()> body;
    bool daemon = false;
    bool started = false;
    bool ended = false;
    std::uint64_t read = 0; ///< a hash of all that it has read and written
    std::deque<buffered> buffer;
    std::function<bool()> waits_for;
    const void* spun = nullptr; ///< the word that its last access has read
    std::uint64_t spun_value = 0;
    std::uint64_t kept_value = 0;
    ucontext_t context{};
    jmp_buf at{};
  };
  struct decision {
    std::uint64_t chosen;
    std::uint64_t of;
  };

  fibre& me() { return threads_[static_cast<std::size_t>(running_)]; }

  static std::uint64_t mix(std::uint64_t h, std::uint64_t x) noexcept {
    h ^= x + 0x9e3779b97f4a7c15 + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccd;
    return h ^ (h >> 32);
  }
  void note(what k, std::uint64_t where, std::uint64_t value) {
    me().read = mix(mix(mix(me().read, static_cast<std::uint64_t>(k)), where), value);
  }
  /// The same in every run.
  [[nodiscard]] std::uint64_t offset(const void* at) const noexcept {
    std::uint64_t n = 0;
    for (const range& r : ranges_) {
      if (at >= r.at && at < r.at + r.bytes)
        return n + static_cast<std::uint64_t>(static_cast<const unsigned char*>(at) - r.at);
      n += r.bytes;
    }
    return n;
  }
  /// As the running thread sees it: its own stores first.
  [[nodiscard]] std::uint64_t seen_by(const void* at, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    for (const buffered& b : me().buffer)
      if (b.at == at) value = b.value;
    return value;
  }
  void drain() {
    while (!me().buffer.empty()) flush(me());
  }
  static void flush(fibre& f) {
    const buffered b = f.buffer.front();
    f.buffer.pop_front();
    std::memcpy(b.at, &b.value, b.bytes);
  }

  void begin() {
    ranges_.clear();
    threads_.clear();
    threads_.reserve(most_threads);
    observers_.clear();
    check_ = nullptr;
    depth_ = 0;
    running_ = -1;
  }
  static void enter() {
    explorer& e = *current();
    e.me().body();
    e.me().ended = true;
    e.swap_out(); // for good
  }
  void swap_out() {
    fibre& f = me();
    running_ = -1;
    if (_setjmp(f.at) == 0) _longjmp(main_at_, 1);
  }
  void resume(std::size_t n) {
    fibre& f = threads_[n];
    running_ = static_cast<int>(n);
    if (_setjmp(main_at_) != 0) {
      running_ = -1;
      return;
    }
    // A context to begin with; from then on jumps, which make no system call.
    if (!std::exchange(f.started, true)) {
      ::getcontext(&f.context);
      stacks_[n].resize(stack_bytes);
      f.context.uc_stack.ss_sp = stacks_[n].data();
      f.context.uc_stack.ss_size = stack_bytes;
      f.context.uc_link = nullptr;
      ::makecontext(&f.context, &explorer::enter, 0);
      ::setcontext(&f.context);
    }
    _longjmp(f.at, 1);
  }

  [[nodiscard]] std::uint64_t state() const {
    std::uint64_t h = 1;
    for (const range& r : ranges_)
      for (std::size_t i = 0; i < r.bytes; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, r.at + i, r.bytes - i < 8 ? r.bytes - i : 8);
        h = mix(h, word);
      }
    for (const fibre& f : threads_) {
      h = mix(mix(h, f.read), (f.ended ? 2u : 0u) + (f.waits_for ? 1u : 0u));
      for (const buffered& b : f.buffer) h = mix(mix(h, offset(b.at)), b.value);
      h = mix(h, f.buffer.size());
    }
    for (const auto& o : observers_) h = mix(h, o());
    return h;
  }

  /// The next choice of this run; new ones begin with 0.
  std::uint64_t decide(std::uint64_t n) {
    if (depth_ == decisions_.size()) decisions_.push_back({0, n});
    return decisions_[depth_++].chosen;
  }
  /// Whether there is another run.
  [[nodiscard]] bool next() {
    if (seen_.size() > most_states) {
      fail("more states than expected");
      return false;
    }
    decisions_.resize(depth_);
    while (!decisions_.empty() && decisions_.back().chosen + 1 == decisions_.back().of)
      decisions_.pop_back();
    if (decisions_.empty()) return false;
    ++decisions_.back().chosen;
    return true;
  }

  void run() {
    for (std::size_t n = 0; n < threads_.size(); ++n) resume(n); // to their first access
    for (;;) {
      if (!failure_.empty()) return;
      // A thread as n, and its buffer as most_threads + n.
      std::vector<std::size_t> ready;
      bool all_ended = true;
      for (std::size_t n = 0; n < threads_.size(); ++n) {
        const fibre& f = threads_[n];
        if (!f.ended && (!f.waits_for || f.waits_for())) ready.push_back(n);
        if (!f.buffer.empty()) ready.push_back(most_threads + n);
        all_ended = all_ended && (f.ended || f.daemon);
      }
      if (all_ended || ready.empty()) {
        if (!all_ended) fail("a thread sleeps for ever");
        if (const std::string why = check_ ? check_() : ""; !why.empty()) fail(why);
        return;
      }
      std::size_t pick = 0;
      if (ready.size() > 1) {
        // A state is explored by the first run that meets it.
        const bool fresh = depth_ == decisions_.size();
        if (fresh && !seen_.insert(state()).second) return;
        pick = decide(ready.size());
      }
      const std::size_t n = ready[pick];
      if (n >= most_threads)
        flush(threads_[n - most_threads]);
      else
        resume(n);
    }
  }

  std::vector<range> ranges_;
  std::vector<fibre> threads_;
  std::vector<std::vector<unsigned char>> stacks_;
  std::vector<std::function<std::uint64_t()>> observers_;
  std::function<std::string()> check_;
  std::vector<decision> decisions_;
  std::size_t depth_ = 0;
  std::unordered_set<std::uint64_t> seen_;
  std::string failure_;
  const void* kept_ = nullptr;
  int running_ = -1;
  jmp_buf main_at_{};
};

} // namespace gsched::interleavings
