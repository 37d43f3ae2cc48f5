// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/command_line.hpp"
#include "common/cli/output_options.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace common {

/// The device that --device names.
struct device_choice {
  std::string device = "sim:h200";     ///< its name
  std::filesystem::path preset;        ///< of a simulated GPU; empty: the one that ships
  std::optional<int> gpu;              ///< a real one, by the runtime's number
  bool host = false;                   ///< the CPU
  std::optional<std::uint32_t> queues; ///< hardware queues; unset: as many as the device has
};

/// What --device may name in a program.
struct device_kinds {
  bool simulated = true; ///< sim:h200, or sim
  bool preset = true;    ///< FILE.json, a simulated GPU
  bool gpu = true;       ///< cuda:N, or cuda
  bool host = false;     ///< host
};

/// --device and --queues, spelled and checked alike in all programs.
class device_option {
public:
  explicit device_option(device_kinds allowed = {}) : allowed_(allowed) {}

  /// Also --queues, where `queues` is set. An empty `chosen` has no default.
  void declare(command_line& line, bool queues = false, const char* chosen = "sim:h200");
  /// Nothing was given, and there is no default.
  [[nodiscard]] bool empty() const noexcept { return device_.empty(); }
  /// Errors   gsched::error with one line.
  void read(device_choice& into) const;

private:
  [[nodiscard]] std::string expected() const;

  device_kinds allowed_;
  std::string device_, queues_;
};

/// For a GPU in a build without CUDA. Errors   no_device.
[[noreturn]] void no_cuda(const device_choice& which);

/// --threads, on which a program simulates its runs, or makes its plans, in parallel.
class threads_option {
public:
  void declare(command_line& line, const char* help);
  /// As many as this machine runs at once unless given. One on a GPU and where a timeline is
  /// recorded, as runs cannot overlap there; more are refused.
  [[nodiscard]] std::size_t read(const device_choice& on, const outputs& to) const;

private:
  std::string threads_;
};

} // namespace common
