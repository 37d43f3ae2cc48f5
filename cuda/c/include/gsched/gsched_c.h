// SPDX-License-Identifier: Apache-2.0
#ifndef GSCHED_C_H
#define GSCHED_C_H

/* gsched for other languages: captured CUDA graphs, scheduled segment by segment on one GPU.
 *
 * A server owns a GPU and one thread, its dispatcher. Models are added as captured graphs, requests
 * come from any thread, and each ends exactly once: finished, failed, rejected or cancelled.
 *
 * Errors   functions that can fail return a gsched_code, and leave one line for the calling thread
 *          in gsched_last_error(). What they were to write is then left alone, but for handles,
 *          which become NULL. No C++ exception leaves the library.
 * Structs  begin with `size`, which the caller sets to sizeof of the struct as it knows it: a later
 *          library takes what an older caller does not know at its default, and writes no more than
 *          the caller has room for. Arrays of such structs have the first one's size as stride.
 * Units    durations in microseconds (_us), points in time in nanoseconds of gsched_now_ns() (_ns).
 * Threads  any function may be called from any thread, unless it says otherwise. Where "not on the
 *          dispatcher's thread" is said, a call from within gsched_callback fails instead of
 *          waiting for itself.
 * A child made by fork() may not use the servers and tickets of its parent: calls with them fail
 * with GSCHED_BAD_ARGUMENT at once, and gsched_release does nothing.
 */

#include <gsched/gsched_c_options.h>

#include <stddef.h>
#include <stdint.h>

#define GSCHED_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when a function or the meaning of a field changes, not when some are added. */
#define GSCHED_ABI 1

typedef enum gsched_code {
  GSCHED_OK = 0,
  GSCHED_BAD_ARGUMENT = 1,  /* NULL, out of range, an unknown name, model or client */
  GSCHED_NO_DEVICE = 2,     /* no driver, no GPU, no GPU of that number, a driver that is too old */
  GSCHED_BAD_GRAPH = 3,     /* a node that cannot be scheduled, a kernel that fits on no SM */
  GSCHED_OUT_OF_MEMORY = 4, /* of the host, or of the GPU with CUDA's words; nothing is left behind */
  GSCHED_DEVICE_FAILED = 5, /* CUDA refused or the GPU failed; the line has CUDA's words */
  GSCHED_CLOSED = 6,        /* the server was closed */
  GSCHED_TIMED_OUT = 7,
  GSCHED_ENDED = 8, /* the request has ended already */
  GSCHED_IO = 9,
  GSCHED_INTERNAL = 10 /* a bug of the library */
} gsched_code;

/* "0.1.0", and GSCHED_ABI of the library: compare it with the header's before anything else. */
GSCHED_API const char* gsched_version(void);
GSCHED_API uint32_t gsched_abi(void);

/* What the last failing call of this thread said; never NULL, valid until the next one. */
GSCHED_API const char* gsched_last_error(void);

/* The clock of all points in time here: CLOCK_MONOTONIC, in Python time.monotonic_ns(). */
GSCHED_API uint64_t gsched_now_ns(void);

/* What gsched_server_options.policy can be, separated by one space each. Static. */
GSCHED_API const char* gsched_policy_names(void);

/* Server -------------------------------------------------------------------------------------- */

typedef struct gsched_server gsched_server;

/* Fills in the defaults; `size` is set by the caller. */
GSCHED_API int gsched_default_options(gsched_server_options* options);

/* Reads the slow-downs of models beside each other, for gsched_server_options.slow_downs, from measured
 * pairs: the file corun_pairs.csv that `measure` writes, with the number of SMs in machine.json
 * beside it. Only pairs whose graphs have all SMs of the GPU count. A model is named NAME_bBATCH, as
 * its profile is. Needs no server and no GPU.
 * Owner    the caller, who gives the array to gsched_free_slow_downs once.
 * Errors   GSCHED_IO: a file that cannot be read. GSCHED_BAD_ARGUMENT: a file that is wrong, no
 *          machine.json, no pair on all SMs. */
GSCHED_API int gsched_load_slow_downs(const char* pairs, gsched_slow_down** slow_downs,
                                      uint32_t* count);

