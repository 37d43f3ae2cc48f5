// SPDX-License-Identifier: Apache-2.0
#ifndef GSCHED_CLIENT_H
#define GSCHED_CLIENT_H

/* A client of a gsched server in another process of this machine. Requests and replies pass through
 * memory that both processes map; payloads are used in place. It needs neither CUDA nor a GPU.
 *
 *     gsched_client* client;
 *     gsched_client_connect("/run/gsched.sock", NULL, &client);
 *     gsched_client_model model = {.size = sizeof model};
 *     gsched_client_find_model(client, "resnet18", &model);
 *     void* io;
 *     gsched_client_allocate(client, model.input_bytes + model.output_bytes, &io);
 *     fill(io, model.input_bytes);
 *     gsched_client_predict(client, model.id, io, model.input_bytes + model.output_bytes, NULL, NULL);
 *     gsched_client_result result = {.size = sizeof result};
 *     gsched_client_read_result(client, &result, -1); // outputs are at (char*)io + model.input_bytes
 *
 * Errors   functions that can fail return a gsched_client_code, and leave one line for the calling
 *          thread in gsched_client_last_error(). What they were to write is then left alone, but for
 *          handles, which become NULL. No C++ exception leaves the library.
 * Structs  begin with `size`, which the caller sets to sizeof of the struct as it knows it: a later
 *          library takes what an older caller does not know at its default, and writes no more than
 *          the caller has room for.
 * Units    durations in microseconds (_us).
 * Threads  any function may be called from any thread, but gsched_client_read_result, arm and
 *          take_wake_ups of one client by one thread at a time, else they fail at once.
 * A child made by fork() may not use the clients of its parent: calls with them fail with
 * GSCHED_CLIENT_BAD_ARGUMENT at once, and gsched_client_free and gsched_client_release do nothing. It
 * connects itself. */

#include <stddef.h>
#include <stdint.h>

#define GSCHED_CLIENT_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when a function or the meaning of a field changes, not when some are added. */
#define GSCHED_CLIENT_ABI 1

/* Where gsched_code of gsched_c.h has the same meaning, the numbers are the same. */
typedef enum gsched_client_code {
  GSCHED_CLIENT_OK = 0,
  GSCHED_CLIENT_BAD_ARGUMENT = 1,  /* NULL, out of range, an unknown name; refused by the server */
  GSCHED_CLIENT_OUT_OF_MEMORY = 4, /* of the host */
  GSCHED_CLIENT_CLOSED = 6,        /* the server has gone, or the client was closed */
  GSCHED_CLIENT_TIMED_OUT = 7,     /* nothing has come in time; with a timeout of 0: would block */
  GSCHED_CLIENT_IO = 9,            /* no server there, or the system refuses memory or files */
  GSCHED_CLIENT_INTERNAL = 10,     /* a bug of the library */
  GSCHED_CLIENT_FULL = 11          /* no free piece of that size; too many requests in flight */
} gsched_client_code;

/* "0.1.0", and GSCHED_CLIENT_ABI of the library: compare it with the header's before anything else. */
GSCHED_CLIENT_API const char* gsched_client_version(void);
GSCHED_CLIENT_API uint32_t gsched_client_abi(void);

/* What the last failing call of this thread said; never NULL, valid until the next one. */
GSCHED_CLIENT_API const char* gsched_client_last_error(void);

/* The connection ------------------------------------------------------------------------------ */

typedef struct gsched_client gsched_client;

/* How gsched_client_read_result waits. */
typedef enum gsched_client_wait {
  GSCHED_CLIENT_HYBRID = 0,  /* sleeps until a request is almost finished, then polls */
  GSCHED_CLIENT_POLLING = 1, /* least latency, and a core for it */
  GSCHED_CLIENT_WAITING = 2  /* sleeps until the reply is there: least CPU time */
} gsched_client_wait;

typedef struct gsched_client_options {
  uint32_t size;
  uint32_t slots;         /* most requests in flight, a power of two; 256. The server may allow fewer */
  uint64_t arena_bytes;   /* for payloads, a multiple of 64; 64 MiB */
  uint32_t wait;          /* gsched_client_wait; hybrid */
  uint32_t reserved;      /* 0 */
  double poll_before_us;  /* hybrid: begins to poll so long before a request is expected to end; 100 */
  double poll_for_us;     /* hybrid: polls until so long after that, and then sleeps; 200 */
  double connect_within_us; /* the server's answers are waited for so long; 5e6 */
} gsched_client_options;

