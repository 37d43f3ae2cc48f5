// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/frame_pool.hpp>

#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

namespace gsched {

/// Base of the context that a job's coroutines receive: the pool of their frames, and the coroutine
/// that is resumed next. The loop that resumes the job also resumes nested tasks, so the host's
/// stack does not grow with the number of awaited tasks.
struct task_host {
  frame_pool* frames = nullptr;
  std::coroutine_handle<> next{};
};

/// A coroutine argument, as seen by the allocation of the frame.
struct task_argument {
  task_host* host = nullptr;
  task_argument() noexcept = default;
  template <class A>
    requires(!std::same_as<A, task_argument>)
  explicit(false) task_argument(A& a) noexcept {
    if constexpr (std::derived_from<A, task_host>) host = &a;
  }
};

/// Base of the types that a task may await besides another task. Their await_suspend sets
/// task_host::next.
struct task_awaitable {};

/// The coroutine of a job's body, `task body(job_context&)`, or of a nested task. It starts when it
/// is first resumed or awaited. An exception ends it and is rethrown in the coroutine that awaits
/// it. Destroying a task at a suspension point destroys its locals and the tasks that it awaits.
///
/// Differs  a task awaits only tasks and its context's synchronisation. Another awaitable would
///          resume the task outside the dispatcher's control, so it does not compile.
/// Cost     the frame comes from the pool of the first task_host among the arguments (the object of
///          a functor counts as one); from the global heap if there is none, or with more than six
///          arguments.
/// Threads  the thread of the job's dispatcher.
class [[nodiscard]] task {
public:
  struct promise_type;
  using handle = std::coroutine_handle<promise_type>;

  task() noexcept = default;
  task(task&& o) noexcept : handle_(std::exchange(o.handle_, {})) {}
  task& operator=(task&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~task() {
    if (handle_) handle_.destroy();
  }

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
  [[nodiscard]] bool done() const noexcept { return handle_ && handle_.done(); }
  /// The exception that ended the task, if any.
  [[nodiscard]] std::exception_ptr failure() const noexcept;
  /// Makes it the coroutine that `host` resumes next.
  void start_on(task_host& host) noexcept;

private:
  struct awaiter;
  explicit task(handle h) noexcept : handle_(h) {}
  handle handle_{};
};

/// The promise of the coroutine.
struct task::promise_type {
  task_host* host = nullptr;
  std::coroutine_handle<> parent{};
  std::exception_ptr failure{};

  struct at_end {
    bool await_ready() const noexcept { return false; }
    void await_suspend(handle h) const noexcept { h.promise().host->next = h.promise().parent; }
    void await_resume() const noexcept {}
  };

  task get_return_object() noexcept { return task(handle::from_promise(*this)); }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  at_end final_suspend() const noexcept { return {}; }
  void return_void() const noexcept {}
  void unhandled_exception() noexcept { failure = std::current_exception(); }

  awaiter await_transform(task&& nested) const noexcept;
  template <class A>
    requires std::derived_from<std::remove_cvref_t<A>, task_awaitable>
  A&& await_transform(A&& a) const noexcept {
    return std::forward<A>(a);
  }

  /// No parameter pack: g++ warns that such a template does not match operator delete.
  static void* operator new(std::size_t bytes, task_argument a = {}, task_argument b = {},
                            task_argument c = {}, task_argument d = {}, task_argument e = {},
                            task_argument f = {}) {
    for (task_host* host : {a.host, b.host, c.host, d.host, e.host, f.host})
      if (host != nullptr) return frame_pool::allocate(host->frames, bytes);
    return frame_pool::allocate(nullptr, bytes);
  }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    frame_pool::deallocate(frame, bytes);
  }
};

/// Awaits a nested task.
struct task::awaiter {
  task nested; ///< lives as long as the await; destroyed with the parent's frame

  bool await_ready() const noexcept { return nested.handle_.done(); }
  void await_suspend(handle parent) noexcept {
    nested.handle_.promise().parent = parent;
    nested.start_on(*parent.promise().host);
  }
  void await_resume() const {
    if (nested.handle_.promise().failure) std::rethrow_exception(nested.handle_.promise().failure);
  }
};

inline task::awaiter task::promise_type::await_transform(task&& nested) const noexcept {
  assert(nested);
  return {std::move(nested)};
}

inline std::exception_ptr task::failure() const noexcept {
  return handle_ ? handle_.promise().failure : nullptr;
}

inline void task::start_on(task_host& host) noexcept {
  handle_.promise().host = &host;
  host.next = handle_;
}

} // namespace gsched
