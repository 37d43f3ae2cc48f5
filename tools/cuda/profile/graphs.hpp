// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace profile_example {

/// A graph with what its kernels work on.
class held_graph {
public:
  virtual ~held_graph() = default;
  [[nodiscard]] virtual CUgraph get() const noexcept = 0;
};

/// Names that captured() takes.
[[nodiscard]] const std::vector<std::string>& graph_names();

/// Captures one of the built-in graphs: `saxpy`, a chain of kernels with a copy in and a copy out,
/// or `sort`, a sort and a sum by the toolkit's library.
[[nodiscard]] std::unique_ptr<held_graph> captured(const std::string& name, std::size_t elements);

/// A profile's stand-ins.
[[nodiscard]] std::unique_ptr<held_graph> stand_ins(const std::filesystem::path& file);

} // namespace profile_example
