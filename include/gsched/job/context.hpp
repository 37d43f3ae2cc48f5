// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/task.hpp>
#include <gsched/job/waitlist.hpp>

#include <cassert>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gsched {

class job_context;

template <class F>
concept job_callable = requires(F& f, job_context& context) {
  { f(context) } -> std::same_as<task>;
};

/// A reference to a job's body: a callable that outlives the jobs that run it. Two words, no
/// allocation.
class job_body {
public:
  template <job_callable F>
    requires(!std::same_as<std::remove_const_t<F>, job_body>)
  explicit(false) job_body(F& f) noexcept
      : callable_(const_cast<std::remove_const_t<F>*>(std::addressof(f))),
        invoke_([](void* p, job_context& c) { return (*static_cast<F*>(p))(c); }) {}
  explicit(false) job_body(task (&f)(job_context&)) noexcept : function_(&f) {}

  task operator()(job_context& context) const {
    return function_ != nullptr ? function_(context) : invoke_(callable_, context);
  }

private:
  void* callable_ = nullptr;
  task (*invoke_)(void*, job_context&) = nullptr;
  task (*function_)(job_context&) = nullptr;
};

/// A job's access to the GPU: streams, events, launches, copies. A synchronous call suspends the
/// job, never a thread.
///
/// Source   Ng, Demoulin, Liu, SOSP'23, section 4.2, doi:10.1145/3600006.3613163.
/// Differs  a body is a stackless coroutine, so a synchronous call is written with co_await.
/// Errors   a bad handle, or a program that was not loaded, throws gsched::error within the body.
///          If the body does not catch it, the job ends as failed.
/// Threads  the thread of the job's dispatcher.
class job_context : public task_host {
public:
  enum class until : std::uint8_t { nothing, device_idle, stream_idle, event_complete };

  /// The awaitable that synchronize and copy return.
  class [[nodiscard]] synchronisation : public task_awaitable {
  public:
    bool await_ready() const noexcept { return context_->holds(*this); }
    void await_suspend(task::handle h) const noexcept {
      // another job's context would never resume this coroutine
      assert(h.promise().host == context_);
      context_->awaited_ = *this;
      context_->next = h;
    }
    void await_resume() const noexcept {}

  private:
    friend class job_context;
    synchronisation(job_context& c, until what, stream_id s = {}, event_id e = {}) noexcept
        : context_(&c), what_(what), stream_(s), event_(e) {}
    job_context* context_;
    until what_;
    stream_id stream_;
    event_id event_;
  };

  job_context(entry_pool& entries, frame_pool& pool,
              gsched::default_stream mode = gsched::default_stream::legacy)
      : task_host{&pool, {}}, list_(entries, mode) {}
  job_context(const job_context&) = delete;
  job_context& operator=(const job_context&) = delete;
  ~job_context() { cancel(); }

  void* user = nullptr; ///< the request's user pointer
  /// instance of its model; unique among running jobs if instances are limited
  std::uint32_t instance = 0;

  // Interface of the body ----------------------------------------------------------------------

  [[nodiscard]] static stream_id default_stream() noexcept { return stream_default; }
  [[nodiscard]] stream_id create_stream(stream_kind kind = stream_kind::blocking) {
    stream_id id{};
    check(list_.create_stream(kind, id), "create_stream", 0);
    return id;
  }
  void destroy_stream(stream_id s) { check(list_.destroy_stream(s), "destroy_stream", index(s)); }
  [[nodiscard]] event_id create_event() { return list_.create_event(); }
  void destroy_event(event_id e) { check(list_.destroy_event(e), "destroy_event", index(e)); }

  void launch(stream_id s, const operation& op) {
    if (!cancelled_) check(list_.launch(s, op), "launch", index(s));
  }
  void launch(stream_id s, const program& graph) {
    if (graph.id() == no_program)
      throw error(errc::bad_handle, "launch: program " + graph.name() +
                                        " is not loaded, expected one that load() was given");
    if (!cancelled_) check(list_.launch(s, graph), "launch", index(s));
  }
  void launch(const operation& op) { launch(default_stream(), op); }
  void launch(const program& graph) { launch(default_stream(), graph); }

  void copy_async(stream_id s, copy_direction direction, byte_count bytes, duration expected = {}) {
    operation op;
    op.kind = operation_kind::memcpy;
    op.direction = direction;
    op.bytes = bytes;
    op.expected = expected;
    launch(s, op);
  }
  void memset_async(stream_id s, byte_count bytes, duration expected = {}) {
    operation op;
    op.kind = operation_kind::memset;
    op.bytes = bytes;
    op.expected = expected;
    launch(s, op);
  }
  /// Like cudaMemcpy: copies in the default stream and suspends the job until the copy has ended.
  synchronisation copy(copy_direction direction, byte_count bytes, duration expected = {}) {
    copy_async(default_stream(), direction, bytes, expected);
    return synchronize(default_stream());
  }