/* Fills in the defaults; `size` is set by the caller. */
GSCHED_CLIENT_API int gsched_client_default_options(gsched_client_options* options);

/* Connects to the socket of a server: a path, or @ and a name without a file. Options NULL: defaults.
 * Owner    the caller, who gives the client to gsched_client_release once.
 * Errors   GSCHED_CLIENT_IO without a server; GSCHED_CLIENT_BAD_ARGUMENT, GSCHED_CLIENT_CLOSED or
 *          GSCHED_CLIENT_TIMED_OUT if the server turns it away or does not answer. */
GSCHED_CLIENT_API int gsched_client_connect(const char* socket, const gsched_client_options* options,
                                            gsched_client** client);

/* Ends the connection, and with GSCHED_CLIENT_CLOSED a gsched_client_read_result that waits on another
 * thread. Requests without a reply are of unknown outcome. The arena stays until the client is
 * released. To close again does nothing. */
GSCHED_CLIENT_API int gsched_client_close(gsched_client* client);

/* Closes the client if it is not closed, and frees it and its arena. NULL does nothing. No other call
 * with this client may be under way or follow. */
GSCHED_CLIENT_API int gsched_client_release(gsched_client* client);

/* Models -------------------------------------------------------------------------------------- */

/* A payload is the inputs of a model, and right behind them its outputs. */
typedef struct gsched_client_model {
  uint32_t size;
  uint32_t id; /* for gsched_client_predict */
  uint64_t input_bytes, output_bytes;
  char name[192]; /* ended by a zero */
} gsched_client_model;

/* Asks the server for its models. Writes up to `most` of them, each of the size that the first one has
 * in its `size`, and to *count how many there are. `models` may be NULL if `most` is 0. */
GSCHED_CLIENT_API int gsched_client_models(gsched_client* client, gsched_client_model* models,
                                           uint32_t most, uint32_t* count);

/* Errors   GSCHED_CLIENT_BAD_ARGUMENT for a name that is unknown; the line has those that there are. */
GSCHED_CLIENT_API int gsched_client_find_model(gsched_client* client, const char* name,
                                               gsched_client_model* model);

/* Payloads ------------------------------------------------------------------------------------ */

/* A piece of the arena, aligned to 64 bytes, until it is freed.
 * Errors   GSCHED_CLIENT_FULL. */
GSCHED_CLIENT_API int gsched_client_allocate(gsched_client* client, uint64_t bytes, void** piece);

/* Gives a piece back, also after gsched_client_close. It must not be that of a request in flight. NULL
 * does nothing.
 * Errors   GSCHED_CLIENT_BAD_ARGUMENT for what is outside the arena. */
GSCHED_CLIENT_API int gsched_client_free(gsched_client* client, void* piece);

/* The whole arena, for a caller that divides it itself. */
GSCHED_CLIENT_API int gsched_client_arena(gsched_client* client, void** start, uint64_t* bytes);

/* Requests ------------------------------------------------------------------------------------ */

typedef struct gsched_client_request {
  uint32_t size;
  uint32_t real_time; /* 1: goes before those with 0, by deadline; 0 */
  double deadline_us; /* after its arrival at the server; 0: the server's default */
} gsched_client_request;

/* Submits; never waits. The payload is in the arena, at a multiple of 64 bytes from its start, and is
 * the server's until the reply was read. `how` and `id` may be NULL. Whether the server takes the
 * request says its result.
 * Errors   GSCHED_CLIENT_FULL with most_in_flight requests whose results were not read;
 *          GSCHED_CLIENT_BAD_ARGUMENT for a payload outside the arena; GSCHED_CLIENT_CLOSED. */
GSCHED_CLIENT_API int gsched_client_predict(gsched_client* client, uint32_t model, void* payload,
                                            uint64_t bytes, const gsched_client_request* how,
                                            uint64_t* id);

