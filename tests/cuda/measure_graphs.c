/* SPDX-License-Identifier: Apache-2.0 */
/* gsched_measure.h in plain C: its struct, each function by its type, and what is refused before a GPU
 * is looked for. */
#include <gsched/gsched_measure.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* On machines of 64 bits. A change of these is a change of GSCHED_MEASURE_ABI. */
#define CHECK_LAYOUT(field, at)                                                                    \
  typedef char place_of_##field[offsetof(gsched_measure_graph, field) == (at) ? 1 : -1]
CHECK_LAYOUT(size, 0);
CHECK_LAYOUT(batch, 4);
CHECK_LAYOUT(graph, 8);
CHECK_LAYOUT(model, 16);
CHECK_LAYOUT(dtype, 24);
CHECK_LAYOUT(input_bytes, 32);
CHECK_LAYOUT(output_bytes, 40);
typedef char size_of_all[sizeof(gsched_measure_graph) == 48 ? 1 : -1];

static int failures = 0;

static void expect(const char* what, int got, int expected) {
  if (got == expected) return;
  failures += 1;
  printf("FAILED: %s: %d, expected %d\n", what, got, expected);
}

int main(int argc, char** argv) {
  uint32_t (*abi)(void) = gsched_measure_abi;
  int (*options)(int, char**) = gsched_measure_check_options;
  int (*machine)(int, char**) = gsched_measure_check_machine;
  int (*measure)(int, char**, const gsched_measure_graph*, uint64_t) = gsched_measure_graphs;
  char name[] = "measure", latency[] = "latency", out[] = "--out", folder[] = "no_gpu_no_folder",
       help[] = "--help", fft[] = "--fft";
  char *good[] = {name, latency, out, folder, NULL}, *bad[] = {name, latency, fft, NULL},
       *helps[] = {name, help, NULL};
  int captured = 0; /* no graph, but never looked at */
  gsched_measure_graph graphs[2];
  (void)argc;
  (void)argv;

  expect("ABI", (int)abi(), GSCHED_MEASURE_ABI);
  expect("help", options(2, helps), 0);
  expect("good options", options(4, good), 0);
  expect("bad options", options(3, bad), 2);
  expect("bad options of the machine's check", machine(3, bad), 2);
  expect("bad options beside no graph", measure(3, bad, NULL, 0), 2);
  expect("no graph", measure(4, good, NULL, 0), 2);
  expect("graphs that are NULL", measure(4, good, NULL, 1), 2);

  memset(graphs, 0, sizeof graphs);
  graphs[0].size = graphs[1].size = (uint32_t)sizeof graphs[0];
  graphs[0].batch = graphs[1].batch = 8;
  graphs[0].graph = graphs[1].graph = &captured;
  graphs[0].model = graphs[1].model = "net";
  expect("too many", measure(4, good, graphs, (uint64_t)1 << 32), 2);
  graphs[0].size = 40;
  expect("a struct that is too short", measure(4, good, graphs, 1), 2);
  graphs[0].size = (uint32_t)sizeof graphs[0];
  graphs[1].size = 40;
  expect("another size", measure(4, good, graphs, 2), 2);
  graphs[1].size = graphs[0].size;
  graphs[1].graph = NULL;
  expect("no graph of the second", measure(4, good, graphs, 2), 2);
  graphs[1].graph = &captured;
  graphs[1].model = NULL;
  expect("no name", measure(4, good, graphs, 2), 2);
  graphs[1].model = "net";
  graphs[1].batch = 0;
  expect("a batch of 0", measure(4, good, graphs, 2), 2);
  printf("%d failures\n", failures);
  return failures != 0;
}
