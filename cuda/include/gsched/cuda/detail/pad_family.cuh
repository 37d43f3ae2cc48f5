// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda/colocate/pad_block.cuh>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace gsched::cuda {

/// A list of functions, identified by their index.
template <paddable... F>
struct pad_functions {
  static constexpr std::size_t size = sizeof...(F);
  static constexpr std::size_t bytes = std::max({std::size_t{1}, sizeof(F)...});
  static constexpr std::array<std::uint32_t, size> threads{F::threads...};

  template <class G>
  static constexpr bool has = (std::is_same_v<F, G> || ...);

  /// The index of G; `size` if G is not in the list.
  template <class G>
  static constexpr std::uint32_t place() noexcept {
    std::uint32_t n = 0;
    static_cast<void>(((std::is_same_v<F, G> || (++n, false)) || ...));
    return n;
  }
};

/// One function of a padded launch, as a kernel parameter.
template <std::size_t Bytes>
struct pad_entry {
  alignas(16) unsigned char arguments[Bytes];
  std::uint32_t function = 0; ///< index in the list of its role
  std::uint32_t blocks = 0;   ///< of this launch
  std::uint32_t first = 0;    ///< first of them in the function's grid
  std::uint32_t threads = 0;  ///< of a block
  extent grid{};
};

template <std::size_t Bytes, std::size_t Corunners>
struct pad_parameters {
  pad_entry<Bytes> real_time;
  pad_entry<Bytes> corunners[Corunners];
};

/// Functions that may share a kernel: those of Real in the real-time role, and up to MostCorunners
/// of those of Corunners beside it. The family has one proxy kernel for each occupancy level, and
/// each contains the code of all functions.
template <class Real, class Corunners = Real, std::size_t MostCorunners = 4>
struct basic_pad_family {
  using real = Real;
  using corunners = Corunners;
  static constexpr std::size_t most_corunners = MostCorunners;
  static constexpr std::size_t bytes = std::max(Real::bytes, Corunners::bytes);
  using entry = pad_entry<bytes>;
  using parameters = pad_parameters<bytes, MostCorunners>;
  static_assert(Real::size > 0 && Corunners::size > 0, "a family has functions in both roles");
  static_assert(MostCorunners > 0 && sizeof(parameters) <= 4096,
                "the arguments of a padded kernel's parts are 4 KiB at most");
};

/// A family whose functions can have either role.
template <class... F>
using pad_family = basic_pad_family<pad_functions<F...>>;

namespace detail {

/// The register limits of the occupancy levels for the given block sizes: rising, without
/// duplicates. Limits above 255 and below 32 do not distinguish levels.
struct pad_levels {
  std::array<std::uint32_t, 32> registers{};
  std::size_t size = 0;

  template <std::size_t N>
  constexpr void add(const std::array<std::uint32_t, N>& threads) noexcept {
    constexpr std::uint32_t of_an_sm = 65536, resident = 2048, unit = 8, least = 32;
    for (const std::uint32_t t : threads) {
      const std::uint32_t block = std::max(t, 128u);
      for (std::uint32_t level = 1; level * block <= resident; ++level) {
        const std::uint32_t room = of_an_sm / (level * block) / unit * unit;
        const std::uint32_t most = std::min(room, 255u);
        if (most < least) break;
        const auto end = registers.begin() + size;
        if (std::find(registers.begin(), end, most) == end) registers[size++] = most;
      }
    }
    std::sort(registers.begin(), registers.begin() + size);
  }
};

template <class Family>
constexpr pad_levels levels_of_family() noexcept {
  pad_levels all;
  all.add(Family::real::threads);
  all.add(Family::corunners::threads);
  return all;
}

} // namespace detail

} // namespace gsched::cuda
