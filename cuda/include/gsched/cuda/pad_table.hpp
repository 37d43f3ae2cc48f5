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

/// One of the kernels that can run any parts of a family, and how many registers it may use.
struct pad_proxy {
  const void* function = nullptr; ///< as the runtime knows it
  std::uint32_t limit = 0;        ///< the most registers a thread that its occupancy level allows
  std::uint32_t registers = 0;    ///< that it has
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0; ///< a thread: what its functions spill, or have there anyway
};

/// A part of a launch as the choice of a proxy sees it.
struct pad_piece {
  static constexpr std::uint32_t unknown = ~std::uint32_t{0};

  std::uint32_t demand = unknown; ///< which of the table's
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0; ///< dynamic, of a block
  std::uint32_t registers = 0;    ///< at least so many, whatever the function needs
};

/// How parts are launched together.
struct pad_launch {
  const pad_proxy* proxy = nullptr;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;  ///< dynamic
  std::uint32_t blocks_per_sm = 0; ///< of this launch
};

/// What a family's kernels have and its functions take on one GPU, and which kernel runs which
/// parts: the one with the fewest registers that no part exceeds, so that an SM holds as many
/// blocks as it can.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 5.1, doi:10.1145/3768622.
/// Cost     choose O(parts + proxies), about a hundred nanoseconds.
/// Threads  immutable once made.
class pad_table {
public:
  struct kernel {
    const void* function = nullptr;
    std::uint32_t limit = 0; ///< of its registers; 0: none
  };

  /// `demands` are kernels of one function in one role each. Asks the runtime about kernels of this
  /// process, and lets the proxies have shared memory.
  /// Errors   device_failed with CUDA's words.
  [[nodiscard]] static pad_table of_kernels(const gpu& on, std::span<const kernel> proxies,
                                            std::span<const kernel> demands,
                                            std::size_t most_guests);
  /// `proxies` by rising limits.
  pad_table(const gpu& on, std::vector<pad_proxy> proxies, std::vector<std::uint32_t> demands,
            std::size_t most_guests)
      : on_(on), proxies_(std::move(proxies)), demands_(std::move(demands)),
        most_guests_(most_guests) {}

  /// Nothing where they cannot be launched together; why_not says why, in one line. The first piece
  /// is the real-time one, and may have no blocks; the others are guests.
  [[nodiscard]] std::optional<pad_launch> choose(std::span<const pad_piece> pieces) const noexcept;
  [[nodiscard]] std::string why_not(std::span<const pad_piece> pieces) const;

  [[nodiscard]] std::span<const pad_proxy> proxies() const noexcept { return proxies_; }
  /// Registers of each function in each role, real-time ones first.
  [[nodiscard]] std::span<const std::uint32_t> demands() const noexcept { return demands_; }
  [[nodiscard]] const gpu& on() const noexcept { return on_; }

private:
  struct sum {
    std::uint64_t blocks = 0;
    std::uint32_t threads = 0;
    std::uint32_t registers = 0;
    std::uint32_t shared_bytes = 0;
  };
  [[nodiscard]] bool known(const pad_piece& p) const noexcept { return p.demand < demands_.size(); }
  [[nodiscard]] bool sound(std::span<const pad_piece> pieces) const noexcept;
  [[nodiscard]] sum add_up(std::span<const pad_piece> pieces) const noexcept;
  [[nodiscard]] const pad_proxy* proxy_for(std::uint32_t registers) const noexcept;
  [[nodiscard]] launch_shape shape_of(const pad_proxy& p, const sum& all) const noexcept;

  gpu on_;
  std::vector<pad_proxy> proxies_;
  std::vector<std::uint32_t> demands_;
  std::size_t most_guests_ = 0;
};

} // namespace gsched::cuda
