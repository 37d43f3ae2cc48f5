// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "desk.hpp"
#include "message.hpp"
#include "model.hpp"

#include <gsched/gsched_c.h>

#include <gsched/core/time.hpp>
#include <gsched/job/program.hpp>

#include <cstdint>
#include <memory>

namespace gsched::abi {

/// What a device has built of a program that is not loaded. It ends before its engine, on any
/// thread: to free it takes about as long as to build it.
class program_parts {
public:
  program_parts() = default;
  program_parts(const program_parts&) = delete;
  program_parts& operator=(const program_parts&) = delete;
  virtual ~program_parts() = default;
};

/// What runs on a server's thread, whatever its policy and device. Commands call it.
class engine {
public:
  engine() = default;
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  virtual ~engine() = default;

  /// Serves until the desk is told to stop and all requests have ended.
  virtual void run() = 0;

  virtual std::uint32_t add_client(double weight) = 0;
  /// Builds what a program needs on the device, on any thread. Null where load does that.
  [[nodiscard]] virtual std::unique_ptr<program_parts> build(gsched::program& p) = 0;
  /// Makes the device know a program, and adds what it costs.
  virtual void load(gsched::program& p, std::unique_ptr<program_parts> built,
                    gsched_model_facts& costs) = 0;
  struct unloaded {
    bool forgotten = true; ///< else the device refers to the program until its own end
    bool hangs = false;    ///< a kernel of it may never end: its memory must stay
    std::unique_ptr<program_parts> parts{};
  };
  /// Undoes load.
  [[nodiscard]] virtual unloaded unload(gsched::program& p) = 0;
  /// All of its programs were loaded. It becomes known to submissions.
  virtual std::uint32_t add(model_record& m) = 0;
  /// Undoes add; no request of it is active.
  virtual void remove(model_record& m) = 0;
  [[nodiscard]] virtual gsched_statistics statistics() const noexcept = 0;
};

} // namespace gsched::abi
