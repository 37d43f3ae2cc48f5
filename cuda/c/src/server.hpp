// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.hpp"
#include "ticket.hpp"

#include <gsched/gsched_c.h>

#include <gsched/channel/host.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/server/plan_server.hpp>
#include <gsched/server/server.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gsched::abi {

/// What a plan's report says beyond what its server knows.
struct plan_notes {
  std::string warning{};
  std::function<std::string(const partition_plan&)> beyond_fit{}; ///< unset: nothing
};

/// A server in the terms of gsched_c.h: its structs, codes and microseconds.
///
/// Errors   refusal or gsched::error, as gsched_c.h says for the function of that name.
/// Threads  any.
class server {
public:
  using look_at_memory = std::function<memory_kind(const void*)>;
  /// An event behind what a stream holds, owned by what it returns.
  using mark_stream = std::function<std::shared_ptr<void>(void* stream)>;

  server(std::unique_ptr<gsched::server> serves, look_at_memory look, mark_stream mark = {});
  /// One that serves by plans, models of type `planned`.
  explicit server(std::unique_ptr<plan_server> serves, mark_stream mark = {},
                  plan_notes notes = {});
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Throws gsched::error for GSCHED_DEVICE_FAILED and GSCHED_TIMED_OUT; closed nevertheless.
  void close(gsched_close_how how, std::int64_t timeout_us);

  [[nodiscard]] std::uint32_t add_client(double weight);
  /// `make` reads and measures the graphs, with CUDA, on the calling thread.
  [[nodiscard]] std::uint32_t add_model(std::span<const std::uint32_t> excludes,
                                        const std::function<std::unique_ptr<model>()>& make);
  void remove_model(std::uint32_t model, std::int64_t timeout_us);
  [[nodiscard]] gsched_model_facts facts(std::uint32_t model) const;
  void submit(const gsched_request& r, ticket** out);
  [[nodiscard]] gsched_statistics statistics();
  [[nodiscard]] gsched_plan_report plan_report();
  [[nodiscard]] gsched_plan_model_report plan_model_report(std::uint32_t model);
  /// Throws where none came.
  [[nodiscard]] std::uint32_t collect(ticket** out, std::uint32_t most, std::int64_t timeout_us);

  /// A host of clients in other processes; it ends before this. `how.socket`, `pin` and `unpin` say
  /// where, and how their memory becomes the GPU's.
  [[nodiscard]] std::unique_ptr<channel::host> listen(channel::host_options how);
  /// An empty name is the model's own.
  void offer(channel::host& to, std::uint32_t model, const std::string& name) const;

  /// False if the time was over first. The server may be closed, and gone.
  [[nodiscard]] static bool wait(ticket& t, std::int64_t timeout_us);
  /// Has collect hand out the ticket at its end. False if it has ended already.
  [[nodiscard]] static bool watch(ticket& t) { return gsched::server::watch(t); }
  [[nodiscard]] static gsched_report status(const ticket& t);
  /// False if it has ended already.
  [[nodiscard]] static bool cancel(ticket& t) { return gsched::try_cancel(t); }
  /// Gives a share of it back; in a child of the process that made it, nothing.
  static void release(ticket& t) noexcept;

private:
  /// The bytes of each input and output of a request.
  struct data_shape {
    std::vector<std::uint64_t> inputs, outputs;
  };
  [[nodiscard]] data_shape shape_of(model_id model) const;
  [[nodiscard]] gsched::plan_report report_of_plan();

  std::unique_ptr<gsched::server> serves_;
  plan_server* plan_ = nullptr; ///< serves_, if that serves by plans
  look_at_memory look_;
  mark_stream mark_;
  plan_notes notes_;
};

} // namespace gsched::abi
