// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched::cuda {

/// The activity records of CUPTI: start and end of the work on the GPU. The first object loads the
/// library, which stays loaded.
///
/// Differs  CUPTI supports one client in a process. Beside another profiler, records may be lost;
///          take() then returns fewer.
/// Errors   no_device if the library is not found or has another version than this toolkit;
///          bad_option for a given library that does not exist; device_failed with CUPTI's message.
/// Threads  one at a time in a process.
class cupti_records {
public:
  /// Records kernels, copies and sets during the object's lifetime.
  explicit cupti_records(const std::string& library);
  ~cupti_records();
  cupti_records(const cupti_records&) = delete;
  cupti_records& operator=(const cupti_records&) = delete;

  struct span {
    std::uint64_t start = 0; ///< nanoseconds
    std::uint64_t end = 0;
  };
  /// All records since the last call, sorted by start. The recorded work must have ended. Waits up
  /// to half a second for `at_least` records.
  [[nodiscard]] std::vector<span> take(std::size_t at_least);
};

} // namespace gsched::cuda