  void record(event_id e, stream_id s = stream_default) {
    if (!cancelled_) check(list_.record(e, s), "record", index(e));
  }
  void wait(stream_id s, event_id e) {
    if (!cancelled_) check(list_.wait(s, e), "wait", index(e));
  }
  void call(stream_id s, host_call function) {
    if (!cancelled_) check(list_.call(s, function), "call", index(s));
  }

  synchronisation synchronize() noexcept { return {*this, until::device_idle}; }
  synchronisation synchronize(stream_id s) {
    if (!list_.has(s)) check(errc::bad_handle, "synchronize", index(s));
    return {*this, until::stream_idle, s};
  }
  synchronisation synchronize(event_id e) {
    if (!list_.has(e)) check(errc::bad_handle, "synchronize", index(e));
    return {*this, until::event_complete, {}, e};
  }

  /// The body promises to launch nothing more, so that the client can be notified early.
  void almost_finished() noexcept { announced_ = true; }
  /// True in destructors that run because the job was cancelled; launches then do nothing.
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

  // Interface of the dispatcher ----------------------------------------------------------------

  [[nodiscard]] waitlist& list() noexcept { return list_; }
  [[nodiscard]] const waitlist& list() const noexcept { return list_; }

  /// Restores the initial state for the next job. Nothing may be in flight on a device.
  void reset(gsched::default_stream mode = gsched::default_stream::legacy) noexcept {
    cancel();
    list_.reset(mode);
    failure_ = nullptr;
    returned_ = announced_ = cancelled_ = false;
  }

  /// Runs the body until it first suspends or ends. An exception of the body is stored.
  void start(job_body body) noexcept {
    assert(!root_ && !running_);
    returned_ = false;
    try {
      static_cast<void>(root_ = body(*this)); // nvcc warns of a discarded value otherwise
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (!root_) { // the body threw, or is an empty task
      returned_ = true;
      return;
    }
    root_.start_on(*this);
    run();
  }

  /// Resumes the body if the event that it awaits has occurred. Returns whether it did.
  bool resume_if_ready() noexcept {
    if (!root_ || running_ || !holds(awaited_)) return false;
    run();
    return true;
  }

  /// Whether a started body has neither returned nor thrown.
  [[nodiscard]] bool suspended() const noexcept { return static_cast<bool>(root_); }
  /// Whether the body has returned or thrown. The job is finished when its waitlist is idle too.
  [[nodiscard]] bool finished() const noexcept { return returned_; }
  [[nodiscard]] std::exception_ptr failure() const noexcept { return failure_; }
  /// Whether the body has called almost_finished(), or has returned.
  [[nodiscard]] bool launches_no_more() const noexcept { return announced_ || returned_; }

  /// Destroys the body where it is suspended. If the body itself is the caller, it is destroyed at
  /// its next suspension. The caller drops the work that it launched.
  void cancel() noexcept {
    if (!root_) return;
    cancelled_ = true;
    if (running_) return;
    static_cast<void>(root_ = task{});
    next = {};
  }

private:
  [[nodiscard]] bool holds(const synchronisation& s) const noexcept {
    switch (s.what_) {
    case until::nothing: return true;
    case until::device_idle: return list_.idle();
    case until::stream_idle: return list_.idle(s.stream_);
    case until::event_complete: return list_.complete(s.event_);
    }
    return true;
  }

  void run() noexcept {
    running_ = true;
    do {
      awaited_.what_ = until::nothing;
      std::exchange(next, {}).resume();
    } while (next && !cancelled_ && holds(awaited_));
    running_ = false;
    if (root_.done()) {
      failure_ = root_.failure();
      returned_ = true;
      static_cast<void>(root_ = task{});
    } else if (cancelled_) {
      cancel();
    }
  }

  static void check(std::error_code e, const char* what, std::uint64_t handle) {
    if (!e) return;
    if (e != errc::bad_handle) throw std::bad_alloc();
    throw error(errc::bad_handle, std::string(what) + ": handle " + std::to_string(handle) +
                                      ", expected a live stream or event of this job");
  }

  waitlist list_;
  task root_{};
  synchronisation awaited_{*this, until::nothing};
  std::exception_ptr failure_{};
  bool running_ = false;
  bool returned_ = false;
  bool announced_ = false;
  bool cancelled_ = false;
};

} // namespace gsched
