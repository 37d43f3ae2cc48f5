// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/report.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace instrumentation {

/// How the kernel that is measured tells of its blocks. The library's way is GSCHED_INSTRUMENT; the
/// others are here to compare it with.
enum class way {
  plain,       ///< not at all: the kernel without the macro
  library,     ///< GSCHED_INSTRUMENT
  carved,      ///< that, with a part of L1 asked for as shared memory that holds a full SM's blocks
  by_thread,   ///< the library's, but each thread that exits counts itself
  unordered,   ///< the library's, but ends do not wait for starts: the host would have to sort
  relaxed,     ///< the library's, but exits are counted without order: starts may come after ends
  shared,      ///< not at all, but four bytes of shared memory are declared
  global,      ///< no barrier: threads that exit count in device memory, one counter a block
  end_barrier, ///< a barrier at the end, as in the paper: hangs where threads return early
  fenced,      ///< the library's, with fences where it argues by dependencies, and for all data
};

struct variant {
  std::string_view name;
  way how;
  std::uint32_t group; ///< zero: the report reports nothing
  bool rival;
  unsigned rest_ns = 0; ///< that long the reader leaves the ring alone when it has found nothing
};

inline constexpr std::array variants{
    variant{"plain", way::plain, 0, false},
    variant{"off", way::library, 0, false},
    variant{"every block", way::library, 1, false},
    variant{"groups of 16", way::library, 16, false},
    variant{"off, large carve-out", way::carved, 0, true},
    variant{"every block, large carve-out", way::carved, 1, true},
    variant{"groups of 16, large carve-out", way::carved, 16, true},
    variant{"every block, reader rests 300 ns", way::library, 1, true, 300},
    variant{"groups of 16, reader rests 300 ns", way::library, 16, true, 300},
    variant{"every block, reader rests 2 us", way::library, 1, true, 2000},
    variant{"groups of 16, reader rests 2 us", way::library, 16, true, 2000},
    variant{"plain with shared memory", way::shared, 0, true},
    variant{"off, counted in device memory", way::global, 0, true},
    variant{"off, barrier at the end", way::end_barrier, 0, true},
    variant{"every block, exits by thread", way::by_thread, 1, true},
    variant{"groups of 16, exits by thread", way::by_thread, 16, true},
    variant{"every block, exits relaxed", way::relaxed, 1, true},
    variant{"groups of 16, exits relaxed", way::relaxed, 16, true},
    variant{"groups of 16, unordered", way::unordered, 16, true},
    variant{"every block, counted in device memory", way::global, 1, true},
    variant{"groups of 16, counted in device memory", way::global, 16, true},
    variant{"every block, barrier at the end", way::end_barrier, 1, true},
    variant{"groups of 16, barrier at the end", way::end_barrier, 16, true},
    variant{"every block, fences", way::fenced, 1, true},
    variant{"groups of 16, fences", way::fenced, 16, true},
};

/// Once, before the first launch.
cudaError_t prepare();

/// A kernel whose blocks take that many cycles, zero for none at all. `exits`: a zero for each
/// block.
cudaError_t launch(way how, unsigned blocks, unsigned threads, cudaStream_t stream,
                   const gsched::cuda::report& to, std::uint32_t* exits, std::uint32_t cycles);

} // namespace instrumentation
