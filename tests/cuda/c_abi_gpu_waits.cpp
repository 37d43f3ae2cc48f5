// SPDX-License-Identifier: Apache-2.0
// Requests that wait for events and for one another, on a GPU; models that share memory, and models
// that are removed.
#include "cuda/c_abi_gpu_model.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/gsched_c.h>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace gsched::testing;
using namespace std::chrono_literals;

namespace {

/// A stream, an event and device memory of a user, who synchronises with nothing.
struct user_side {
  explicit user_side(std::uint32_t words) : n(words) {
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    ok(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
    for (std::uint32_t** m : {&first, &in, &out})
      ok(cudaMalloc(reinterpret_cast<void**>(m), n * sizeof(std::uint32_t)));
    ok(cudaMallocHost(reinterpret_cast<void**>(&host), n * sizeof(std::uint32_t)));
  }
  user_side(const user_side&) = delete;
  user_side& operator=(const user_side&) = delete;
  ~user_side() {
    cudaStreamSynchronize(stream);
    for (std::uint32_t* m : {first, in, out}) cudaFree(m);
    cudaFreeHost(host);
    cudaEventDestroy(written);
    cudaEventDestroy(ended);
    cudaStreamDestroy(stream);
  }

  std::uint32_t n;
  cudaStream_t stream = nullptr;
  cudaEvent_t written = nullptr;
  cudaEvent_t ended = nullptr;
  std::uint32_t *first = nullptr, *in = nullptr, *out = nullptr, *host = nullptr;
};

/// Models that work in place on memory which they share: add k to it by one step of the generator.
struct shared_state {
  explicit shared_state(std::uint32_t words) : n(words) {
    ok(cudaMalloc(reinterpret_cast<void**>(&state), n * sizeof(std::uint32_t)));
    ok(cudaMemset(state, 0, n * sizeof(std::uint32_t)));
  }
  shared_state(const shared_state&) = delete;
  shared_state& operator=(const shared_state&) = delete;
  ~shared_state() {
    for (cudaGraph_t g : graphs) cudaGraphDestroy(g);
    cudaFree(state);
  }

  [[nodiscard]] std::uint32_t add_to(gsched_server* server, std::uint32_t k, int steps,
                                     std::vector<std::uint32_t> excludes) {
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < steps; ++i) launch_step(s, state, state, n, k, 20);
    cudaGraph_t g = nullptr;
    ok(cudaStreamEndCapture(s, &g));
    ok(cudaStreamDestroy(s));
    graphs.push_back(g);
    const gsched_buffer whole{state, n * sizeof(std::uint32_t)};
    gsched_instance one{};
    one.size = sizeof one;
    one.graph = g;
    one.outputs = &whole;
    const std::vector<double> durations(static_cast<std::size_t>(steps), 20.0);
    gsched_model m{};
    m.size = sizeof m;
    m.name = "in place";
    m.instances = &one;
    m.instances_count = 1;
    m.outputs = 1;
    m.durations_us = durations.data(); // to measure it would run it
    m.durations_count = static_cast<std::uint32_t>(steps);
    m.excludes = excludes.data();
    m.excludes_count = static_cast<std::uint32_t>(excludes.size());
    std::uint32_t id = 0;
    ok(gsched_add_model(server, &m, &id));
    return id;
  }

  std::uint32_t n;
  std::uint32_t* state = nullptr;
  std::vector<cudaGraph_t> graphs{};
};

} // namespace

