// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

/// When the SMs are done with each kernel of a captured graph.
///
/// A kernel runs, and one with a block for each SM, which needs a whole SM, waits behind it: each
/// of its blocks starts when the last block of the kernel on that SM has ended, and writes the
/// time.
extern "C" {

struct block_ends_row {
  char name[96]; ///< of the kernel, mangled
  uint64_t blocks;
  uint32_t threads;
  uint32_t per_sm;    ///< resident blocks on an SM, by the driver
  uint32_t operation; ///< the node's number
  uint32_t reserved;  ///< 0
  double alone_us;    ///< the kernel's time
  double* ends_us;    ///< for each SM, in order: since the start; medians. The caller's.
};

/// Of the kernels of a CUgraph: at most `most` rows. Returns the number of rows, or -1 with a line
/// on stderr. `sms` is the length of each row's ends_us.
__attribute__((visibility("default"))) int64_t
block_ends(void* graph, uint32_t repeats, struct block_ends_row* rows, uint64_t most, uint32_t sms);

/// The same of kernels of one block an SM, whose blocks take 50 us and up to 10 us more, evenly: so
/// the ends are known.
__attribute__((visibility("default"))) int64_t
block_ends_known(uint32_t repeats, struct block_ends_row* rows, uint64_t most, uint32_t sms);
}
