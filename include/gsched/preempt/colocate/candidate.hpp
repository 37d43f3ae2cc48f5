// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace gsched {

/// One implementation of a kernel, with the properties that padding uses.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, sections 5.1 to 5.3: what its offline
///          profiler measures.
/// Units    kernel_time is that of all blocks, alone on all SMs of the device; block_time is that
///          of one block. The others are counts and bytes, for one thread or one block as named.
struct kernel_variant {
  duration kernel_time{};
  duration block_time{};
  std::uint32_t registers_per_thread = 0;
  std::uint32_t shared_bytes = 0; ///< bytes a block, static and dynamic
  std::uint32_t threads_per_block = 0;
  std::uint32_t blocks = 0;
  std::uint32_t level = 0; ///< occupancy level: blocks of it that an SM holds, as level_of()
  /// index of its function in its family: a case of the proxy kernel's `switch`
  std::uint32_t function = 0;

  bool operator==(const kernel_variant&) const noexcept = default;
};

static_assert(std::is_trivially_copyable_v<kernel_variant>);

namespace detail {

[[nodiscard]] inline launch_shape shape_of(std::uint32_t threads, std::uint32_t registers,
                                           std::uint32_t shared) noexcept {
  launch_shape s;
  s.block.x = threads;
  s.registers_per_thread = registers;
  s.dynamic_shared_bytes = shared;
  return s;
}

} // namespace detail

/// The launch shape of a proxy kernel that runs both. A block runs one part, so it needs the
/// maximum of each resource, not the sum.
[[nodiscard]] inline launch_shape proxy_shape(const kernel_variant& a,
                                              const kernel_variant& b) noexcept {
  return detail::shape_of(std::max(a.threads_per_block, b.threads_per_block),
                          std::max(a.registers_per_thread, b.registers_per_thread),
                          std::max(a.shared_bytes, b.shared_bytes));
}

/// The number of blocks of a variant that an SM holds; zero if none.
///
/// `proxy_threads` is the block size of the proxy kernels that run it, 0 for its own. With one
/// block size for all parts, the resources of the SM are taken in proportion to one number of each
/// variant, so the level of a proxy of several parts is exactly their minimum. With different block
/// sizes it is not: 1024 threads with 32 registers and 128 threads with 255 registers have level 2
/// each, and do not fit together.
[[nodiscard]] inline std::uint32_t level_of(const architecture_limits& l, const kernel_variant& k,
                                            std::uint32_t proxy_threads = 0) noexcept {
  return max_blocks_per_sm(l, detail::shape_of(std::max(k.threads_per_block, proxy_threads),
                                               k.registers_per_thread, k.shared_bytes));
}

/// Refuses an invalid variant. `where` begins the message: the name of the kernel.
///
/// Errors   bad_option: no blocks or too many for one grid, no threads, or times of zero or less.
///          does_not_fit: a level of zero, as level_of() returns if no SM holds a block.
inline void check(const kernel_variant& k, const std::string& where) {
  const auto refuse = [&](errc code, const std::string& what) { throw error(code, where + what); };
  constexpr std::uint32_t most = std::numeric_limits<std::int32_t>::max();
  if (k.blocks == 0 || k.blocks > most)
    refuse(errc::bad_option, ": " + std::to_string(k.blocks) + " blocks, expected 1 to 2147483647");
  if (k.threads_per_block == 0)
    refuse(errc::bad_option, ": blocks of 0 threads, expected 1 or more");
  if (k.kernel_time <= duration::zero())
    refuse(errc::bad_option, ": kernel time of " + std::to_string(k.kernel_time.count()) +
                                 " ns, expected more than 0");
  if (k.block_time <= duration::zero())
    refuse(errc::bad_option,
           ": block time of " + std::to_string(k.block_time.count()) + " ns, expected more than 0");
  if (k.level == 0)
    refuse(errc::does_not_fit, ": a block of " + std::to_string(k.threads_per_block) +
                                   " threads, " + std::to_string(k.registers_per_thread) +
                                   " registers each and " + std::to_string(k.shared_bytes) +
                                   " bytes of shared memory, expected one that fits on an SM");
}

/// Refuses two variants that no proxy kernel can run on this kind of SM.
///
/// Errors   does_not_fit, in one line, with the resource that is short.
inline void check_proxy(const architecture_limits& l, const kernel_variant& a,
                        const kernel_variant& b, const std::string& where) {
  const std::string why = why_not_fit(l, proxy_shape(a, b));
  if (!why.empty()) throw error(errc::does_not_fit, where + ": proxy kernel with " + why);
}

/// The number of waves of `blocks` blocks if `at_once` of them fit.
[[nodiscard]] constexpr std::uint32_t waves_of(std::uint32_t blocks,
                                               std::uint64_t at_once) noexcept {
  return static_cast<std::uint32_t>((std::uint64_t{blocks} + at_once - 1) / at_once);
}

/// Sets level, as level_of(), and, if block_time is zero, an estimate of it: the kernel's time
/// divided by its number of waves. The estimate includes the launch, so it is rather too long.
[[nodiscard]] inline kernel_variant completed(kernel_variant k, const architecture_limits& l,
                                              sm_count sms,
                                              std::uint32_t proxy_threads = 0) noexcept {
  k.level = level_of(l, k, proxy_threads);
  if (k.block_time == duration::zero() && k.level > 0 && sms.count() > 0)
    k.block_time =
        k.kernel_time / std::max(waves_of(k.blocks, std::uint64_t{sms.count()} * k.level), 1u);
  return k;
}

} // namespace gsched
