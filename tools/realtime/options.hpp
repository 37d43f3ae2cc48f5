// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/workload.hpp"

#include "common/cli/device_option.hpp"
#include "common/cli/output_options.hpp"
#include "common/run/segment_options.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace realtime {

using namespace common; // what it shares with other programs

/// How requests share the GPU, in the order in which "all" runs the modes.
enum class mode {
  rt_only,          ///< real-time clients alone
  seq,              ///< one request at a time, real-time first
  streams,          ///< a stream for each client
  streams_priority, ///< those of real-time clients with a higher priority
  preempt,          ///< real-time work preempts best-effort work
  preempt_pad       ///< and best-effort work is co-located where real-time work stays fast
};
inline constexpr std::string_view mode_names[] = {"rt_only",          "seq",     "streams",
                                                  "streams_priority", "preempt", "preempt_pad"};
[[nodiscard]] inline std::string name_of(mode m) {
  return std::string(mode_names[static_cast<std::size_t>(m)]);
}

/// The options, checked: names exist, numbers are in range, paths can be used.
struct options : device_choice, outputs, segment_settings {
  std::filesystem::path file; ///< of the workload
  workload work;
  std::vector<std::filesystem::path> profiles; ///< of each client's model
  std::vector<mode> modes;                     ///< none twice
  std::optional<gsched::duration> length;      ///< one of these two is set, or both: what ends ...
  std::optional<std::uint64_t> requests;       ///< ... first ends a run; of real-time clients
  std::uint64_t seed = 0;
  std::size_t threads = 1; ///< on which modes run, where that changes no result

  std::uint32_t lanes = 0; ///< streams that best-effort requests share
  std::uint32_t real_time_lanes = 0;
  double floor = 0;
  std::vector<gsched::sm_count> side;    ///< sizes of partitions to try in preempt_pad
  std::optional<gsched::level_rule> pad; ///< how kernels are padded there; none: they are not
  std::size_t pad_places = 0;
  std::optional<double> pad_slow_down; ///< predicted, of padded kernels: 0.05 allows 5%
  std::filesystem::path law;           ///< which predicts it
  double tolerance = 0;
  std::vector<gsched::sm_count> reserve; ///< sizes of what long best-effort kernels leave
  bool reserve_fixed = false;            ///< its one size is always in force
  gsched::duration long_operation{};
  double reserve_slow_down = 0;
  double reserve_tail = 0;
  double reserve_share = 0;
  std::string before; ///< a command of the shell, for before each mode's run
  gsched::preemptibility leaves = gsched::preemptibility::never; ///< of preempt and preempt_pad
};

/// Reads the command line. Nothing when it asked for help, which is then printed on stdout.
/// Errors   gsched::error with one line: what, where, what was expected.
[[nodiscard]] std::optional<options> parse_options(int argc, const char* const* argv);

} // namespace realtime