/* Predicts them instead, from the counters of the models' kernels: of each model beside each, itself too,
 * when they share all SMs. `profiles` is a folder of NAME_bBATCH.json, as `measure counters` writes them,
 * with machine.json in it or one folder above. `law` is a file of coefficients, as `interference fit
 * --out` writes; interference/h200.json ships. `models` names some of the profiles, between commas, such
 * as "bert_b8,resnet50_b1"; NULL is all of them. Needs no server and no GPU.
 * Owner    as above.
 * Cost     0.06 to 0.2 s of a core for each pair, on all cores.
 * Errors   GSCHED_IO: a file or folder that cannot be read. GSCHED_BAD_ARGUMENT: a file that is wrong, a
 *          profile without counters, a law of another GPU by the machine.json beside it, no machine.json
 *          of the profiles, an unknown model. GSCHED_BAD_GRAPH: a kernel that fits on no SM. */
GSCHED_API int gsched_predict_slow_downs(const char* profiles, const char* law, const char* models,
                                         gsched_slow_down** slow_downs, uint32_t* count);
/* A line on the pairs whose predictions are extrapolations, as they take more of something than the fit of
 * the law has seen: "vgg16_b32 beside bert_b8: more dram, and 3 pairs more". "" if there is none, for an
 * array of gsched_load_slow_downs, and for NULL.
 * Owner    the array, as one of the two functions returned it. */
GSCHED_API const char* gsched_slow_downs_beyond_fit(const gsched_slow_down* slow_downs);
/* NULL is allowed. */
GSCHED_API void gsched_free_slow_downs(gsched_slow_down* slow_downs);

/* Starts a server. Takes the GPU's primary context, as CUDA's runtime and PyTorch do.
 * Owner    the caller, who gives it to gsched_server_release once.
 * Errors   GSCHED_BAD_ARGUMENT, GSCHED_NO_DEVICE, GSCHED_DEVICE_FAILED. */
GSCHED_API int gsched_server_open(const gsched_server_options* options, gsched_server** server);

typedef enum gsched_close_how {
  GSCHED_DRAIN = 0, /* serve what was submitted, until the timeout; cancel what is left then */
  GSCHED_CANCEL = 1 /* cancel what is not on the GPU; segments there end first */
} gsched_close_how;

/* Takes no more requests, ends all there are, and stops the thread. All tickets have ended when it
 * returns, with whatever code; they and the server stay valid for calls until released. Of several
 * calls at once the earliest end counts: GSCHED_CANCEL on another thread cuts a drain short. Once the
 * server is closed, to close again does nothing.
 * Bounds   returns after timeout_us and the time of what is on the GPU: a few times watchdog_ms,
 *          and more than a minute only where the GPU never reports that something has ended.
 * Errors   GSCHED_DEVICE_FAILED if the device had failed; GSCHED_TIMED_OUT if the driver did not
 *          come back: the thread and its memory are then left behind.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_server_close(gsched_server* server, gsched_close_how how, int64_t timeout_us);

/* Closes with GSCHED_CANCEL if it is not closed, and frees it; its tickets stay valid. NULL does
 * nothing. No other call with this server may be under way or follow.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_server_release(gsched_server* server);

/* A tenant, with its share relative to the others; weight > 0. Waits for the dispatcher's thread.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_add_client(gsched_server* server, double weight, uint32_t* client);

/* Models -------------------------------------------------------------------------------------- */

/* Memory of an instance, fixed when its graph was captured. This struct never grows. */
typedef struct gsched_buffer {
  void* device; /* device pointer */
  uint64_t bytes;
} gsched_buffer;

/* One captured graph with memory of its own: two requests never run on one instance at once. */
typedef struct gsched_instance {
  uint32_t size, reserved; /* reserved: 0 */
  void* graph; /* CUgraph or cudaGraph_t; cloned, so it may be destroyed after the call. The
                  memory it uses and its kernels' modules must live until the model is removed or
                  the server closed */
  const gsched_buffer *inputs, *outputs; /* as many as gsched_model.inputs and outputs */
} gsched_instance;

