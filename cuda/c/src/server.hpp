// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "desk.hpp"
#include "engine.hpp"
#include "model.hpp"
#include "settings.hpp"

#include <gsched/gsched_c.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace gsched::abi {

/// A server as its callers see it: each call is posted to the server's thread, or answered from
/// what that has published.
///
/// Errors   refusal or gsched::error, as gsched_c.h says for the function of that name.
/// Threads  any.
class server {
public:
  using make_engine = std::function<std::unique_ptr<engine>(desk&)>;
  using look_at_memory = std::function<memory_kind(const void*)>;
  /// An event behind what a stream holds, kept by what it returns.
  using mark_stream = std::function<std::shared_ptr<void>(void* stream)>;

  /// Starts the thread, which makes its engine there; throws what that throws.
  server(const settings& how, make_engine make, look_at_memory look, mark_stream mark = {});
  /// Closes, if it was not closed.
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Of GSCHED_OK, GSCHED_DEVICE_FAILED and GSCHED_TIMED_OUT, with the line in `why`.
  [[nodiscard]] gsched_code close(gsched_close_how how, std::int64_t timeout_us, std::string& why);

  [[nodiscard]] std::uint32_t add_client(double weight);
  /// `make` reads and measures the graphs, with CUDA, on the calling thread. It is called after all
  /// else that can refuse the model; what may change meanwhile is checked again afterwards.
  [[nodiscard]] std::uint32_t add_model(std::span<const std::uint32_t> excludes,
                                        const std::function<model_record()>& make);
  /// The memory goes on the calling thread: to free some can mean to wait for the GPU.
  void remove_model(std::uint32_t model, std::int64_t timeout_us);
  [[nodiscard]] gsched_model_facts facts(std::uint32_t model) const;
  /// Writes the ticket, where it is asked for, before it posts the request: a callback may read it
  /// there. If the server is closed in between, that ticket ends and stays until the server's end.
  void submit(const gsched_request& r, ticket** out);
  [[nodiscard]] gsched_statistics statistics();
  /// Throws refusal where none came.
  [[nodiscard]] std::uint32_t collect(ticket** out, std::uint32_t most, std::int64_t timeout_us);

  /// False if the time was over first. The server may be closed, and gone.
  [[nodiscard]] static bool wait(ticket& t, std::int64_t timeout_us);
  /// Has collect hand out the ticket at its end. False if it has ended already.
  [[nodiscard]] static bool watch(ticket& t);
  [[nodiscard]] static gsched_report status(const ticket& t);
  /// False if it has ended already.
  [[nodiscard]] static bool cancel(ticket& t);
  /// Gives a share of it back; in a child of the process that made it, nothing.
  static void release(ticket& t) noexcept;

private:
  struct visit;
  void refuse_own_thread(const char* what) const;
  void refuse_if_gone() const;
  void refuse_unknown(std::uint32_t model) const;
  void refuse_full() const;
  /// Runs it on the server's thread; waits.
  void order(std::function<bool(engine&)> turn);
  [[nodiscard]] bool wait_stopped(std::int64_t deadline_ns) const;

  settings settings_;
  look_at_memory look_;
  mark_stream mark_;
  std::shared_ptr<desk> desk_;
};

} // namespace gsched::abi
