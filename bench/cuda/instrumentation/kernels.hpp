// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/notification_ring.hpp>
#include <gsched/cuda/notify/report.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace instrumentation {

/// How the measured kernel reports its blocks. The library uses GSCHED_INSTRUMENT; the others are
/// for comparison.
enum class way {
  plain,       ///< not at all: the kernel without the macro
  library,     ///< GSCHED_INSTRUMENT
  carved,      ///< the same, with a share of L1 requested as shared memory for a full SM's blocks
  by_warp,     ///< the library's, but those of a warp that exit together are counted at once
  merged,      ///< the library's, but one word counts both the ends and the starts with a ticket
  unordered,   ///< the library's, but ends do not wait for starts: the host would have to sort
  relaxed,     ///< the library's, but exits are counted without order: starts may come after ends
  shared,      ///< not at all, but four bytes of shared memory are declared
  global,      ///< no barrier: threads that exit count in device memory, one counter a block
  end_barrier, ///< a barrier at the end, as in the paper: hangs if threads return early
  fenced,      ///< the library's, with fences instead of dependencies, and for all data
};

struct variant {
  std::string_view name;
  way how;
  std::uint32_t group; ///< zero: the report reports nothing
  bool rival;
  /// The pause of the reader after it found nothing in the ring.
  unsigned rest_ns = gsched::cuda::reader_rest.count();
};

inline constexpr std::array variants{
    variant{"plain", way::plain, 0, false},
    variant{"off", way::library, 0, false},
    variant{"every block", way::library, 1, false},
    variant{"groups of 16", way::library, 16, false},
    variant{"groups of 4", way::library, 4, true},
    variant{"groups of 8", way::library, 8, true},
    variant{"every block, reader rests 300 ns", way::library, 1, true, 300},
    variant{"every block, reader without rest", way::library, 1, true, 0},
    variant{"groups of 16, reader without rest", way::library, 16, true, 0},
    variant{"every block, exits by warp", way::by_warp, 1, true},
    variant{"groups of 16, exits by warp", way::by_warp, 16, true},
    variant{"groups of 16, merged counters", way::merged, 16, true},
    variant{"every block, exits relaxed", way::relaxed, 1, true},
    variant{"groups of 16, exits relaxed", way::relaxed, 16, true},
    variant{"groups of 16, unordered", way::unordered, 16, true},
    variant{"plain with shared memory", way::shared, 0, true},
    variant{"off, large carve-out", way::carved, 0, true},
    variant{"every block, large carve-out", way::carved, 1, true},
    variant{"off, counted in device memory", way::global, 0, true},
    variant{"every block, counted in device memory", way::global, 1, true},
    variant{"groups of 16, counted in device memory", way::global, 16, true},
    variant{"off, barrier at the end", way::end_barrier, 0, true},
    variant{"every block, barrier at the end", way::end_barrier, 1, true},
    variant{"groups of 16, barrier at the end", way::end_barrier, 16, true},
    variant{"every block, fences", way::fenced, 1, true},
    variant{"groups of 16, fences", way::fenced, 16, true},
};

/// The time of each block of a kernel.
struct duration {
  std::uint32_t cycles = 0; ///< zero: not at all
  std::uint32_t nap_ns = 0; ///< sleep between reads of the clock; zero: none
};

/// Once, before the first launch.
cudaError_t prepare();

/// `exits`: a zero for each block.
cudaError_t launch(way how, unsigned blocks, unsigned threads, cudaStream_t stream,
                   const gsched::cuda::report& to, std::uint32_t* exits, const duration& d);

/// For way::merged: initialises the counters of a slot that was just taken.
cudaError_t prepare_merged(const gsched::cuda::report& to);

} // namespace instrumentation