/* A model: its instances, the work of a request, the models that it excludes. */
typedef struct gsched_model {
  uint32_t size;
  uint32_t instances_count; /* at least 1: requests beyond them wait before they start */
  const gsched_instance* instances;
  const char* name;         /* copied */
  uint32_t inputs, outputs; /* buffers of each instance; of the same bytes in all of them */
  /* What each operation takes alone, in the order of the program; NULL: the first instance is
   * measured, which runs its graph several times on the GPU, beside requests of other models and
   * whatever `excludes` says. A graph that writes memory from before its run writes it then. Where a
   * model that is served uses the same memory, give durations, set `unmeasured`, or add the model while
   * that one has no requests; set the memory again afterwards. */
  const double* durations_us;
  uint32_t durations_count;
  uint32_t unmeasured; /* 1 and no durations: nothing runs, and all operations count as equal */
  /* Models of this server with which it shares memory that one of them writes: requests of them and
   * of this one are never between start and end at the same time. A request that cannot start waits
   * as for an instance. Models that were removed do not count. */
  const uint32_t* excludes; /* copied */
  uint32_t excludes_count;
  uint32_t exclusive; /* 1: so do requests of this model, whatever the number of instances; 0 */
} gsched_model;

/* Models that a server can have in its life, those that were removed included. */
#define GSCHED_MOST_MODELS 4096

/* Adds a model; it stays until it is removed or the server is closed. Graphs are read, measured and
 * built on the calling thread while other requests are served. The driver launches nothing while it
 * builds a graph, up to a millisecond for one of 1,000 nodes; where requests are served meanwhile,
 * pauses of three times as long follow. With gsched_server_options.instrumented 1 the graphs are built
 * on the dispatcher's thread instead, without pauses, and no request is served while that lasts. To be
 * exact the measurement needs the GPU for itself.
 * Errors   before the GPU is used: GSCHED_BAD_ARGUMENT, also for one model more than
 *          GSCHED_MOST_MODELS; GSCHED_CLOSED, which can come later, too. Then GSCHED_BAD_GRAPH;
 *          GSCHED_OUT_OF_MEMORY; GSCHED_DEVICE_FAILED: a kernel that was measured may still run, or
 *          a kernel of another model hangs, and nothing can be added until it has ended. The server
 *          goes on, and keeps nothing of the model.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_add_model(gsched_server* server, const gsched_model* what, uint32_t* model);

/* Removes a model. Requests for it are refused from now on; those there are are served; then its
 * graphs and its pinned memory are freed, and the memory that the graphs use is the caller's again.
 * Its number is not used again. timeout_us below 0 is without limit, 0 only looks.
 * Errors   GSCHED_TIMED_OUT: some of its requests have not ended; it stays refused, and may be
 *          removed again. GSCHED_BAD_ARGUMENT for a model that is unknown or removed already.
 *          GSCHED_DEVICE_FAILED: it is removed, but one of its kernels hangs: the memory of its graphs
 *          must never be freed or used again.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_remove_model(gsched_server* server, uint32_t model, int64_t timeout_us);

/* The cost of a model. */
typedef struct gsched_model_facts {
  uint32_t size;
  uint32_t instances;
  uint64_t operations;    /* of one instance */
  uint64_t segments;      /* of one instance, each of about a quantum */
  uint64_t device_bytes;  /* of all instances, beyond the model's own */
  uint64_t graphs, nodes; /* instantiated, of all instances; and of those graphs */
  double measure_ms;      /* on the calling thread: reading and measuring the graphs */
  double build_ms;        /* on the calling thread, pauses included; with gsched_server_options.instrumented
                             1 what the dispatcher's thread builds does not count */
  double expected_us;     /* sum of the operations of one instance */
  double graph_replay_us; /* of the whole graph, replayed; 0 if not measured */
} gsched_model_facts;

GSCHED_API int gsched_get_model_facts(gsched_server* server, uint32_t model,
                                      gsched_model_facts* facts);

/* Requests ------------------------------------------------------------------------------------ */

typedef struct gsched_ticket gsched_ticket;

/* Told on the dispatcher's thread when a request has ended, whatever way; everything else waits for
 * it to return. It may submit, cancel, look at and release tickets. */