TEST_CASE("c abi: an event orders a request behind a user's stream, and one the stream behind it") {
  GSCHED_NEEDS_GPU();
  captured_model m(200'000, 6, 50, 2);
  open_server server("srpt+deficit");
  m.add_to(server.it, "steps");
  const std::uint32_t client = server.client();
  user_side u(m.words);
  const host_step slow(20'000);
  for (std::uint32_t round = 0; round < 30; ++round) {
    ok(cudaMemsetAsync(u.first, 0, m.bytes(), u.stream));
    launch_step(u.stream, u.first, u.in, u.n, round, 20'000); // some milliseconds
    ok(cudaEventRecord(u.written, u.stream));
    const bool pending = cudaEventQuery(u.written) == cudaErrorNotReady;
    const void* from[] = {u.in};
    void* into[] = {u.out};
    gsched_request r{};
    r.size = sizeof r;
    r.model = m.id;
    r.client = client;
    r.inputs = from;
    r.outputs = into;
    (round % 2 == 0 ? r.wait_event : r.wait_stream) =
        round % 2 == 0 ? static_cast<void*>(u.written) : static_cast<void*>(u.stream);
    r.signal_event = u.ended;
    gsched_ticket* t = nullptr;
    ok(gsched_submit(server.it, &r, &t));
    ok(gsched_wait(t, 60 * second_us));
    CHECK(report_of(t).state == GSCHED_FINISHED);
    CHECK(report_of(t).code == GSCHED_OK);
    gsched_release(t);
    ok(cudaStreamWaitEvent(u.stream, u.ended, 0));
    ok(cudaMemcpyAsync(u.host, u.out, m.bytes(), cudaMemcpyDeviceToHost, u.stream));
    ok(cudaStreamSynchronize(u.stream));
    const std::uint32_t expected = m.expected(slow(0, round));
    std::size_t wrong = 0;
    for (std::uint32_t i = 0; i < u.n; ++i) wrong += u.host[i] != expected;
    CHECK(wrong == 0);
    CHECK(pending); // else it has tested nothing
  }
}

TEST_CASE(
    "c abi: a capture elsewhere in the process neither ends nor fails what waits for an event") {
  GSCHED_NEEDS_GPU();
  captured_model m(50'000, 4, 20, 1);
  open_server server("fifo");
  m.add_to(server.it, "steps");
  const std::uint32_t client = server.client();
  user_side u(m.words);
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    launch_step(u.stream, u.first, u.in, u.n, 1, 100'000);
    ok(cudaEventRecord(u.written, u.stream));
    gsched_request r{};
    r.size = sizeof r;
    r.model = m.id;
    r.client = client;
    r.wait_event = u.written;
    gsched_ticket* t = nullptr;
    ok(gsched_submit(server.it, &r, &t));
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaStreamBeginCapture(s, mode));
    launch_step(s, u.first, u.out, u.n, 1, 1);
    std::this_thread::sleep_for(50ms);
    cudaGraph_t g = nullptr;
    CHECK(cudaStreamEndCapture(s, &g) == cudaSuccess);
    if (g != nullptr) cudaGraphDestroy(g);
    ok(cudaStreamDestroy(s));
    ok(gsched_wait(t, 60 * second_us));
    CHECK(report_of(t).state == GSCHED_FINISHED);
    INFO(report_of(t).error);
    gsched_release(t);
  }
}

TEST_CASE("c abi: a model is added and removed beside a capture in global mode") {
  GSCHED_NEEDS_GPU();
  captured_model m(50'000, 4, 20, 1);
  open_server server("fifo");
  user_side u(m.words);
  cudaStream_t s = nullptr;
  ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  std::thread([&] {
    m.add_to(server.it, "beside");
    ok(gsched_remove_model(server.it, m.id, -1));
  }).join();
  launch_step(s, u.first, u.out, u.n, 1, 1);
  cudaGraph_t g = nullptr;
  CHECK(cudaStreamEndCapture(s, &g) == cudaSuccess);
  if (g != nullptr) cudaGraphDestroy(g);
  ok(cudaStreamDestroy(s));
}

TEST_CASE("c abi: an event that was never recorded counts as complete, as in CUDA") {
  GSCHED_NEEDS_GPU();
  captured_model m(50'000, 4, 20, 1);
  open_server server("fifo");
  m.add_to(server.it, "steps");
  cudaEvent_t never = nullptr; // not recorded: complete, as CUDA has it
  ok(cudaEventCreateWithFlags(&never, cudaEventDisableTiming));
  gsched_request r{};
  r.size = sizeof r;
  r.model = m.id;
  r.client = server.client();
  r.wait_event = never;
  gsched_ticket* t = nullptr;
  ok(gsched_submit(server.it, &r, &t));
  ok(gsched_wait(t, 60 * second_us));
  CHECK(report_of(t).state == GSCHED_FINISHED);
  gsched_release(t);
  ok(cudaEventDestroy(never));
}

TEST_CASE("c abi: models on the same memory take turns, in the order that after gives") {
  GSCHED_NEEDS_GPU();
  shared_state memory(100'000);
  open_server server("srpt");
  const std::uint32_t long_one = memory.add_to(server.it, 7, 40, {});
  const std::uint32_t short_one = memory.add_to(server.it, 9, 2, {long_one});
  captured_model other(100'000, 30, 200, 2);
  other.add_to(server.it, "beside");
  const std::uint32_t client = server.client();
  std::vector<std::uint32_t> out(memory.n);
  std::vector<gsched_ticket*> tickets;
  const host_step step(20);
  std::uint32_t expected = 0;
  for (int i = 0; i < 120; ++i) {
    gsched_request r{};
    r.size = sizeof r;
    r.client = client;
    r.model = other.id;
    ok(gsched_submit(server.it, &r, nullptr));
    const bool small = i % 4 != 0;
    r.model = small ? short_one : long_one;
    r.after = tickets.empty() ? nullptr : tickets.back();
    void* into[] = {out.data()};
    if (i == 119) r.outputs = into;
    gsched_ticket* t = nullptr;
    ok(gsched_submit(server.it, &r, &t));
    tickets.push_back(t);
    for (int k = 0; k < (small ? 2 : 40); ++k) expected = step(expected, small ? 9 : 7);
  }
  for (gsched_ticket* t : tickets) {
    ok(gsched_wait(t, 60 * second_us));
    CHECK(report_of(t).state == GSCHED_FINISHED);
  }
  std::size_t wrong = 0;
  for (const std::uint32_t v : out) wrong += v != expected;
  CHECK(wrong == 0);
  for (std::size_t i = 1; i < tickets.size(); ++i)
    CHECK(report_of(tickets[i]).start_ns >= report_of(tickets[i - 1]).end_ns);
  // Without after: in any order, but never at once. What an end is behind a start is seen by times.
  std::vector<gsched_ticket*> free;
  for (int i = 0; i < 100; ++i) {
    gsched_request r{};
    r.size = sizeof r;
    r.client = client;
    r.model = i % 2 == 0 ? short_one : long_one;
    gsched_ticket* t = nullptr;
    ok(gsched_submit(server.it, &r, &t));
    free.push_back(t);
  }
  for (gsched_ticket* t : free) ok(gsched_wait(t, 60 * second_us));
  std::size_t overlaps = 0;
  for (std::size_t i = 0; i < free.size(); ++i)
    for (std::size_t k = 0; k < free.size(); ++k) {
      const gsched_report a = report_of(free[i]);
      const gsched_report b = report_of(free[k]);
      overlaps += i != k && a.start_ns <= b.start_ns && b.start_ns < a.end_ns;
    }
  CHECK(overlaps == 0);
  for (const auto* all : {&tickets, &free})
    for (gsched_ticket* t : *all) gsched_release(t);
}

TEST_CASE("c abi: models come and go while others are served") {
  GSCHED_NEEDS_GPU();
  captured_model stays(100'000, 20, 100, 2);
  open_server server("srpt+deficit");
  stays.add_to(server.it, "stays");
  const std::uint32_t client = server.client();
  std::size_t free_before = 0;
  std::size_t total = 0;
  for (int round = 0; round < 12; ++round) {
    captured_model goes(50'000, 60, 50, 3);
    goes.add_to(server.it, "goes");
    std::vector<exchange> all;
    all.reserve(20);
    for (std::uint32_t i = 0; i < 10; ++i) {
      all.emplace_back(goes, i);
      ok(all.back().submit(server.it, goes, client));
      all.emplace_back(stays, i);
      ok(all.back().submit(server.it, stays, client));
    }
    ok(gsched_remove_model(server.it, goes.id, -1));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ok(gsched_wait(all[i].ticket, 60 * second_us));
      CHECK(report_of(all[i].ticket).state == GSCHED_FINISHED);
      wrong += all[i].wrong(i % 2 == 0 ? goes : stays);
      gsched_release(all[i].ticket);
    }
    CHECK(wrong == 0);
    exchange late(goes, 1);
    CHECK(late.submit(server.it, goes, client) == GSCHED_BAD_ARGUMENT);
    std::size_t now = 0;
    ok(cudaMemGetInfo(&now, &total));
    if (round == 3) free_before = now; // whatever is made once has been made
    if (round > 3) CHECK(free_before <= now + (16u << 20));
  }
}

TEST_CASE("c abi: models whose kernels report come and go while requests of another run") {
  GSCHED_NEEDS_GPU();
  captured_model stays(100'000, 20, 100, 2, true);
  open_server server("srpt+deficit", 20000, true);
  stays.add_to(server.it, "stays");
  const std::uint32_t client = server.client();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> bad{0};
  {
    std::thread other([&] {
      for (std::uint32_t i = 0; !stop; ++i) {
        exchange x(stays, i);
        if (x.submit(server.it, stays, client) != GSCHED_OK ||
            gsched_wait(x.ticket, 60 * second_us) != GSCHED_OK) {
          ++bad; // and the ticket may be in use
          return;
        }
        gsched_report r{};
        r.size = sizeof r;
        bad += gsched_status(x.ticket, &r) != GSCHED_OK || r.state != GSCHED_FINISHED;
        bad += x.wrong(stays) > 0;
        gsched_release(x.ticket);
        ++served;
      }
    });
    const struct joined {
      std::thread& it;
      std::atomic<bool>& stop;
      ~joined() {
        stop = true;
        it.join();
      }
    } at_last{other, stop};
    for (std::uint32_t round = 0; round < 10; ++round) {
      captured_model goes(10'000, 60, 50, 2, true);
      goes.add_to(server.it, "goes");
      exchange x(goes, round);
      ok(x.submit(server.it, goes, client));
      ok(gsched_wait(x.ticket, 60 * second_us));
      CHECK(report_of(x.ticket).state == GSCHED_FINISHED);
      CHECK(x.wrong(goes) == 0);
      gsched_release(x.ticket);
      ok(gsched_remove_model(server.it, goes.id, 60 * second_us));
    }
  }
  CHECK(bad == 0);
  CHECK(served > 0);
}

TEST_CASE("c abi: a child made by fork() is refused, and ends") {
  GSCHED_NEEDS_GPU();
  captured_model m(50'000, 4, 20, 1);
  open_server server("fifo");
  m.add_to(server.it, "steps");
  const std::uint32_t client = server.client();
  exchange before(m, 2);
  ok(before.submit(server.it, m, client));
  ok(gsched_wait(before.ticket, 60 * second_us));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    gsched_request r{};
    r.size = sizeof r;
    r.model = m.id;
    r.client = client;
    int wrong = gsched_submit(server.it, &r, nullptr) != GSCHED_BAD_ARGUMENT;
    wrong += std::string(gsched_last_error()).find("fork") == std::string::npos;
    gsched_model_facts facts{};
    facts.size = sizeof facts;
    wrong += gsched_get_model_facts(server.it, m.id, &facts) != GSCHED_BAD_ARGUMENT;
    wrong += std::string(gsched_last_error()).find("fork") == std::string::npos;
    gsched_report report{};
    report.size = sizeof report;
    wrong += gsched_status(before.ticket, &report) != GSCHED_BAD_ARGUMENT;
    wrong += std::string(gsched_last_error()).find("fork") == std::string::npos;
    wrong += gsched_server_close(server.it, GSCHED_CANCEL, 0) != GSCHED_BAD_ARGUMENT;
    wrong += gsched_server_release(server.it) != GSCHED_BAD_ARGUMENT;
    _exit(wrong);
  }
  int status = -1;
  for (int i = 0; i < 3000 && waitpid(child, &status, WNOHANG) == 0; ++i)
    std::this_thread::sleep_for(10ms);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  gsched_release(before.ticket);
  exchange x(m, 3);
  ok(x.submit(server.it, m, client));
  ok(gsched_wait(x.ticket, 60 * second_us));
  CHECK(x.wrong(m) == 0);
  gsched_release(x.ticket);
}
