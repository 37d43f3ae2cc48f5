// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

/// The program serve_partitions as a function, for graphs that were captured in this process.
extern "C" {

/// Device memory of a graph.
struct serve_partitions_buffer {
  void* device;
  uint64_t bytes; ///< of the whole batch
};

/// A captured graph (CUgraph) of a model for a batch, with memory of its own. It and its memory
/// outlive the call.
struct serve_partitions_graph {
  const char* model; ///< as the latency table has it
  void* graph;
  uint32_t gpu; ///< from the first that --device says
  uint32_t batch;
  const struct serve_partitions_buffer* inputs; ///< read with --data alone
  const struct serve_partitions_buffer* outputs;
  uint32_t inputs_count;
  uint32_t outputs_count;
};

/// As the program's main; --device must be a real GPU, and --batches those that each model has
/// graphs of. Returns the exit code; errors are printed on stderr in one line.
__attribute__((visibility("default"))) int
serve_partitions_graphs(int argc, char** argv, const struct serve_partitions_graph* graphs,
                        uint64_t count);
}
