// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::cuda {

/// What a kernel's own name tells of a parameter.
enum class parameter_kind : std::uint8_t {
  unknown,          ///< a class, for one
  scalar,           ///< no pointer: a number
  pointer,          ///< to what may be written
  pointer_to_const, ///< to what is read
  pointer_to_pointer
};

/// As people read it; the name itself where it is not mangled.
[[nodiscard]] std::string demangled(const std::string& symbol);

/// A kernel's parameters in order, out of its mangled name. None where the name says nothing of
/// them, as those of extern "C".
[[nodiscard]] std::vector<parameter_kind> parameters_of(const std::string& symbol);

} // namespace gsched::cuda
