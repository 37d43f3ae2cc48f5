// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda/pad_block.cuh>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace gsched::cuda {

/// A list of functions, each known by its place.
template <paddable... F>
struct pad_functions {
  static constexpr std::size_t size = sizeof...(F);
  static constexpr std::size_t bytes = std::max({std::size_t{1}, sizeof(F)...});
  static constexpr std::array<std::uint32_t, size> threads{F::threads...};

  template <class G>
  static constexpr bool has = (std::is_same_v<F, G> || ...);

  /// Of a function that is not there, size.
  template <class G>
  static constexpr std::uint32_t place() noexcept {
    std::uint32_t n = 0;
    static_cast<void>(((std::is_same_v<F, G> || (++n, false)) || ...));
    return n;
  }
};

/// A part of a padded kernel, as the kernel has it among its parameters.
template <std::size_t Bytes>
struct pad_entry {
  alignas(16) unsigned char arguments[Bytes];
  std::uint32_t function = 0; ///< its place in the list of its role
  std::uint32_t blocks = 0;   ///< of this launch
  std::uint32_t first = 0;    ///< index in its own grid of the first of them
  std::uint32_t threads = 0;  ///< of a block
  extent grid{};
};

template <std::size_t Bytes, std::size_t Guests>
struct pad_parameters {
  pad_entry<Bytes> real_time;
  pad_entry<Bytes> guests[Guests];
};

/// Functions that may share a kernel: those of Real as the real-time part, those of Guests beside
/// it, up to MostGuests of them at once. Each of the family's kernels, of which there is one for
/// each occupancy level, has the code of all of them.
template <class Real, class Guests = Real, std::size_t MostGuests = 4>
struct basic_pad_family {
  using real = Real;
  using guests = Guests;
  static constexpr std::size_t most_guests = MostGuests;
  static constexpr std::size_t bytes = std::max(Real::bytes, Guests::bytes);
  using entry = pad_entry<bytes>;
  using parameters = pad_parameters<bytes, MostGuests>;
  static_assert(Real::size > 0 && Guests::size > 0, "a family has functions in both roles");
  static_assert(MostGuests > 0 && sizeof(parameters) <= 4096,
                "the arguments of a padded kernel's parts are 4 KiB at most");
};

/// Functions of which each may be the real-time part as well as a guest.
template <class... F>
using pad_family = basic_pad_family<pad_functions<F...>>;

namespace detail {

/// The most registers a thread at each occupancy level of the block sizes given, rising, each once.
/// Beyond 255 and below 32 a level differs by nothing from the next.
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
  all.add(Family::guests::threads);
  return all;
}

} // namespace detail

} // namespace gsched::cuda
