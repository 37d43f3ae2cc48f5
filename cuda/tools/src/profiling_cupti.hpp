// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::cuda {

/// What ran on the GPU, as CUPTI's activity records say. The library is looked up when the first
/// one is made, and stays loaded.
///
/// Differs  CUPTI knows one client a process; beside a profiler that uses it too, records may go
///          astray, which take() then lacks.
/// Errors   no_device where the library is not found or not of this toolkit's version; bad_option
///          for a library that is not there; device_failed with CUPTI's words.
/// Threads  one at a time in a process.
class cupti_records {
public:
  /// Kernels, copies and sets are recorded while it lives.
  explicit cupti_records(const std::string& library);
  ~cupti_records();
  cupti_records(const cupti_records&) = delete;
  cupti_records& operator=(const cupti_records&) = delete;

  struct span {
    std::uint64_t start = 0; ///< nanoseconds
    std::uint64_t end = 0;
  };
  /// All since the last call, by start; what they record must have ended. Waits up to half a second
  /// for `at_least` of them.
  [[nodiscard]] std::vector<span> take(std::size_t at_least);
};

} // namespace gsched::cuda
