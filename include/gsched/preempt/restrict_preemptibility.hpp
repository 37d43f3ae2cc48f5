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

/// An operation whose blocks must run to their end once they have started.
struct preemptibility_restriction {
  std::size_t operation = 0;
  std::string why{}; ///< one line: "operation 3, relu: overwrites its input, 64 bytes at 0x7f00"
};

/// Whether a block of a kernel that has exited at a checkpoint may start again.
///
/// This requires that the kernel is idempotent by itself. A group is not enough: the operations
/// before it have ended and do not run again. For the same reason the kernel may overwrite bytes
/// that only they have read. Which of its blocks accesses a byte does not matter, because blocks
/// are not ordered.
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

/// Makes kernels preemptible between blocks instead of at checkpoints, if a block that starts again
/// would find its input overwritten; each of their blocks then runs once. Returns these operations,
/// in order.
///
/// `trace` contains the memory accesses of the operations, in their order; `name` is the program's,
/// for errors.
///
/// Errors   bad_option, one line: the trace has another size, or an operation of another kind;
///          nothing is changed.
/// Cost     as find_verdicts.
[[nodiscard]] inline std::vector<preemptibility_restriction>
restrict_preemptibility(std::span<operation> operations, const access_trace& trace,
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
  std::vector<preemptibility_restriction> restricted;
  for (std::size_t k = 0; k < n; ++k) {
    const operation_access& o = trace.operations[k];
    if (operations[k].preemptible != preemptibility::at_checkpoints ||
        may_start_anew(o, verdicts[k]))
      continue;
    operations[k].preemptible = preemptibility::between_blocks;
    restricted.push_back({k, detail::why_not_anew(k, o, verdicts[k])});
  }
  return restricted;
}

} // namespace gsched
