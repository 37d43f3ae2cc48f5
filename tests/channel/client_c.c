/* SPDX-License-Identifier: Apache-2.0 */
/* client_c HOST_PROCESS: the C library of clients, by a program in C, against servers in other
 * processes. Prints what is wrong, and ends with 1 then. */
#define _POSIX_C_SOURCE 200809L
#include <gsched/gsched_client.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int wrong, checks;
#define CHECK(what) check((what) != 0, #what, __LINE__)
static void check(int right, const char* what, int line) {
  ++checks;
  if (!right) {
    ++wrong;
    printf("client_c.c:%d: %s; the last error: %s\n", line, what, gsched_client_last_error());
  }
}

/* A call fails with this code, and one line that holds the text. */
#define FAILS(call, code, text) fails((call), (code), (text), #call, __LINE__)
static void fails(int got, int code, const char* text, const char* what, int line) {
  const char* said = gsched_client_last_error();
  check(got == code && strstr(said, text) != NULL && strchr(said, '\n') == NULL, what, line);
}

static const char* program;
struct server {
  char socket[64];
  int in;
  pid_t id;
};
static struct server start(void) {
  static int n;
  struct server s;
  int in[2], out[2];
  char ready[6];
  snprintf(s.socket, sizeof s.socket, "@gsched-client-c-%d-%d", (int)getpid(), n++);
  if (pipe(in) != 0 || pipe(out) != 0) exit(2);
  s.id = fork();
  if (s.id == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[1]);
    execl(program, "host_process", s.socket, (char*)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  CHECK(read(out[0], ready, sizeof ready) == 6);
  close(out[0]);
  s.in = in[1];
  return s;
}
static void end(struct server* s, int by) {
  if (by != 0) kill(s->id, by);
  close(s->in);
  waitpid(s->id, NULL, 0);
}
static void sleep_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static gsched_client* connected(const char* socket, uint32_t wait) {
  gsched_client* c = NULL;
  gsched_client_options o = {.size = sizeof o};
  CHECK(gsched_client_default_options(&o) == 0);
  CHECK(o.slots == 256 && o.arena_bytes == 64u << 20 && o.wait == GSCHED_CLIENT_HYBRID);
  CHECK(o.poll_before_us == 100 && o.poll_for_us == 200 && o.connect_within_us == 5e6);
  o.slots = 8;
  o.arena_bytes = 65536;
  o.wait = wait;
  CHECK(gsched_client_connect(socket, &o, &c) == 0 && c != NULL);
  return c;
}
static gsched_client_model found(gsched_client* c, const char* name) {
  gsched_client_model m = {.size = sizeof m};
  CHECK(gsched_client_find_model(c, name, &m) == 0 && strcmp(m.name, name) == 0);
  return m;
}
static gsched_client_result next(gsched_client* c) {
  gsched_client_result r = {.size = sizeof r};
  CHECK(gsched_client_read_result(c, &r, 20000000) == 0);
  return r;
}
static int is_all_free(gsched_client* c) {
  void* all = NULL;
  return gsched_client_allocate(c, 65536, &all) == 0 && gsched_client_free(c, all) == 0;
}

static void test_requests(uint32_t wait) {
  struct server s = start();
  gsched_client* c = connected(s.socket, wait);
  gsched_client_model all[3] = {{.size = sizeof all[0]}};
  uint32_t count = 0, most = 0;
  uint64_t n = 0, id = 0;
  CHECK(gsched_client_models(c, NULL, 0, &count) == 0 && count == 3);
  CHECK(gsched_client_models(c, all, 2, &count) == 0 && count == 3);
  CHECK(strcmp(all[0].name, "brief") == 0 && strcmp(all[1].name, "endless") == 0);
  CHECK(all[1].size == sizeof all[0] && all[2].name[0] == '\0');
  const gsched_client_model m = found(c, "brief"), endless = found(c, "endless");
  CHECK(m.input_bytes == 256 && m.output_bytes == 256);
  FAILS(gsched_client_find_model(c, "x", all), GSCHED_CLIENT_BAD_ARGUMENT, "brief, endless, failing");

  gsched_client_result r = {.size = sizeof r};
  unsigned char* io[8];
  FAILS(gsched_client_read_result(c, &r, 0), GSCHED_CLIENT_TIMED_OUT, "no result");
  for (int i = 0; i < 8; ++i) {
    void* piece = NULL;
    CHECK(gsched_client_allocate(c, 512, &piece) == 0);
    io[i] = piece;
    for (int k = 0; k < 256; ++k) io[i][k] = (unsigned char)(k + i);
    CHECK(gsched_client_predict(c, m.id, io[i], 512, NULL, &id) == 0 && id == (uint64_t)i);
  }
  FAILS(gsched_client_predict(c, m.id, io[0], 512, NULL, &id), GSCHED_CLIENT_FULL, "8 requests");
  CHECK(gsched_client_in_flight(c, &n, &most) == 0 && n == 8 && most == 8);
  for (int i = 0; i < 8; ++i) {
    r = next(c);
    CHECK(r.outcome == GSCHED_CLIENT_FINISHED && r.reason == 0 && r.id == (uint64_t)i);
    CHECK(r.segments > 0 && r.latency_us >= 100 && r.waited_us >= 0 && r.error[0] == '\0');
    for (int k = 0; k < 256; ++k)
      if (io[i][256 + k] != io[i][255 - k]) CHECK(!"reversed");
    CHECK(gsched_client_free(c, io[i]) == 0);
  }
  CHECK(gsched_client_in_flight(c, &n, &most) == 0 && n == 0);
  CHECK(is_all_free(c));

  /* Each other end. */
  void* start_of = NULL;
  uint64_t bytes = 0;
  CHECK(gsched_client_arena(c, &start_of, &bytes) == 0 && bytes == 65536);
  unsigned char* const arena = start_of;
  CHECK(gsched_client_predict(c, found(c, "failing").id, NULL, 0, NULL, NULL) == 0);
  r = next(c);
  CHECK(r.outcome == GSCHED_CLIENT_FAILED && r.reason == GSCHED_CLIENT_JOB_FAILED);
  CHECK(strstr(r.error, "out of order") != NULL);
  gsched_client_request how = {.size = sizeof how, .deadline_us = 1000};
  CHECK(gsched_client_predict(c, endless.id, arena, 64, &how, NULL) == 0);
  r = next(c);
  CHECK(r.outcome == GSCHED_CLIENT_REJECTED && r.reason == GSCHED_CLIENT_DEADLINE);
  how = (gsched_client_request){.size = sizeof how, .real_time = 1};
  CHECK(gsched_client_predict(c, endless.id, arena, 64, &how, &id) == 0);
  CHECK(gsched_client_predict(c, m.id, arena, 512, NULL, NULL) == 0);
  r = next(c);
  CHECK(r.outcome == GSCHED_CLIENT_REFUSED && r.reason == GSCHED_CLIENT_OVERLAP);
  FAILS(gsched_client_read_result(c, &r, 10000), GSCHED_CLIENT_TIMED_OUT, "no result");
  CHECK(gsched_client_cancel(c, 12345) == 0);
  CHECK(gsched_client_cancel(c, id) == 0);
  r = next(c);
  CHECK(r.outcome == GSCHED_CLIENT_CANCELLED && r.reason == GSCHED_CLIENT_BY_CLIENT && r.id == id);
  CHECK(gsched_client_predict(c, 99, arena, 512, NULL, NULL) == 0);
  CHECK(next(c).reason == GSCHED_CLIENT_UNKNOWN_MODEL);
  CHECK(gsched_client_predict(c, m.id, arena, 511, NULL, NULL) == 0);
  CHECK(next(c).reason == GSCHED_CLIENT_WRONG_SIZE);
  CHECK(gsched_client_predict(c, m.id, arena + 1, 512, NULL, NULL) == 0);
  CHECK(next(c).reason == GSCHED_CLIENT_BAD_RANGE);

  /* By an event loop. */
  int file = -1, ready = -1;
  CHECK(gsched_client_file(c, &file) == 0 && file >= 0);
  CHECK(gsched_client_predict(c, m.id, arena, 512, NULL, &id) == 0);
  for (;;) {
    CHECK(gsched_client_arm(c, &ready) == 0);
    struct pollfd p = {.fd = file, .events = POLLIN};
    if (!ready) CHECK(poll(&p, 1, 20000) == 1);
    CHECK(gsched_client_take_wake_ups(c) == 0);
    if (gsched_client_read_result(c, &r, 0) == 0) break;
  }
  CHECK(r.outcome == GSCHED_CLIENT_FINISHED && r.id == id);
  CHECK(gsched_client_arm(c, &ready) == 0 && ready == 0);
  CHECK(gsched_client_predict(c, m.id, arena, 512, NULL, &id) == 0);
  struct pollfd p = {.fd = file, .events = POLLIN};
  CHECK(poll(&p, 1, 20000) == 1);
  CHECK(gsched_client_arm(c, &ready) == 0 && ready == 1);
  CHECK(next(c).id == id);

  /* A request in flight as the client goes. */
  CHECK(gsched_client_predict(c, endless.id, arena, 64, NULL, NULL) == 0);
  CHECK(gsched_client_release(c) == 0);
  end(&s, 0);
}

static void test_arguments(void) {
  struct server s = start();
  gsched_client* c = connected(s.socket, 0);
  gsched_client* none = c;
  gsched_client_options o = {.size = sizeof o};
  gsched_client_model m = {.size = sizeof m};
  gsched_client_result r = {.size = sizeof r};
  gsched_client_request q = {.size = sizeof q};
  void* piece = &o;
  uint64_t n = 0;
  uint32_t k = 0;
  int i = 0;
  const int bad = GSCHED_CLIENT_BAD_ARGUMENT;

  CHECK(gsched_client_abi() == GSCHED_CLIENT_ABI && gsched_client_version()[0] == '0');
  FAILS(gsched_client_default_options(NULL), bad, "options: NULL");
  FAILS(gsched_client_connect(NULL, NULL, &none), bad, "socket: NULL");
  CHECK(none == NULL);
  FAILS(gsched_client_connect(s.socket, NULL, NULL), bad, "client: NULL");
  FAILS(gsched_client_close(NULL), bad, "client: NULL");
  CHECK(gsched_client_release(NULL) == 0);
  FAILS(gsched_client_models(NULL, &m, 1, &k), bad, "client: NULL");
  FAILS(gsched_client_models(c, NULL, 1, &k), bad, "models: NULL");
  FAILS(gsched_client_models(c, &m, 1, NULL), bad, "count: NULL");
  FAILS(gsched_client_find_model(NULL, "brief", &m), bad, "client: NULL");
  FAILS(gsched_client_find_model(c, NULL, &m), bad, "name: NULL");
  FAILS(gsched_client_find_model(c, "brief", NULL), bad, "model: NULL");
  FAILS(gsched_client_allocate(NULL, 64, &piece), bad, "client: NULL");
  FAILS(gsched_client_allocate(c, 64, NULL), bad, "piece: NULL");
  FAILS(gsched_client_allocate(c, 65537, &piece), GSCHED_CLIENT_FULL, "65537");
  FAILS(gsched_client_allocate(c, UINT64_MAX, &piece), GSCHED_CLIENT_FULL, "bytes free");
  CHECK(piece == NULL);
  FAILS(gsched_client_free(NULL, &m), bad, "client: NULL");
  FAILS(gsched_client_free(c, &m), bad, "outside the arena");
  CHECK(gsched_client_free(c, NULL) == 0);
  FAILS(gsched_client_arena(NULL, &piece, &n), bad, "client: NULL");
  FAILS(gsched_client_arena(c, NULL, &n), bad, "start: NULL");
  FAILS(gsched_client_arena(c, &piece, NULL), bad, "bytes: NULL");
  CHECK(gsched_client_arena(c, &piece, &n) == 0);
  FAILS(gsched_client_predict(NULL, 0, piece, 64, NULL, NULL), bad, "client: NULL");
  FAILS(gsched_client_predict(c, 0, NULL, 64, NULL, NULL), bad, "outside the arena");
  FAILS(gsched_client_predict(c, 0, &m, 64, NULL, NULL), bad, "outside the arena");
  FAILS(gsched_client_predict(c, 0, piece, 65537, NULL, NULL), bad, "outside the arena");
  FAILS(gsched_client_predict(c, 0, piece, UINT64_MAX, NULL, NULL), bad, "outside the arena");
  q.real_time = 2;
  FAILS(gsched_client_predict(c, 0, piece, 64, &q, NULL), bad, "real_time");
  q = (gsched_client_request){.size = sizeof q, .deadline_us = -1};
  FAILS(gsched_client_predict(c, 0, piece, 64, &q, NULL), bad, "deadline_us");
  q = (gsched_client_request){.size = 3};
  FAILS(gsched_client_predict(c, 0, piece, 64, &q, NULL), bad, "request.size: 3");
  FAILS(gsched_client_cancel(NULL, 0), bad, "client: NULL");
  FAILS(gsched_client_read_result(NULL, &r, 0), bad, "client: NULL");
  FAILS(gsched_client_read_result(c, NULL, 0), bad, "result: NULL");
  r.size = 8;
  FAILS(gsched_client_read_result(c, &r, 0), bad, "result.size: 8");
  FAILS(gsched_client_in_flight(NULL, &n, &k), bad, "client: NULL");
  FAILS(gsched_client_in_flight(c, NULL, &k), bad, "in_flight: NULL");
  FAILS(gsched_client_in_flight(c, &n, NULL), bad, "most_in_flight: NULL");
  FAILS(gsched_client_file(NULL, &i), bad, "client: NULL");
  FAILS(gsched_client_file(c, NULL), bad, "file: NULL");
  FAILS(gsched_client_arm(NULL, &i), bad, "client: NULL");
  FAILS(gsched_client_arm(c, NULL), bad, "ready: NULL");
  FAILS(gsched_client_take_wake_ups(NULL), bad, "client: NULL");
  CHECK(gsched_client_in_flight(c, &n, &k) == 0 && n == 0);

  FAILS(gsched_client_connect("@gsched-client-c-nobody", NULL, &none), GSCHED_CLIENT_IO, "connect");
  FAILS(gsched_client_connect("", NULL, &none), bad, "socket");
  gsched_client_options wrong_ones[5];
  for (i = 0; i < 5; ++i) {
    wrong_ones[i] = (gsched_client_options){.size = sizeof o};
    gsched_client_default_options(&wrong_ones[i]);
  }
  wrong_ones[0].slots = 7;
  wrong_ones[1].arena_bytes = 63;
  wrong_ones[2].wait = 3;
  wrong_ones[3].poll_for_us = -1;
  wrong_ones[4].size = 1;
  const char* const lines[5] = {"power of two", "arena", "wait", "poll_for_us", "options.size: 1"};
  for (i = 0; i < 5; ++i)
    FAILS(gsched_client_connect(s.socket, &wrong_ones[i], &none), bad, lines[i]);
  CHECK(gsched_client_release(c) == 0);
  end(&s, 0);
}

static void* wait_for_end(void* client) {
  gsched_client_result r = {.size = sizeof r};
  int code = gsched_client_read_result(client, &r, -1);
  if (code == 0) { /* a server that is quick to reply */
    CHECK(r.outcome == GSCHED_CLIENT_CANCELLED);
    code = gsched_client_read_result(client, &r, -1);
  }
  FAILS(code, GSCHED_CLIENT_CLOSED, "");
  return NULL;
}

static void test_ends(void) {
  /* The server is killed. */
  struct server s = start();
  gsched_client* c = connected(s.socket, GSCHED_CLIENT_WAITING);
  gsched_client_result r = {.size = sizeof r};
  const uint32_t endless = found(c, "endless").id;
  void* piece = NULL;
  pthread_t reader;
  CHECK(gsched_client_allocate(c, 64, &piece) == 0);
  CHECK(gsched_client_predict(c, endless, piece, 64, NULL, NULL) == 0);
  pthread_create(&reader, NULL, wait_for_end, c);
  sleep_ms(20);
  FAILS(gsched_client_read_result(c, &r, 0), GSCHED_CLIENT_BAD_ARGUMENT, "another thread reads");
  end(&s, SIGKILL);
  pthread_join(reader, NULL);
  FAILS(gsched_client_read_result(c, &r, -1), GSCHED_CLIENT_CLOSED, "has gone");
  CHECK(gsched_client_take_wake_ups(c) == GSCHED_CLIENT_CLOSED);
  CHECK(gsched_client_free(c, piece) == 0);
  CHECK(gsched_client_release(c) == 0);

  /* The client is closed, on another thread than that which reads. */
  s = start();
  c = connected(s.socket, GSCHED_CLIENT_HYBRID);
  CHECK(gsched_client_allocate(c, 64, &piece) == 0);
  CHECK(gsched_client_predict(c, endless, piece, 64, NULL, NULL) == 0);
  pthread_create(&reader, NULL, wait_for_end, c);
  sleep_ms(20);
  CHECK(gsched_client_close(c) == 0);
  CHECK(gsched_client_close(c) == 0);
  pthread_join(reader, NULL);
  FAILS(gsched_client_predict(c, endless, piece, 64, NULL, NULL), GSCHED_CLIENT_CLOSED, "was closed");
  memset(piece, 1, 64);
  CHECK(gsched_client_free(c, piece) == 0);
  CHECK(gsched_client_release(c) == 0);

  /* In a forked child. */
  c = connected(s.socket, GSCHED_CLIENT_HYBRID);
  CHECK(gsched_client_allocate(c, 512, &piece) == 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    uint64_t n;
    uint32_t k;
    int i;
    gsched_client_model m = {.size = sizeof m};
    const int bad = GSCHED_CLIENT_BAD_ARGUMENT;
    wrong = 0;
    FAILS(gsched_client_models(c, NULL, 0, &k), bad, "fork");
    FAILS(gsched_client_find_model(c, "brief", &m), bad, "fork");
    FAILS(gsched_client_allocate(c, 64, &piece), bad, "fork");
    FAILS(gsched_client_predict(c, endless, NULL, 0, NULL, NULL), bad, "fork");
    FAILS(gsched_client_cancel(c, 0), bad, "fork");
    FAILS(gsched_client_read_result(c, &r, -1), bad, "fork");
    FAILS(gsched_client_in_flight(c, &n, &k), bad, "fork");
    FAILS(gsched_client_arm(c, &i), bad, "fork");
    FAILS(gsched_client_take_wake_ups(c), bad, "fork");
    FAILS(gsched_client_close(c), bad, "fork");
    CHECK(gsched_client_free(c, piece) == 0);
    CHECK(gsched_client_release(c) == 0);
    gsched_client* own = connected(s.socket, GSCHED_CLIENT_HYBRID); /* its own works */
    CHECK(gsched_client_predict(own, 77, NULL, 0, NULL, NULL) == 0);
    CHECK(next(own).outcome == GSCHED_CLIENT_REFUSED);
    CHECK(gsched_client_release(own) == 0);
    fflush(stdout);
    _exit(wrong != 0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(gsched_client_predict(c, found(c, "brief").id, piece, 512, NULL, NULL) == 0);
  CHECK(next(c).outcome == GSCHED_CLIENT_FINISHED);
  CHECK(gsched_client_free(c, piece) == 0 && is_all_free(c));
  CHECK(gsched_client_release(c) == 0);
  end(&s, 0);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  program = argv[1];
  signal(SIGPIPE, SIG_IGN);
  test_arguments();
  for (uint32_t wait = GSCHED_CLIENT_HYBRID; wait <= GSCHED_CLIENT_WAITING; ++wait)
    test_requests(wait);
  test_ends();
  printf("%d checks, %d of them failed\n", checks, wrong);
  return wrong != 0;
}
