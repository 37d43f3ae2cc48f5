// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/job/context.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/task.hpp>
#include <gsched/server/request_record.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// What a model costs, as its device found when it loaded it.
struct model_facts {
  std::uint64_t operations = 0; ///< of an instance, as those below
  std::uint64_t segments = 0;   ///< that can be submitted apart
  duration expected{};          ///< alone on the device
  std::uint32_t instances = 0;
  std::uint64_t device_bytes = 0; ///< of all instances, as those below
  std::uint64_t graphs = 0;
  std::uint64_t nodes = 0;
  duration build_time{};
};

/// A program with memory of its own: one of a model's requests runs on it at a time.
struct model_instance {
  gsched::program* program = nullptr;
  std::shared_ptr<void> keep{}; ///< owns the program; released when nothing uses it any more
};

/// A kind of request: its instances, and what runs as a job for a request. Derive from it for
/// copies of inputs and outputs, or other work around the program.
///
/// Threads  a server's own, except for the constructor and the destructor.
class served_model {
public:
  served_model(std::string called, std::vector<model_instance> runs_on)
      : name(std::move(called)), instances(std::move(runs_on)) {}
  served_model(const served_model&) = delete;
  served_model& operator=(const served_model&) = delete;
  virtual ~served_model() = default;

  /// The body of a request's job, on instance ctx.instance. By default it launches the program.
  virtual task run(job_context& ctx, request_record&) {
    ctx.launch(*instances[ctx.instance].program);
    co_return;
  }
  /// After a job that has finished, before any thread is told of its end.
  virtual void deliver(request_record&) noexcept {}
  /// Hands out all memory that its programs and requests have used; nothing uses it again.
  [[nodiscard]] virtual std::vector<std::shared_ptr<void>> take_memory() {
    std::vector<std::shared_ptr<void>> all;
    for (model_instance& i : instances)
      if (i.keep != nullptr) all.push_back(std::exchange(i.keep, nullptr));
    return all;
  }

  std::string name;
  std::vector<model_instance> instances;
  std::vector<std::uint32_t> excludes{}; ///< models of the server whose requests never overlap its
  bool exclusive = false;                ///< its own requests never overlap
  model_facts facts{};                   ///< written while it is added

  // Written by the server.
  model_id id{};        ///< in the dispatcher
  bool closed = false;  ///< its removal has begun: later requests are refused
  bool removed = false; ///< the dispatcher does not have it any more

  /// The body, as the dispatcher calls it.
  task operator()(job_context& ctx);
};

} // namespace gsched
