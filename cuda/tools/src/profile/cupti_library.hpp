// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#if __has_include(<cupti.h>)

#include <cupti.h>

#include <type_traits>

namespace gsched::cuda {

/// Loads CUPTI once; a call after a failure tries again with its own name.
///
/// Errors   no_device if no library is found in the toolkit's usual places, or if its version is
///          not that of this build; bad_option if `named` is not empty and cannot be loaded.
/// Threads  one at a time.
void load_cupti(const std::string& named);

/// A function of the loaded library.
///
/// Errors   no_device, naming the function, if the library has none of that name.
[[nodiscard]] void* cupti_symbol(const char* name);

template <class F>
void find_cupti(const char* name, F& into) {
  into = reinterpret_cast<std::remove_reference_t<F>>(cupti_symbol(name));
}

/// Throws device_failed with CUPTI's words and `doing`, unless the call succeeded.
void check_cupti(CUptiResult r, const char* doing);

} // namespace gsched::cuda

#endif
