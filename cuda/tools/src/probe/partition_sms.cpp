// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/partition_sms.hpp>

#include <gsched/core/error.hpp>
#include <gsched/cuda_tools/probe.hpp>

#include "owners.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace gsched::cuda {

std::vector<std::uint32_t> sm_numbers(const partition& of) {
  probe blocks({.kind = probe_kind::sleep}, of.sms(), of.context());
  const stream_owner stream(of.make_stream(0));
  constexpr double long_enough_us = 200; // for the last block to find the others resident
  blocks.start(stream.get(), long_enough_us);
  blocks.wait();
  blocks.stop();
  std::vector<std::uint32_t> found = blocks.sms_used();
  if (found.size() != of.sms().count())
    throw error(errc::device_failed, "partition of " + std::to_string(of.sms().count()) +
                                         " SMs: its blocks ran on " + std::to_string(found.size()) +
                                         ", expected one on each, as on an idle GPU");
  return found;
}

void check_apart(const std::string& what, std::span<const std::uint32_t> one,
                 std::span<const std::uint32_t> other) {
  std::vector<std::uint32_t> common;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(),
                        std::back_inserter(common));
  if (common.empty()) return;
  std::string which;
  constexpr std::size_t shown = 8;
  for (std::size_t i = 0; i < std::min(common.size(), shown); ++i)
    which += (i == 0 ? "" : ", ") + std::to_string(common[i]);
  if (common.size() > shown) which += ", ...";
  throw error(errc::device_failed, what + ": both ran on " + std::to_string(common.size()) +
                                       " SMs (" + which + "), expected SMs of their own");
}

} // namespace gsched::cuda
