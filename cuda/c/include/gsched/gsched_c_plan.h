// SPDX-License-Identifier: Apache-2.0
#ifndef GSCHED_C_PLAN_H
#define GSCHED_C_PLAN_H

/* Serving by plans: models on partitions of the SMs of one GPU or several, in batches that are made of
 * the requests of all threads. The partitions follow the measured rates. Included by gsched_c.h.
 *
 * gsched_plan_open gives a server that takes requests as any other: gsched_submit, gsched_wait,
 * gsched_cancel, gsched_status, gsched_watch, gsched_collect, gsched_get_statistics, the channel and
 * gsched_server_close are those of gsched_c.h. What differs:
 *  - its models are those that it was opened with, numbered from 0 in their order; gsched_add_model and
 *    gsched_get_model_facts fail with GSCHED_BAD_ARGUMENT. Client 0 is there from the start.
 *  - gsched_request.inputs and outputs are those of one request. What is in pinned or device memory
 *    the GPU copies by itself; what is in other memory the server's thread copies, and all wait.
 *  - a request that no batch would finish within its model's goal any more ends as GSCHED_REJECTED.
 *  - gsched_cancel has an effect until the request's batch starts; a batch that runs ends with all.
 *  - gsched_submit refuses a deadline of a request's own, and `after`; slo_us of the model counts.
 *  - an error of the GPU ends the service: what was accepted fails with GSCHED_DEVICE_FAILED. */

#include <stdint.h>

typedef struct gsched_plan_options {
  uint32_t size;
  int32_t gpu; /* the runtime's number; 0 */
  /* A CSV file of measured latencies: model,batch,sms,latency_us; gsched_measure.h makes it. Needed. */
  const char* table;
  /* elastic, best, ideal; "best". NAME+share, "best+share": models may also run at the same time on
   * the same SMs, where NAME has no plan or only one on more GPUs or SMs. That needs interference and
   * solo. */
  const char* planner;
  /* How much batches beside each other slow each other: a file of coefficients, as `interference fit
   * --out` writes, and a CSV file of each model's metrics alone. NULL, NULL: not at all. */
  const char* interference;
  const char* solo;
  uint32_t sms;     /* plan with so many of each GPU; 0 is all; 0 */
  uint32_t replans; /* 1: the plan follows the rates; 0: the first one stays; 1 */
  double period_us; /* between two decisions on a plan; 20000000 */
  double headroom;  /* plans are for so many times the rates; 1.2 */
  double clusters;  /* ... and for so many standard deviations more; 1.25 */
  double tolerance; /* a plan stays while no rate rises by more than this part; 0.1 */
  double fall;      /* ... or falls by more than this one; 0.3 */
  /* To each batch of the table, for its launch and its end; 30. Also planned for are the copies of
   * its requests' data, from and to pinned memory, which are timed when the server is opened. */
  double added_us;
  double spin_us;   /* with nothing to do, the thread looks for that long before it sleeps; 50 */
  uint32_t watchdog_ms; /* a batch that shows no progress for that long hangs; at least 1; 10000 */
  uint32_t spare;       /* partitions of earlier plans that are kept; 32 */
  /* 1: a batch starts as soon as its partition is idle and a request waits, which is sooner at low
   * load; 0: it may wait for more requests as long as none is late, which serves more of them; 1 */
  uint32_t at_once;
  /* 1: corrects, by the batches that it serves, how much `solo` says that each model presses on others
   * and suffers from them. Needs interference, solo and replans; 0 */
  uint32_t learns;
  /* A folder of profiles (gsched_profile_graph), NAME_bBATCH.json, for NAME+share: the kernels of
   * these batches, by which models on the same SMs slow each other. Of a model without one, kernels
   * are assumed by its metrics. NULL: of all models; NULL */
  const char* profiles;
  /* Versions of the libraries whose kernels the graphs have, such as "torch=2.11.0,cudnn=91900": files
   * that were measured with others are told in gsched_plan_report.warning. NULL: not compared; NULL */
  const char* libraries;
  /* The GPUs to serve on, the runtime's numbers, each once and all of one kind: `table` is of that kind.
   * A model's graphs are on each of them (gsched_plan_graph.gpu). Streams and events of requests are of
   * the first one. Copied. NULL, 0: `gpu` alone; NULL, 0 */
  const int32_t* gpus;
  uint32_t gpus_count;
  uint32_t reserved; /* 0 */
} gsched_plan_options;

/* A captured graph of a model for batches of one size, with memory of its own. */
typedef struct gsched_plan_graph {
  uint32_t size;
  uint32_t batch;
  /* CUgraph or cudaGraph_t; cloned, so it may be destroyed after the call. The memory it uses and its
   * kernels' modules must live until the server is closed */
  void* graph;
  /* As many as gsched_plan_model.inputs and outputs. Each has the data of the batch's requests, one
   * behind the other: `bytes` is of all of them. */
  const gsched_buffer *inputs, *outputs;
  /* The GPU that the graph and its memory are on: its place in gsched_plan_options.gpus. Each has graphs
   * of the same batch sizes; 0 */
  uint32_t gpu;
  uint32_t reserved; /* 0 */
} gsched_plan_graph;

