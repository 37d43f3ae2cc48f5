// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "desk.hpp"
#include "message.hpp"
#include "model.hpp"

#include <gsched/gsched_c.h>

#include <gsched/core/time.hpp>
#include <gsched/job/program.hpp>

#include <cstdint>

namespace gsched::abi {

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
  /// Builds what a program needs on the device, and adds what that costs.
  virtual void load(gsched::program& p, gsched_model_facts& costs) = 0;
  /// Undoes load. False if the device goes on referring to the program, until its own end.
  [[nodiscard]] virtual bool unload(gsched::program& p) = 0;
  /// All of its programs were loaded. It becomes known to submissions.
  virtual std::uint32_t add(model_record& m) = 0;
  /// Undoes add and load; no request of it is active. False as unload.
  [[nodiscard]] virtual bool remove(model_record& m) = 0;
  [[nodiscard]] virtual gsched_statistics statistics() const noexcept = 0;
};

} // namespace gsched::abi