typedef void (*gsched_callback)(void* user, gsched_ticket* ticket);

/* A request for a model. */
typedef struct gsched_request {
  uint32_t size;
  uint32_t model;
  uint32_t client;
  uint32_t real_time;  /* 1: goes before those with 0, by deadline, and gets an instance first;
                          rejected if that deadline cannot be met */
  uint64_t arrival_ns; /* latency and deadline count from it; 0 is now */
  double deadline_us;  /* after arrival; 0 is the server's slo_us, below 0 is none */
  /* Where to copy each input from, before, and each output to, after: host memory, pinned or not,
   * or device memory, gsched_buffer.bytes of it. NULL, as an element or for all: no copy. The
   * arrays are copied. To and from memory that is not pinned the dispatcher's thread copies by
   * itself, and all requests wait.
   *
   * What they point to is the library's from the call until the request has ended: it stays in
   * place, inputs are not written and outputs neither read nor written. An input must be complete
   * by then: the library knows nothing of copies and kernels of other streams that still write it,
   * unless wait_event says when they have; the same holds for what still reads an output's memory.
   * Once the request has ended its outputs are complete, for every stream and for the host.
   * After an end with GSCHED_DEVICE_FAILED (gsched_report.code) the GPU may still read and write
   * all of it, and the memory of the model's instances: they must never be freed or used again. */
  const void* const* inputs;
  void* const* outputs;
  gsched_callback done;         /* may be NULL */
  void* user;                   /* for `done`, and in gsched_report */
  uint32_t collected, reserved; /* 1: gsched_collect hands out the ticket at its end; 0 */
  /* The request starts once this event has completed: CUevent or cudaEvent_t, recorded before the
   * call, in place until the request has ended. The dispatcher's thread asks for it, every 5 us or
   * so, and does not sleep meanwhile; nothing waits on the GPU. An event that fails fails the request
   * with CUDA's words. NULL: none */
  void* wait_event;
  /* Recorded, on a stream of the library, when the request has ended, whatever way, and before that
   * is reported, but not once the driver has stopped answering: work that is made to wait for it
   * afterwards needs no wait of the host. Of the server's GPU. If it cannot be recorded, the request
   * fails with CUDA's words. NULL: none */
  void* signal_event;
  /* A request of the same server: this one starts once that one has finished. If it ends otherwise
   * this one is cancelled, and its line says so. Its ticket is needed during the call only. NULL:
   * none */
  gsched_ticket* after;
  /* The request starts once all that was submitted to this stream before the call has completed:
   * CUstream or cudaStream_t of the server's GPU, not being captured; cudaStreamLegacy for the default
   * stream. As wait_event, of an event that the call makes and records, which takes two calls of the
   * driver. Not with wait_event. NULL: none */
  void* wait_stream;
} gsched_request;

/* Posts a request: never waits, takes no lock. `ticket` may be NULL; a callback's ticket is then
 * good while that runs.
 * Owner    the caller, who gives the ticket to gsched_release once. Of a collected request it is
 *          lent, until gsched_collect hands it out and with it the duty to release it.
 *          *ticket is written before the request is posted: `done` and gsched_collect, which can come
 *          before this call returns, find it there. Another thread that reads *ticket before this
 *          call returns may wait for that ticket and look at it, but not release it: should the call
 *          fail with GSCHED_CLOSED, *ticket becomes NULL, and the ticket has ended as cancelled and
 *          stays valid until gsched_server_release.
 * Cost     about a microsecond; a few allocations on the calling thread.
 * Errors   GSCHED_BAD_ARGUMENT, a removed model included, GSCHED_CLOSED, GSCHED_DEVICE_FAILED once
 *          the device has failed: no ticket then, and no callback. */
GSCHED_API int gsched_submit(gsched_server* server, const gsched_request* request,
                             gsched_ticket** ticket);

/* Sleeps until the request has ended; timeout_us below 0 is without limit, 0 only looks.
 * Errors   GSCHED_TIMED_OUT.
 * Threads  not on the dispatcher's thread, unless timeout_us is 0. */