typedef struct gsched_plan_model {
  uint32_t size;
  uint32_t graphs_count;
  /* Several of one batch size let as many partitions of their GPU run the model at once; to go over to
   * another plan takes twice as many. */
  const gsched_plan_graph* graphs;
  const char* name; /* as the table has it; copied */
  uint32_t inputs, outputs;
  double slo_us; /* longest latency of a request */
  double rate;   /* requests a second that the first plan is for, 0 or more */
} gsched_plan_model;

/* Fills in the defaults; `size` is set by the caller. */
GSCHED_API int gsched_default_plan_options(gsched_plan_options* options);

/* Makes the first plan and its partitions, and starts the server. Set CUDA_DEVICE_MAX_CONNECTIONS=32
 * before CUDA starts, or batches of different partitions wait for each other.
 * Owner    the caller, who gives it to gsched_server_release once.
 * Errors   GSCHED_BAD_ARGUMENT, also where no plan serves these models at all, and for a file that was
 *          measured on another GPU, by the machine.json beside it; GSCHED_IO for a file that cannot be
 *          read; GSCHED_NO_DEVICE, GSCHED_BAD_GRAPH, GSCHED_OUT_OF_MEMORY,
 *          GSCHED_DEVICE_FAILED. */
GSCHED_API int gsched_plan_open(const gsched_plan_options* options, const gsched_plan_model* models,
                                uint32_t count, gsched_server** server);

/* The plan in service, and what was served since the server was opened. */
typedef struct gsched_plan_report {
  uint32_t size;
  uint32_t partitions; /* of the plan */
  uint32_t sms;        /* of them all */
  uint32_t idle_sms;   /* of all GPUs: in no partition */
  double factor; /* the plan serves this many times the rates it was made for; below 1 it cannot */
  uint64_t batches, switches;
  uint64_t failed_plans;  /* that were chosen, but whose partitions could not be made */
  char last_failure[256]; /* of these: why, in one line */
  /* Which files of the options were measured with another driver, CUDA or gsched than there are here,
   * and of which the GPU is unknown, as no machine.json is beside them, one of each folder: one line.
   * Empty: none */
  char warning[512];
  /* What predicted slow-downs of this plan are extrapolated in: more "graphs" at once, or more throughput
   * of "l2" or "dram", or on shared SMs of "issue", "fp16" and so on, than `interference` was fitted to, or
   * "MODEL in BATCH", a larger batch than `solo` has. Empty: none, or nothing is predicted */
  char beyond_fit[256];
  /* Why another plan than the one before was asked for last: "rates", "times" of batches,
   * "interference" that was learned, or "violations", where too many were late for none of these. Empty:
   * none was asked for yet */
  char reason[16];
} gsched_plan_report;

typedef struct gsched_plan_model_report {
  uint32_t size;
  uint32_t too_slow; /* 1: its batches take so long that none of its requests can be in time */
  /* Requests: arrived is the sum of those below. */
  uint64_t arrived, in_time, late, dropped, cancelled, waiting, running;
  uint64_t batches;
  double rate;           /* as measured, requests a second */
  double p50_us, p99_us; /* latency of those that were answered */
  double slow_down;      /* measured time of all batches over the planned one; 0: none ended */
  /* With `learns`: how sensitive the model is to others and how much it presses on them, times what
   * `solo` says, and from how many batches that was learned. 1, 1 and 0 without. */
  double sensitivity, pressure;
  uint64_t learned_from;
  /* How far off these may be: the standard deviations of their logarithms; 0.5 before anything is
   * learned. 0 without `learns`. */
  double sensitivity_error, pressure_error;
  /* Part of the measured time of all batches: at most what the host added above the usual, where the
   * server's thread launched a batch or looked for its end late: it copied, waited in the driver while
   * another thread pinned memory, say, or had lost its core. No plan is made for that. Above 0.1
   * violations do not raise planned rates either. */
  double host_part;
  /* What was learned, and plans go by: the model's batches take so many times the planned time, and
   * plans are for so many times its rate, as more was late than is allowed. 1, 1: nothing. */
  double time_factor, rate_factor;
  /* Of the plan: partitions that serve the model, and their SMs, which other models may use too. */
  uint32_t partitions, sms;
} gsched_plan_model_report;

/* Also when the server is closed.
 * Errors   GSCHED_BAD_ARGUMENT for a server that gsched_plan_open did not make.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_get_plan_report(gsched_server* server, gsched_plan_report* report);
GSCHED_API int gsched_get_plan_model_report(gsched_server* server, uint32_t model,
                                            gsched_plan_model_report* report);

#endif
