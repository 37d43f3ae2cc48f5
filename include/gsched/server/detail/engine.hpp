// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/program.hpp>
#include <gsched/server/model.hpp>
#include <gsched/server/observer.hpp>
#include <gsched/server/request_source.hpp>
#include <gsched/server/statistics.hpp>

#include <cstdint>
#include <memory>

namespace gsched::detail {

/// What a device has built of a program that is not loaded. It is destroyed before its engine, on
/// any thread: to free it takes about as long as to build it.
class built_program {
public:
  built_program() = default;
  built_program(const built_program&) = delete;
  built_program& operator=(const built_program&) = delete;
  virtual ~built_program() = default;
};

/// The loop of a server's thread, with policy and device erased. Commands call it.
class engine {
public:
  engine() = default;
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  virtual ~engine() = default;

  /// Serves until the server is stopped and all requests have ended.
  virtual void run() = 0;

  virtual std::uint32_t add_client(double weight) = 0;
  /// Builds what a program needs on the device, on any thread. Null where load builds it.
  [[nodiscard]] virtual std::unique_ptr<built_program> build(program& p) = 0;
  /// Loads a program, and adds its cost to `costs`.
  virtual void load(program& p, std::unique_ptr<built_program> built, model_facts& costs) = 0;
  struct unloaded {
    bool forgotten = true; ///< else the device refers to the program until its own end
    bool hangs = false;    ///< a kernel of it may never end: its memory must stay
    std::unique_ptr<built_program> built{};
  };
  /// Undoes load.
  [[nodiscard]] virtual unloaded unload(program& p) = 0;
  /// Makes a model known to requests; all of its programs were loaded.
  virtual std::uint32_t add(served_model& m) = 0;
  /// Undoes add; no request of the model is active.
  virtual void remove(served_model& m) = 0;
  /// A source is polled from here on, until it is detached; it outlives that.
  virtual void attach(request_source& s) = 0;
  virtual void detach(request_source& s) noexcept = 0;
  virtual void observe(server_observer* by) noexcept = 0;
  [[nodiscard]] virtual server_statistics statistics() noexcept = 0;
};

} // namespace gsched::detail
