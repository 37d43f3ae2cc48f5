// SPDX-License-Identifier: Apache-2.0
// What CUDA does not forgive, each in a process of its own.
#include "cuda/c_abi_gpu_model.hpp"
#include "cuda/device/device_child.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/gsched_c.h>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

using namespace gsched::testing;

namespace {

std::uint32_t* flag = nullptr; // of the kernel that never ends

/// A model of one captured kernel that is never run alone.
[[nodiscard]] std::uint32_t add_unmeasured(gsched_server* server, void (*launch)(cudaStream_t)) {
  cudaStream_t s = nullptr;
  ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  launch(s);
  cudaGraph_t g = nullptr;
  ok(cudaStreamEndCapture(s, &g));
  gsched_instance one{};
  one.size = sizeof one;
  one.graph = g;
  gsched_model m{};
  m.size = sizeof m;
  m.name = "bad";
  m.instances = &one;
  m.instances_count = 1;
  m.unmeasured = 1;
  std::uint32_t id = 0;
  ok(gsched_add_model(server, &m, &id));
  return id;
}

enum class then { device_ends, others_go_on };

/// Serves good requests beside a bad one, and says what is not as it should be. The line of failure
/// has to hold `word`.
[[noreturn]] void serve_with(void (*launch)(cudaStream_t), const char* word, then what) {
  verdict v;
  const auto* const server = new open_server("srpt+deficit", 1000); // never taken down
  auto* const good = new captured_model(100'000, 40, 500, 2);
  good->add_to(server->it, "good");
  auto* const late = new captured_model(1000, 4, 5, 1);
  const std::uint32_t bad = add_unmeasured(server->it, launch);
  const std::uint32_t client = server->client();
  cudaEvent_t ended = nullptr;
  ok(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
  std::vector<gsched_ticket*> tickets;
  gsched_request r{};
  r.size = sizeof r;
  r.client = client;
  for (int i = 0; i < 30; ++i) {
    r.model = i == 10 ? bad : good->id;
    gsched_ticket* t = nullptr;
    if (gsched_submit(server->it, &r, &t) == GSCHED_OK) tickets.push_back(t);
  }
  v.need(tickets.size() > 10, "the bad one was submitted");
  std::uint64_t failed = 0;
  for (gsched_ticket* t : tickets) {
    v.need(gsched_wait(t, 60 * second_us) == GSCHED_OK, "every request ends");
    const gsched_report got = report_of(t);
    failed += got.state == GSCHED_FAILED;
    v.need(got.state == GSCHED_FAILED || got.state == GSCHED_FINISHED, "it failed or finished");
    if (got.state == GSCHED_FAILED) {
      if (failed == 1) v.say(got.error);
      const std::string line = got.error;
      v.need(line.find(word) != std::string::npos, "the line names the cause");
      v.need(line.find('\n') == std::string::npos, "it is one line");
      v.need(got.code == GSCHED_DEVICE_FAILED, "its memory must stay");
    }
  }
  v.need(failed > 0, "the bad one failed");
  // The server's first event to record: nothing that it takes may be made while the kernel hangs.
  r.signal_event = ended;
  gsched_ticket* last = nullptr;
  const int code = gsched_submit(server->it, &r, &last);
  const int closes = what == then::device_ends ? GSCHED_DEVICE_FAILED : GSCHED_OK;
  v.need(code == closes, what == then::device_ends ? "no more are accepted" : "others go on");
  if (what == then::device_ends) {
    v.say(gsched_last_error());
    v.need(std::string(gsched_last_error()).find(word) != std::string::npos, "submit says why");
  } else {
    v.need(gsched_wait(last, 60 * second_us) == GSCHED_OK &&
               report_of(last).state == GSCHED_FINISHED,
           "a later request finishes");
    const auto late_at = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    cudaError_t seen = cudaEventQuery(ended);
    while (seen == cudaErrorNotReady && std::chrono::steady_clock::now() < late_at)
      seen = cudaEventQuery(ended);
    v.need(seen == cudaSuccess, "its event completes");
    v.need(server->statistics().hanging == 1, "the kernel still runs");
    v.need(late->try_add_to(server->it, "late") == GSCHED_DEVICE_FAILED, "no model can be added");
    const std::string why = gsched_last_error();
    v.need(why.find("late: a kernel of this process hangs") != std::string::npos, why.c_str());
  }
  v.need(gsched_server_close(server->it, GSCHED_DRAIN, -1) == closes,
         "close returns, and says how the device is");
  const gsched_statistics s = server->statistics();
  v.need(s.active == 0 && s.submitted == s.finished + s.failed, "the counts add up");
  v.leave();
}

} // namespace

TEST_CASE("c abi child: an illegal access" * doctest::skip()) {
  serve_with([](cudaStream_t s) { launch_out_of_bounds(s, nullptr); }, "llegal", then::device_ends);
}

TEST_CASE("c abi child: a kernel that never ends" * doctest::skip()) {
  ok(cudaMalloc(reinterpret_cast<void**>(&flag), 64));
  ok(cudaMemset(flag, 0, 64));
  serve_with([](cudaStream_t s) { launch_for_ever(s, flag, flag + 1); }, "bad", then::others_go_on);
}

TEST_CASE("c abi: a kernel that CUDA stops fails all requests, in CUDA's words") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("c abi child: an illegal access", 120) == "");
}

TEST_CASE("c abi: a kernel that never ends fails its request, and the others finish") {
  GSCHED_NEEDS_GPU();
  CHECK(run_child("c abi child: a kernel that never ends", 120) == "");
}
