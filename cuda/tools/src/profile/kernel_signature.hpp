// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::cuda {

/// What a kernel's mangled name says of a parameter.
enum class parameter_kind : std::uint8_t {
  unknown,          ///< for example a class
  scalar,           ///< a number
  pointer,          ///< may be written through
  pointer_to_const, ///< only read through
  pointer_to_pointer
};

/// The demangled name; the symbol itself if it is not mangled.
[[nodiscard]] std::string demangled(const std::string& symbol);

/// The kinds of a kernel's parameters in order, from its mangled name. Empty if the name does not
/// contain them, as for extern "C".
[[nodiscard]] std::vector<parameter_kind> parameters_of(const std::string& symbol);

} // namespace gsched::cuda
