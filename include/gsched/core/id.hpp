// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace gsched {

/// Strong identifiers: values of one type compare and index; types do not convert into one another.
/// Each is dense from zero within its owner, unless its comment says otherwise.

enum class job_id : std::uint64_t {};     ///< rises in order of submission; never reused
enum class client_id : std::uint32_t {};  ///< a tenant
enum class program_id : std::uint32_t {}; ///< a captured graph that a device has loaded
enum class kernel_id : std::uint32_t {};  ///< a distinct kernel function within one program
enum class stream_id : std::uint32_t {};  ///< a virtual stream within one job; 0 is the default
enum class event_id : std::uint32_t {};   ///< an event within one job
enum class lane_id : std::uint32_t {};    ///< a lane of one device
enum class segment_id : std::uint64_t {}; ///< one submission to a device; never reused

inline constexpr program_id no_program{0xffffffffu};
inline constexpr kernel_id no_kernel{0xffffffffu};
inline constexpr event_id no_event{0xffffffffu};

/// The underlying number of an identifier, for indexing and printing.
template <class Id>
  requires std::is_enum_v<Id>
[[nodiscard]] constexpr auto index(Id id) noexcept {
  return static_cast<std::underlying_type_t<Id>>(id);
}

} // namespace gsched
