// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/gpu.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched::cuda {

/// A proxy kernel: it can run all functions of a family, with a limited number of registers.
struct pad_proxy {
  const void* function = nullptr; ///< the runtime's handle
  std::uint32_t limit = 0;        ///< registers of a thread at the kernel's occupancy level
  std::uint32_t registers = 0;    ///< registers of a thread that the kernel uses
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0; ///< of a thread: spilled registers and local arrays
};

/// The demand of one function of a padded launch.
struct pad_request {
  static constexpr std::uint32_t unknown = ~std::uint32_t{0};

  std::uint32_t demand = unknown; ///< index into the table's demands
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0; ///< dynamic, of a block
  std::uint32_t registers = 0;    ///< lower bound; the function may need more
};

/// The configuration of a padded launch.
struct pad_launch {
  const pad_proxy* proxy = nullptr;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;  ///< dynamic
  std::uint32_t blocks_per_sm = 0; ///< of this launch
};

/// The proxy kernels of a family on one GPU, and the choice among them. A padded launch uses the
/// proxy with the fewest registers that suffice for all its functions, so that an SM holds as many
/// blocks as possible.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 5.1, doi:10.1145/3768622.
/// Cost     choose O(requests + proxies), about a hundred nanoseconds.
/// Threads  immutable after construction.
class pad_table {
public:
  struct kernel {
    const void* function = nullptr;
    std::uint32_t limit = 0; ///< of registers; 0: none
  };

  /// Makes a table of kernels of this process: queries the runtime for their resources and raises
  /// the proxies' shared memory limit. Each element of `demands` is a kernel of one function in one
  /// role.
  /// Errors   device_failed with CUDA's message.
  [[nodiscard]] static pad_table of_kernels(const gpu& on, std::span<const kernel> proxies,
                                            std::span<const kernel> demands,
                                            std::size_t most_corunners);
  /// `proxies` are sorted by rising limits.
  pad_table(const gpu& on, std::vector<pad_proxy> proxies, std::vector<std::uint32_t> demands,
            std::size_t most_corunners)
      : on_(on), proxies_(std::move(proxies)), demands_(std::move(demands)),
        most_corunners_(most_corunners) {}

  /// The configuration that runs the requests together; empty if there is none, and why_not() says
  /// why in one line. The first request is the real-time one and may have no blocks; the others are
  /// co-runners.
  [[nodiscard]] std::optional<pad_launch>
  choose(std::span<const pad_request> requests) const noexcept;
  [[nodiscard]] std::string why_not(std::span<const pad_request> requests) const;

  [[nodiscard]] std::span<const pad_proxy> proxies() const noexcept { return proxies_; }
  /// Registers of each function in each role, real-time roles first.
  [[nodiscard]] std::span<const std::uint32_t> demands() const noexcept { return demands_; }
  [[nodiscard]] const gpu& on() const noexcept { return on_; }

private:
  struct sum {
    std::uint64_t blocks = 0;
    std::uint32_t threads = 0;
    std::uint32_t registers = 0;
    std::uint32_t shared_bytes = 0;
  };
  [[nodiscard]] bool known(const pad_request& p) const noexcept {
    return p.demand < demands_.size();
  }
  [[nodiscard]] bool are_valid(std::span<const pad_request> requests) const noexcept;
  [[nodiscard]] sum add_up(std::span<const pad_request> requests) const noexcept;
  [[nodiscard]] const pad_proxy* proxy_for(std::uint32_t registers) const noexcept;
  [[nodiscard]] launch_shape shape_of(const pad_proxy& p, const sum& all) const noexcept;

  gpu on_;
  std::vector<pad_proxy> proxies_;
  std::vector<std::uint32_t> demands_;
  std::size_t most_corunners_ = 0;
};

} // namespace gsched::cuda
