// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/preempt/access.hpp>
#include <gsched/preempt/idempotence.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gsched {

/// An operation whose blocks must not leave once they have begun.
struct leaving_restriction {
  std::size_t operation = 0;
  std::string why{}; ///< one line: "operation 3, relu: overwrites its input, 64 bytes at 0x7f00"
};

/// Whether a block of a kernel that has left half-way may start anew.
///
/// That is whether the kernel is idempotent by itself. Together with its group is not enough: the
/// operations before it have ended, and are not run again. For the same reason it may overwrite
/// what only they have read. Which of its blocks reads or writes a byte does not count, as blocks
/// are in no order.
[[nodiscard]] inline bool may_start_anew(const operation_access& o,
                                         const idempotence_verdict& v) noexcept {
  return v.how == restart::alone || o.says == declared::saves;
}

namespace detail {

[[nodiscard]] inline std::string why_not_anew(std::size_t k, const operation_access& o,
                                              const idempotence_verdict& v) {
  std::string line = "operation " + std::to_string(k);
  if (!o.name.empty()) line += ", " + o.name;
  if (!v.own) return line + ": declared to clobber";
  char hex[16] = {};
  char* const end = std::to_chars(hex, hex + sizeof hex, v.own->range.first, 16).ptr;
  return line + (o.assumed ? ": may overwrite its input, " : ": overwrites its input, ") +
         std::to_string(v.own->range.bytes()) + " bytes at 0x" + std::string(hex, end);
}

} // namespace detail

/// Has kernels leave between blocks instead of at checkpoints, where a block that starts anew would
/// find its input overwritten: each of their blocks runs once then. Says which, in order.
///
/// `trace` has what the operations do to memory, in their order; `name` is the program's, for
/// errors.
///
/// Errors   bad_option, one line, for a trace of another size, or with an operation of another
///          kind; then nothing has changed.
/// Cost     as find_verdicts.
[[nodiscard]] inline std::vector<leaving_restriction>
restrict_leaving(std::span<operation> operations, const access_trace& trace,
                 std::string_view name) {
  const auto refuse = [&](const std::string& what) {
    throw error(errc::bad_option, std::string(name) + ": " + what);
  };
  const std::size_t n = operations.size();
  if (trace.operations.size() != n)
    refuse("accesses of " + std::to_string(trace.operations.size()) + " operations, expected " +
           std::to_string(n) + ", one for each operation");
  for (std::size_t k = 0; k < n; ++k)
    if (trace.operations[k].kind != operations[k].kind)
      refuse("operation " + std::to_string(k) + " is of another kind than its accesses" +
             (trace.operations[k].name.empty() ? "" : ", " + trace.operations[k].name) +
             ", expected those of this program");
  const std::vector<idempotence_verdict> verdicts = find_verdicts(trace);
  std::vector<leaving_restriction> restricted;
  for (std::size_t k = 0; k < n; ++k) {
    const operation_access& o = trace.operations[k];
    if (operations[k].leaves != leaving::at_checkpoints || may_start_anew(o, verdicts[k])) continue;
    operations[k].leaves = leaving::between_blocks;
    restricted.push_back({k, detail::why_not_anew(k, o, verdicts[k])});
  }
  return restricted;
}

} // namespace gsched
