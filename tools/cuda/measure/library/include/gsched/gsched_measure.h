// SPDX-License-Identifier: Apache-2.0
#ifndef GSCHED_MEASURE_H
#define GSCHED_MEASURE_H

/* The program measure as functions, for graphs that were captured in this process: they write the
 * tables of gsched_plan_options (gsched_c_plan.h), and a machine.json that says on which GPU.
 * In libmeasure_graphs.so; neither CUDA's headers nor another header of gsched is needed.
 *
 *     char* words[] = {"measure", "latency", "--out", "mine", NULL};
 *     const gsched_measure_graph graph = {.size = sizeof graph, .batch = 8, .graph = captured,
 *                                         .model = "net"};
 *     int status = gsched_measure_graphs(4, words, &graph, 1); // mine/latency_batch_partition.csv
 *
 * Words    argc and argv as of main: words[0], a command and options, as `measure --help` has them;
 *          not changed, not kept. The graphs of --models and --adaptor are measured beside those given.
 * Errors   a function returns the exit code of the program, after one line on stderr:
 *            0  all that was asked for is there, or help was printed
 *            1  a failure, or no GPU
 *            2  a wrong option, graph or input file
 *            4  incomplete: what is there is good, but time left some out, or an error did; a note on
 *               stdout says what
 *          Where the GPU hangs the process ends with status 3, as nothing can be freed then. No C++
 *          exception leaves the library.
 * Output   results are printed on stdout, unless --quiet.
 * Structs  begin with `size`, which the caller sets to sizeof of the struct as it knows it. Arrays of
 *          them have the first one's size as stride.
 * Threads  one call at a time in a process. gsched_measure_check_machine and gsched_measure_graphs make
 *          the GPU of --device the calling thread's current one, and set CUDA_DEVICE_MAX_CONNECTIONS
 *          to 32 if it is not set: set it before CUDA starts, or parts of the GPU wait for each
 *          other. Nothing else may use the GPU meanwhile. */

#include <stdint.h>

#define GSCHED_MEASURE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when a function or the meaning of a field changes, not when some are added. */
#define GSCHED_MEASURE_ABI 1

/* GSCHED_MEASURE_ABI of the library: compare it with the header's before anything else. */
GSCHED_MEASURE_API uint32_t gsched_measure_abi(void);

/* A captured graph of a model for a batch. Several of one model and batch are instances of it, each
 * with memory of its own: two can run beside each other, so that pairs have the model beside itself. */
typedef struct gsched_measure_graph {
  uint32_t size;
  uint32_t batch; /* 1 or more */
  /* CUgraph or cudaGraph_t, on the GPU of --device; cloned. It, its kernels' modules and the memory it
   * uses live until the call has returned. */
  void* graph;
  /* For the tables: no blanks, commas, quotes or slashes, and no two models of one name, also beside
   * those of --models and --adaptor. */
  const char* model;
  const char* dtype; /* of the weights, such as "fp16", for profiles; NULL: not known */
  uint64_t input_bytes, output_bytes; /* of the batch, for profiles; 0: not known */
} gsched_measure_graph;

/* Reads the words as gsched_measure_graphs would, and measures nothing: before graphs are captured,
 * which may take long. Needs no GPU. */
GSCHED_MEASURE_API int gsched_measure_check_options(int argc, char** argv);

/* Checks also the GPU, whether it is idle, and whether the folder of --out is of such a GPU. Changes
 * no file. Takes seconds. */
GSCHED_MEASURE_API int gsched_measure_check_machine(int argc, char** argv);

/* Measures, and writes the tables into the folder of --out as it goes. The same call again measures what
 * is missing there. NULL, 0: only the graphs that the words name.
 * Cost     up to --minutes (20); `latency` alone takes seconds for each graph. Each graph is replayed
 *          many times, and what it writes is left as it is then. */
GSCHED_MEASURE_API int gsched_measure_graphs(int argc, char** argv,
                                             const gsched_measure_graph* graphs, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif
