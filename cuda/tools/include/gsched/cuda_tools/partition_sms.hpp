// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/partition/partitions.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

/// The numbers of the SMs on which a partition's blocks run, rising: a short kernel has a block on
/// each.
/// Errors   device_failed if its blocks ran on more or fewer SMs than the partition has, also where
///          other work had some of them.
/// Cost     a millisecond or so, on idle SMs.
[[nodiscard]] std::vector<std::uint32_t> sm_numbers(const partition& of);

/// Refuses two lists of SM numbers, each rising, that have one in common. `what` names the two.
/// Errors   device_failed.
void check_apart(const std::string& what, std::span<const std::uint32_t> one,
                 std::span<const std::uint32_t> other);

} // namespace gsched::cuda
