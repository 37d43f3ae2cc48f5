// SPDX-License-Identifier: Apache-2.0
#include "graph/preemption_parameter.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <cstring>

namespace gsched::cuda {

namespace {

std::optional<preemption_parameter> find_among(const std::string& where, CUfunction function,
                                               std::span<void* const> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    check(driver().cuFuncGetParamInfo(function, i, &offset, &size), where.c_str());
    if (size != sizeof(preemption)) continue;
    preemption_parameter found{i, {}};
    std::memcpy(static_cast<void*>(&found.captured), arguments[i], size);
    if (found.captured.mark == preemption::mark_value) return found;
  }
  return std::nullopt;
}

} // namespace

std::optional<preemption_parameter> find_preemption(const std::string& where, CUfunction function,
                                                    std::span<void* const> arguments,
                                                    std::span<const CUlaunchAttribute> attributes,
                                                    std::uint64_t blocks,
                                                    std::uint32_t cluster_blocks) {
  const auto found = find_among(where, function, arguments);
  if (!found || found->captured.preemptible == preemptibility::never) return std::nullopt;
  const auto refuse = [&](const std::string& what) {
    throw error(errc::bad_graph, where + ": a preemptible kernel " + what +
                                     ", expected one whose blocks are independent");
  };
  if (std::any_of(attributes.begin(), attributes.end(), [](const CUlaunchAttribute& a) {
        return a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative != 0;
      }))
    refuse("with a grid barrier (a cooperative launch)");
  if (cluster_blocks > 1) refuse("in clusters of " + std::to_string(cluster_blocks) + " blocks");
  if (blocks > max_preemptible_blocks)
    throw error(errc::bad_graph, where + ": a preemptible kernel of " + std::to_string(blocks) +
                                     " blocks, expected at most " +
                                     std::to_string(max_preemptible_blocks));
  return found;
}

} // namespace gsched::cuda