GSCHED_API int gsched_wait(gsched_ticket* ticket, int64_t timeout_us);

/* Asks for the request to end as cancelled: at once if nothing of it is on the GPU, else when its
 * segments there have ended. It may still finish first: gsched_status says. Does not wait.
 * Errors   GSCHED_ENDED. */
GSCHED_API int gsched_cancel(gsched_ticket* ticket);

typedef enum gsched_state {
  GSCHED_PENDING = 0, /* waiting or running */
  GSCHED_FINISHED = 1,
  GSCHED_FAILED = 2,
  GSCHED_REJECTED = 3, /* before it started: too many active, or a deadline that edf cannot meet */
  GSCHED_CANCELLED = 4
} gsched_state;

/* The state of a request, and how it ended. */
typedef struct gsched_report {
  uint32_t size;
  uint32_t state;      /* gsched_state; the rest is filled in once it is not pending */
  uint64_t arrival_ns; /* known at once */
  uint64_t start_ns;   /* its first segment went to the GPU; 0 if none did */
  uint64_t end_ns;     /* its last segment was seen to end, outputs copied */
  uint32_t segments;   /* that went to the GPU */
  uint32_t instance;   /* that it ran on; UINT32_MAX if it did not start */
  void* user;          /* known at once */
  const char* error;   /* one line, "" if it finished; valid until the ticket is released */
  /* gsched_code, why it did not finish; GSCHED_OK where `state` says all. GSCHED_DEVICE_FAILED, with
   * any state but GSCHED_FINISHED, if something of it was on the GPU when a kernel there was seen
   * to hang, the device failed, or its thread was left behind: see gsched_request.inputs. GSCHED_CLOSED if closing the server cancelled
   * it. */
  uint32_t code;
  uint32_t reserved; /* 0 */
} gsched_report;

GSCHED_API int gsched_status(const gsched_ticket* ticket, gsched_report* report);

/* Gives the ticket back; the request goes on if it has not ended. NULL does nothing. Collected
 * tickets that gsched_collect never handed out go with the server. */
GSCHED_API void gsched_release(gsched_ticket* ticket);

/* From now on the request is collected, as if gsched_request.collected had been 1: for a caller that
 * waits for some requests by gsched_wait, and learns later which of them it wants to hear of. Does
 * not wait. Only once gsched_submit has returned.
 * Owner    what gsched_collect hands out is one more share of the ticket: it is released as often as
 *          gsched_submit and gsched_collect have given it.
 * Cost     one atomic operation; at its end the dispatcher's thread posts the ticket, and makes a
 *          system call if a thread sleeps in gsched_collect.
 * Errors   GSCHED_ENDED: it will not be handed out. GSCHED_BAD_ARGUMENT: it is collected already. */
GSCHED_API int gsched_watch(gsched_ticket* ticket);

/* Sleeps until collected requests have ended and writes up to `most` of their tickets, in order of
 * their ends. For one thread that serves many waiters, such as futures. On an error it writes 0.
 * Errors   GSCHED_TIMED_OUT; GSCHED_CLOSED once the server is closed and all are handed out.
 * Threads  one at a time; not on the dispatcher's thread. */
GSCHED_API int gsched_collect(gsched_server* server, gsched_ticket** tickets, uint32_t most,
                              uint32_t* written, int64_t timeout_us);

/* What happened ------------------------------------------------------------------------------- */

