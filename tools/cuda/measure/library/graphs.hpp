// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

/// The program measure as a function, for graphs that were captured in this process.
extern "C" {

/// A captured graph (CUgraph) of a model for a batch. It and its memory outlive the call. Several
/// of one model and batch are instances of it, each with memory of its own.
struct measure_graph {
  const char* model;
  const char* dtype; ///< of the weights, as "fp16"
  void* graph;
  uint64_t input_bytes;
  uint64_t output_bytes;
  uint32_t batch;
  uint32_t reserved; ///< 0
};

/// Reads the options as measure_graphs would, and measures nothing: before graphs are captured.
__attribute__((visibility("default"))) int measure_check_options(int argc, char** argv);

/// Checks also the GPU, whether it is idle, and whether the folder is of such a GPU, as
/// measure_graphs would again: before graphs are captured, which takes long.
__attribute__((visibility("default"))) int measure_check_machine(int argc, char** argv);

/// As the program's main. Returns the exit code, 4 where not all was measured; errors are printed
/// on stderr in one line.
__attribute__((visibility("default"))) int
measure_graphs(int argc, char** argv, const struct measure_graph* graphs, uint64_t count);
}