/* Asks for the end of a request. Its result comes all the same, and may say that it has finished. A
 * number without a request is ignored. */
GSCHED_CLIENT_API int gsched_client_cancel(gsched_client* client, uint64_t id);

typedef enum gsched_client_outcome {
  GSCHED_CLIENT_FINISHED = 1,
  GSCHED_CLIENT_FAILED = 2,
  GSCHED_CLIENT_REJECTED = 3,  /* its deadline cannot be met */
  GSCHED_CLIENT_CANCELLED = 4, /* by the client, or as the server or its model goes away */
  GSCHED_CLIENT_REFUSED = 5    /* not a request that the server takes: `reason` says why */
} gsched_client_outcome;

/* Why a request was refused, or has failed. */
typedef enum gsched_client_reason {
  GSCHED_CLIENT_NO_REASON = 0,
  GSCHED_CLIENT_UNKNOWN_MODEL = 1,
  GSCHED_CLIENT_BAD_RANGE = 2,      /* payload outside the arena, or not at a multiple of 64 */
  GSCHED_CLIENT_WRONG_SIZE = 3,     /* payload smaller than inputs and outputs */
  GSCHED_CLIENT_OVERLAP = 4,        /* payload overlaps that of another request in flight */
  GSCHED_CLIENT_OVER_IN_FLIGHT = 5, /* the limits that the server has for this client */
  GSCHED_CLIENT_OVER_BYTES = 6,
  GSCHED_CLIENT_OVER_RATE = 7,
  GSCHED_CLIENT_BAD_OPTION = 8,
  GSCHED_CLIENT_SERVER_CLOSED = 9,
  GSCHED_CLIENT_DEVICE_FAILED = 10,
  GSCHED_CLIENT_JOB_FAILED = 11,
  GSCHED_CLIENT_SERVER_OUT_OF_MEMORY = 12,
  GSCHED_CLIENT_DEADLINE = 13,
  GSCHED_CLIENT_BY_CLIENT = 14,
  GSCHED_CLIENT_MODEL_REMOVED = 15
} gsched_client_reason;

/* The end of a request. */
typedef struct gsched_client_result {
  uint32_t size;
  uint32_t outcome; /* gsched_client_outcome */
  uint64_t id;
  uint32_t reason;   /* gsched_client_reason */
  uint32_t segments; /* that went to the device */
  double waited_us;  /* at the server, from arrival to start */
  double latency_us; /* at the server, from arrival to end */
  char error[192];   /* one line; "" if it has finished */
} gsched_client_result;

/* The next result, in the order of ends; waits as the options say. timeout_us below 0 is without limit,
 * 0 only looks.
 * Errors   GSCHED_CLIENT_TIMED_OUT; GSCHED_CLIENT_CLOSED once the connection has ended and all results
 *          that have come were read: requests without one are of unknown outcome. */
GSCHED_CLIENT_API int gsched_client_read_result(gsched_client* client, gsched_client_result* result,
                                                int64_t timeout_us);

/* Requests whose results were not read, and how many there can be. */
GSCHED_CLIENT_API int gsched_client_in_flight(gsched_client* client, uint64_t* in_flight,
                                              uint32_t* most_in_flight);

/* Event loops --------------------------------------------------------------------------------- */

/* For poll() or epoll: readable when it may be worth to look for a result, after gsched_client_arm. The
 * library's; not to be read or closed.
 *
 *     gsched_client_arm(client, &ready);
 *     if (!ready) wait until the file is readable;
 *     gsched_client_take_wake_ups(client);
 *     while (gsched_client_read_result(client, &result, 0) == GSCHED_CLIENT_OK) ...; */
GSCHED_CLIENT_API int gsched_client_file(gsched_client* client, int* file);

/* Has the server make the file readable for the next result. *ready is 1 if one is there already. */
GSCHED_CLIENT_API int gsched_client_arm(gsched_client* client, int* ready);

/* The file is not readable any more, until the next wake-up.
 * Errors   GSCHED_CLIENT_CLOSED: results that have come can still be read. */
GSCHED_CLIENT_API int gsched_client_take_wake_ups(gsched_client* client);

#ifdef __cplusplus
}
#endif

#endif