typedef struct gsched_statistics {
  uint32_t size;
  uint32_t reserved;
  uint64_t submitted; /* taken up: active + finished + failed + rejected + cancelled */
  uint64_t active, finished, failed, rejected, cancelled;
  uint64_t decisions, segments;
  uint64_t operations;     /* that ended on the GPU */
  uint64_t graph_launches; /* of the driver */
  uint64_t built_late;     /* graphs that were built while requests waited; 0 is as it should be */
  uint64_t host_ns;        /* of the dispatcher's thread in turns that did something */
  uint64_t driver_ns;      /* of those, inside the driver's calls; 0 if not counted */
  uint64_t sleeps;         /* times that the dispatcher went to sleep */
  uint64_t preemptions;    /* times that other work made way for real-time requests ... */
  uint64_t restores;       /* ... and went on */
  double preempt_p50_us, preempt_p99_us; /* from the decision until the GPU was free of it */
  double restore_p50_us, restore_p99_us; /* from the decision until it ran again */
  uint64_t expired_leases; /* times that a stopped lane went on because of lease_us ... */
  uint64_t opened;         /* ... and because urgent work needed its place on the GPU */
  uint64_t reserved_segments; /* segments that left some of reserve_sms free */
  uint64_t hanging; /* 1 while a kernel of the process that was given up still runs on the GPU: no model
                     * can be added, and calls that wait for the GPU do not return; 0 */
  uint64_t found_to_need_sms; /* programs that did not run until the lease of a stopped lane ran out, and
                               * did then: no lane stops in mid-graph beside them from then on. A
                               * program is one instance of a model */
  uint64_t kept_apart;    /* choices of a request that had to wait because of slow_downs ... */
  uint64_t apart_wait_ns; /* ... and how long requests waited for that, in all */
} gsched_statistics;

/* Of the server since it was opened; also when it is closed.
 * Threads  not on the dispatcher's thread. */
GSCHED_API int gsched_get_statistics(gsched_server* server, gsched_statistics* statistics);

/* Clients in other processes ------------------------------------------------------------------ */

/* Processes of this machine submit by gsched_client.h, through memory that they share with the
 * server; the GPU reads inputs and writes outputs there. */
typedef struct gsched_channel gsched_channel;

typedef struct gsched_channel_options {
  uint32_t size;
  uint32_t mode;         /* of the socket's file: who may connect; 0600 */
  uint32_t most_clients; /* at once; 1024 */
  /* What each client gets; beyond it a request is refused. */
  uint32_t in_flight; /* requests; 256 */
  uint64_t bytes;     /* of payload in flight; UINT64_MAX is any */
  double rate;        /* requests a second; 0 is any */
  double burst;       /* requests at once, where there is a rate; 64 */
  double weight;      /* as for gsched_add_client; 1 */
} gsched_channel_options;

/* Sets all but size, which the caller has set, to the default of each field. */
GSCHED_API int gsched_default_channel_options(gsched_channel_options* options);

/* Listens on a Unix socket: a path, or @ and a name without a file. options: NULL is all defaults.
 * Errors   GSCHED_IO: a socket that is in use, or cannot be made. */
GSCHED_API int gsched_channel_open(gsched_server* server, const char* socket,
                                   const gsched_channel_options* options, gsched_channel** channel);

/* Clients may ask for this model from now on, by that name; NULL is its own. In a request's payload
 * are the inputs and behind them the outputs, without gaps. Withdraw it before the model is
 * removed. */
GSCHED_API int gsched_channel_offer(gsched_channel* channel, uint32_t model, const char* name);
GSCHED_API int gsched_channel_withdraw(gsched_channel* channel, uint32_t model);

/* Clients are told nothing but that it has gone; their requests end as cancelled. Before
 * gsched_server_release, and after gsched_server_close with GSCHED_DRAIN nothing of them is lost.
 * NULL is allowed.
 * Threads  not on the dispatcher's thread; no other call with the channel at the same time. */
GSCHED_API int gsched_channel_close(gsched_channel* channel);

/* Profiles ------------------------------------------------------------------------------------ */

typedef struct gsched_profile_options {
  uint32_t size;
  int32_t gpu;       /* 0 */
  const char* model; /* its name */
  const char* dtype; /* "fp32" */
  uint32_t batch;    /* 1 */
  uint32_t runs;     /* that the medians are taken from; 0 is the default */
  uint64_t input_bytes, output_bytes;
} gsched_profile_options;

/* Measures a captured graph, operation by operation, and writes its profile as JSON. Needs no
 * server, and the GPU for itself.
 * Errors   as gsched_add_model; GSCHED_NO_DEVICE, GSCHED_IO. */
GSCHED_API int gsched_profile_graph(void* graph, const gsched_profile_options* options,
                                    const char* path);

#include <gsched/gsched_c_plan.h>

#ifdef __cplusplus
}
#endif

#endif
