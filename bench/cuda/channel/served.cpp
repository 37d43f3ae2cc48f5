// SPDX-License-Identifier: Apache-2.0
#include "channel/served.hpp"

#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <chrono>
#include <cstring>

namespace channel_bench {

namespace {

using gsched::cuda::check;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t set_bytes = std::size_t{1} << 20;

void ok(int code) {
  if (code != GSCHED_OK) throw gsched::error(gsched::errc::device_failed, gsched_last_error());
}

[[nodiscard]] double us_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
}

} // namespace

served::served(int gpu, const shape& what, const std::string& socket) : what_(what) {
  check(cudaSetDevice(gpu), "the GPU");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  for (cudaEvent_t& e : events_) check(cudaEventCreate(&e), "event");
  const std::size_t io = std::size_t{what.in_bytes} + what.out_bytes;
  check(cudaMalloc(reinterpret_cast<void**>(&device_), io + set_bytes), "memory");
  check(cudaMallocHost(reinterpret_cast<void**>(&pinned_), io), "pinned memory");
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  for (std::uint32_t i = 0; i < what.sets; ++i)
    check(cudaMemsetAsync(device_ + io, static_cast<int>(i & 127), set_bytes, stream_), "set");
  check(cudaStreamEndCapture(stream_, &graph_), "capture");
  check(cudaGraphInstantiate(&launched_, graph_, 0), "graph");

  gsched_server_options o{};
  o.size = sizeof o;
  ok(gsched_default_options(&o));
  o.gpu = gpu;
  ok(gsched_server_open(&o, &server_));
  gsched_buffer in{device_, what.in_bytes}, out{device_ + what.in_bytes, what.out_bytes};
  gsched_instance one{};
  one.size = sizeof one;
  one.graph = graph_;
  one.inputs = &in;
  one.outputs = &out;
  gsched_model m{};
  m.size = sizeof m;
  m.name = "sets";
  m.instances = &one;
  m.instances_count = 1;
  m.inputs = m.outputs = 1;
  ok(gsched_add_model(server_, &m, &model_));
  ok(gsched_add_client(server_, 1, &client_));
  ok(gsched_channel_open(server_, socket.c_str(), nullptr, &channel_));
  ok(gsched_channel_offer(channel_, model_, nullptr));
}

served::~served() {
  gsched_channel_close(channel_);
  gsched_server_release(server_);
  cudaGraphExecDestroy(launched_);
  cudaGraphDestroy(graph_);
  cudaFreeHost(pinned_);
  cudaFree(device_);
  for (cudaEvent_t e : events_) cudaEventDestroy(e);
  cudaStreamDestroy(stream_);
}

void served::launch(bool copies, bool graph) {
  std::byte* const out = device_ + what_.in_bytes;
  if (copies)
    check(cudaMemcpyAsync(device_, pinned_, what_.in_bytes, cudaMemcpyDefault, stream_), "copy");
  if (graph) check(cudaGraphLaunch(launched_, stream_), "launch");
  if (copies)
    check(
        cudaMemcpyAsync(pinned_ + what_.in_bytes, out, what_.out_bytes, cudaMemcpyDefault, stream_),
        "copy");
}

std::vector<times> served::by_cuda(std::uint32_t count) {
  std::vector<times> all;
  for (std::uint32_t i = 0; i < 20 + count; ++i) { // the first warm up
    std::memset(pinned_, static_cast<int>(i & 127), what_.in_bytes);
    const auto begin = clock_type::now();
    launch(true, true);
    check(cudaStreamSynchronize(stream_), "synchronise");
    const double total = us_since(begin);
    if (i >= 20) all.push_back({total, 0, 0, total});
  }
  return all;
}

std::vector<times> served::by_ticket(std::uint32_t count) {
  std::vector<times> all;
  for (std::uint32_t i = 0; i < 20 + count; ++i) {
    std::memset(pinned_, static_cast<int>(i & 127), what_.in_bytes);
    const void* in[] = {pinned_};
    void* out[] = {pinned_ + what_.in_bytes};
    gsched_request r{};
    r.size = sizeof r;
    r.model = model_;
    r.client = client_;
    r.inputs = in;
    r.outputs = out;
    gsched_report said{};
    said.size = sizeof said;
    gsched_ticket* t = nullptr;
    const auto begin = clock_type::now();
    ok(gsched_submit(server_, &r, &t));
    do ok(gsched_status(t, &said));
    while (said.state == GSCHED_PENDING);
    const double total = us_since(begin);
    const bool finished = said.state == GSCHED_FINISHED;
    gsched_release(t);
    if (!finished) throw gsched::error(gsched::errc::device_failed, "a request did not finish");
    const auto us = [](std::uint64_t from, std::uint64_t to) {
      return static_cast<double>(to - from) * 1e-3;
    };
    const double latency = us(said.arrival_ns, said.end_ns);
    const double waited = us(said.arrival_ns, said.start_ns);
    if (i >= 20) all.push_back({total, total - latency, waited, latency - waited});
  }
  return all;
}

parts served::alone() {
  const auto measured = [&](bool copies, bool graph) {
    std::vector<double> us;
    for (int i = 0; i < 101; ++i) {
      check(cudaEventRecord(events_[0], stream_), "event");
      launch(copies, graph);
      check(cudaEventRecord(events_[1], stream_), "event");
      check(cudaStreamSynchronize(stream_), "synchronise");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "event");
      us.push_back(1e3 * static_cast<double>(ms));
    }
    return experiment::median(us);
  };
  return {measured(false, true), measured(true, false)};
}

} // namespace channel_bench
