// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace common {

/// A graph with the memory that its kernels use.
class held_graph {
public:
  virtual ~held_graph() = default;
  [[nodiscard]] virtual CUgraph get() const noexcept = 0;
};

/// The names that built_in_graph() accepts.
[[nodiscard]] const std::vector<std::string>& built_in_names();

/// Captures a built-in graph: `saxpy`, a chain of kernels between two copies; `sort`, a sort and a
/// sum by CUB; or `ticks`, 300 kernels of one thread that spins for 2 us, which take nothing of the
/// GPU but their starts.
[[nodiscard]] std::unique_ptr<held_graph> built_in_graph(const std::string& name,
                                                         std::size_t elements);

/// The stand-ins of a profile.
[[nodiscard]] std::unique_ptr<held_graph> stand_in_graph(const std::filesystem::path& file);

} // namespace common
