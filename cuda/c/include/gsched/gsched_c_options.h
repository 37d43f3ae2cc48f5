// SPDX-License-Identifier: Apache-2.0
#ifndef GSCHED_C_OPTIONS_H
#define GSCHED_C_OPTIONS_H

/* How a server of gsched_c.h schedules. Each field's default stands at the end of its comment. */

#include <stdint.h>

/* A prediction or a measurement: the latency of a model beside another one, or beside itself, over its
 * latency alone. Names are those of gsched_model. */
typedef struct gsched_slow_down {
  const char* model;
  const char* beside;
  double by; /* above 0 */
} gsched_slow_down;

/* The slow-down that a model may suffer. This struct never grows. */
typedef struct gsched_slow_down_limit {
  const char* model;
  double most; /* at least 1 */
} gsched_slow_down_limit;

typedef struct gsched_server_options {
  uint32_t size;
  int32_t gpu; /* the runtime's number; 0 */
  /* Who is next: fifo, rr, sjf, srpt, edf, boost, boost:FACTOR, deficit, srpt+deficit, each
   * segment by segment; "direct": whole graphs, a stream for each client, nothing held back;
   * "single": whole graphs on one stream, as they come. Default "boost", which keeps the mean
   * near srpt's and the tail near fifo's; clients' weights count with the deficit policies
   * alone. Copied. */
  const char* policy;
  uint32_t lanes; /* streams that segments go to, at most 128; 8. direct: clients share them */
  uint32_t segments_per_job; /* in flight at once of one request; 2 */
  double quantum_us;         /* of a segment; 100 */
  double most_quantum_us;    /* segments grow to this while no other request waits; 800 */
  double low_mark_us;        /* a lane that holds less gets more; 0 is 120 */
  double high_mark_us;       /* ... until it holds this much; 0 is 200, or low_mark_us if that is more */
  double overshoot;          /* work submitted beyond a full GPU, in GPUs; 4.0 */
  double threshold_us;       /* of the policies with deficit: what a client may be owed; 10000 */
  double decision_delay_us; /* burnt on the dispatcher's thread for each segment: for experiments */
  double slo_us;            /* deadline of requests that give none, after arrival; 0 is none */
  double spin_us;           /* with nothing to do, the dispatcher looks for that long before it
                               sleeps; 50 */
  uint64_t max_jobs;        /* active requests; more are rejected; 65536 */
  uint32_t watchdog_ms;     /* a segment that shows no progress for that long hangs: its request
                               fails, and what is queued behind it; if the GPU runs nothing else
                               either, the device does; at least 1; 10000 */
  uint32_t instrumented;    /* 1: kernels with GSCHED_INSTRUMENT report their blocks, and what is
                               on each SM decides whether more is submitted, up to 64 blocks beyond
                               a full GPU, in place of overshoot. Kernels without it count by their
                               shape until their segment has ended. gsched_add_model then builds
                               the model's graphs on the dispatcher's thread, and all requests wait
                               meanwhile: about 10 us an operation for each graph that holds it; 0 */
  uint32_t time_driver;     /* 1: counts gsched_statistics.driver_ns, at 50 ns a call; 0 */
  uint32_t spare_lanes;     /* more lanes, on which work starts only while what is on the GPU leaves
                               a part of it empty: for small kernels. 128 at most with lanes; none
                               with real_time_lanes, "direct" and "single". UINT32_MAX is 120 with 8
                               lanes that all requests share, otherwise none; UINT32_MAX */
  /* Real-time requests, by gsched_request.real_time. They go before all others, by deadline; with
   * lanes of their own, more urgent ones, what others have on the GPU makes way for them too. */
  uint32_t real_time_lanes; /* 0: they share the lanes; 0. With "direct" each client has one */
  uint32_t yields;          /* 1: other lanes stop between two kernels while a real-time request is
                               active; 0: the lanes' priorities alone; 1 */
  double floor;             /* part of the time that others get all the same, 0 to below 1; 0 */
  double tolerance;         /* how much longer, as a part of their time, real-time requests may take
                               for work beside them on side_sms; 0.05 */
  uint32_t side_sms[4];     /* sizes of partitions for such work, tried and kept where it gains;
                               0 is none; 0, 0, 0, 0 */
  double lease_us;          /* a lane that is stopped goes on by itself after this long without a sign
                               of life from the dispatcher's thread; 100 to 16000000; 20000 */
  /* A kernel that runs cannot be stopped, so real-time requests wait for it. Other requests with
   * kernels of long_kernel_us or more may run on a partition instead that leaves SMs free. Needs
   * real_time_lanes. Which of reserve_sms is in force is learned for each model: the one with the
   * most throughput that keeps real-time requests within the two slow-downs and the share. */
  uint32_t reserve_sms[4]; /* numbers of SMs, rising; 0 is none; 0, 0, 0, 0 */
  uint32_t reserve_fixed;  /* 1: always the first of reserve_sms; 0 */
  uint32_t one_long;       /* 1: while a real-time request is expected, at most one long kernel is
                              queued on a lane; with reserve_sms it is always so; 0 */
  double long_kernel_us;   /* from which a kernel counts as long; 100 */
  double reserve_slow_down; /* how much longer real-time requests may take in the mean, as a part of
                               their time alone, because of what runs when they come; 0.10 */
  double reserve_tail;      /* the same, of the slowest in a hundred; 0.50 */
  double reserve_share;     /* part that other work keeps of its throughput in the time that
                               real-time requests leave when they run alone; 0 to 1; 0.80 */
  double slice_us; /* of rr: what a request gets in its turn, more than 0; 100 */
  /* Models that slow each other too much do not run side by side. A request waits as long as it, or
   * one in flight, would then be slowed more than slow_down_limit; beside several, the excesses
   * (slow-down - 1) add up. Real-time requests never wait for that. */
  const gsched_slow_down* slow_downs; /* copied. None with "direct" and "single"; NULL */
  uint32_t slow_downs_count;          /* of a pair that is there twice, the last one counts; 0 */
  uint32_t unknown_apart; /* 1: two models without a slow-down are kept apart, and one that is not named
                             runs alone; 0: they run side by side; 0 */
  double slow_down_limit; /* of each model that is named, at least 1; 0: only of those that
                             slow_down_limits names; 0 without slow_downs; 0 */
  double apart_wait_us;   /* after this time others make room for a model that waits; 1000 */
  /* Models with other limits than slow_down_limit, each once. Needs slow_downs. Copied; NULL */
  const gsched_slow_down_limit* slow_down_limits;
  uint32_t slow_down_limits_count; /* 0 */
  uint32_t reserved;               /* 0 */
} gsched_server_options;

#endif
