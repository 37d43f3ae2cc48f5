// SPDX-License-Identifier: Apache-2.0
// The C ABI on a GPU, as a user of it: captured kernels as models, requests of many threads.
#include "cuda/c_abi_gpu_model.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/gsched_c.h>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace gsched::testing;

TEST_CASE("c abi: requests of several threads and models have their own results, by any policy") {
  GSCHED_NEEDS_GPU();
  captured_model small(4096, 3, 10, 2);
  captured_model middle(100'000, 40, 200, 3);
  captured_model large(300'000, 12, 3000, 2);
  captured_model* const models[] = {&small, &middle, &large};
  for (const char* policy : {"srpt+deficit", "fifo", "rr", "edf", "direct", "single"}) {
    CAPTURE(std::string(policy));
    open_server server(policy);
    for (captured_model* m : models) m->add_to(server.it, "steps");
    std::atomic<std::size_t> wrong{0};
    std::atomic<std::uint32_t> others{0};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
      const std::uint32_t client = server.client(1.0 + t);
      threads.emplace_back([&, t, client] {
        for (std::uint32_t round = 0; round < 8; ++round) {
          std::deque<exchange> all;
          for (std::uint32_t k = 0; k < 6; ++k) {
            const captured_model& m = *models[(t + k) % 3];
            exchange& x = all.emplace_back(m, 1000 * t + 10 * round + k);
            if (x.submit(server.it, m, client) != GSCHED_OK) ++others;
          }
          for (std::uint32_t k = 0; k < 6; ++k) {
            exchange& x = all[k];
            if (x.ticket == nullptr || gsched_wait(x.ticket, 60 * second_us) != GSCHED_OK) {
              ++others;
              continue;
            }
            gsched_report r{};
            r.size = sizeof r;
            if (gsched_status(x.ticket, &r) != GSCHED_OK || r.state != GSCHED_FINISHED) ++others;
            if (r.start_ns < r.arrival_ns || r.end_ns < r.start_ns) ++others;
            wrong += x.wrong(*models[(t + k) % 3]);
            gsched_release(x.ticket);
          }
        }
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(others == 0);
    const gsched_statistics s = server.statistics();
    CHECK(s.finished == 4 * 8 * 6);
    CHECK(s.submitted == s.finished);
    CHECK(s.active == 0);
    CHECK(s.built_late == 0);
    CHECK(s.graph_launches > 0);
  }
}

TEST_CASE("c abi: inputs and outputs can be pinned, on the device, or left where they are") {
  GSCHED_NEEDS_GPU();
  captured_model m(50'000, 5, 20, 1);
  open_server server("srpt");
  m.add_to(server.it, "steps");
  const std::uint32_t client = server.client();
  std::uint32_t* pinned = nullptr;
  std::uint32_t* device = nullptr;
  ok(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * m.bytes()));
  ok(cudaMalloc(reinterpret_cast<void**>(&device), 2 * m.bytes()));
  for (std::uint32_t i = 0; i < m.words; ++i) pinned[i] = 7 * i;
  std::uint32_t* const pinned_out = pinned + m.words;
  gsched_request r{};
  r.size = sizeof r;
  r.model = m.id;
  r.client = client;
  const auto serve = [&](const void* from, void* into) {
    gsched_ticket* t = nullptr;
    r.inputs = &from;
    r.outputs = &into;
    ok(gsched_submit(server.it, &r, &t));
    ok(gsched_wait(t, 60 * second_us));
    const gsched_report got = report_of(t);
    CHECK(got.state == GSCHED_FINISHED);
    CHECK(got.instance == 0);
    gsched_release(t);
  };
  const auto right = [&] {
    std::size_t wrong = 0;
    for (std::uint32_t i = 0; i < m.words; ++i) wrong += pinned_out[i] != m.expected(7 * i);
    std::fill(pinned_out, pinned_out + m.words, 0u);
    return wrong == 0;
  };
  serve(pinned, pinned_out);
  CHECK(right());
  ok(cudaMemcpy(device, pinned, m.bytes(), cudaMemcpyHostToDevice));
  ok(cudaMemset(m.memory[0], 0, m.bytes()));
  serve(device, device + m.words);
  ok(cudaMemcpy(pinned_out, device + m.words, m.bytes(), cudaMemcpyDeviceToHost));
  CHECK(right());
  ok(cudaMemset(m.outputs[0].device, 0, m.bytes()));
  serve(nullptr, nullptr); // the input is still there
  ok(cudaMemcpy(pinned_out, m.outputs[0].device, m.bytes(), cudaMemcpyDeviceToHost));
  CHECK(right());
  ok(gsched_server_close(server.it, GSCHED_DRAIN, 10 * second_us));
  ok(cudaFreeHost(pinned));
  ok(cudaFree(device));
}

TEST_CASE("c abi: whole graphs are one segment, and long ones many") {
  GSCHED_NEEDS_GPU();
  captured_model m(300'000, 60, 2000, 1);
  for (const char* policy : {"direct", "single", "srpt"}) {
    CAPTURE(std::string(policy));
    open_server server(policy);
    m.add_to(server.it, "steps");
    gsched_model_facts facts{};
    facts.size = sizeof facts;
    ok(gsched_get_model_facts(server.it, m.id, &facts));
    CHECK(facts.instances == 1);
    CHECK(facts.operations == 60);
    CHECK(facts.expected_us > 0);
    CHECK(facts.graph_replay_us > 0);
    CHECK(facts.graphs >= facts.segments);
    CHECK(facts.nodes >= 60);
    CHECK(facts.build_ms > 0);
    gsched_request r{};
    r.size = sizeof r;
    r.model = m.id;
    r.client = server.client();
    gsched_ticket* t = nullptr;
    ok(gsched_submit(server.it, &r, &t));
    ok(gsched_wait(t, 60 * second_us));
    const std::uint32_t segments = report_of(t).segments;
    if (std::string(policy) == "srpt" && facts.expected_us > 2000) {
      CHECK(segments > 1);
      CHECK(facts.segments > 10);
    } else if (std::string(policy) != "srpt") {
      CHECK(segments == 1);
      CHECK(facts.segments == 1);
    }
    gsched_release(t);
  }
}

TEST_CASE("c abi: requests are cancelled, and rejected when their deadline cannot be met") {
  GSCHED_NEEDS_GPU();
  captured_model m(300'000, 60, 5000, 1);
  open_server server("edf");
  m.add_to(server.it, "steps");
  const std::uint32_t client = server.client();
  std::deque<exchange> all;
  for (std::uint32_t i = 0; i < 20; ++i) {
    all.emplace_back(m, i);
    ok(all.back().submit(server.it, m, client));
  }
  for (std::uint32_t i = 10; i < 20; ++i) ok(gsched_cancel(all[i].ticket));
  exchange late(m, 99);
  ok(late.submit(server.it, m, client, 0.001));
  ok(gsched_wait(late.ticket, 60 * second_us));
  CHECK(report_of(late.ticket).state == GSCHED_REJECTED);
  gsched_release(late.ticket);
  std::uint64_t cancelled = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    ok(gsched_wait(all[i].ticket, 60 * second_us));
    const gsched_report r = report_of(all[i].ticket);
    cancelled += r.state == GSCHED_CANCELLED;
    if (i < 10) CHECK(r.state == GSCHED_FINISHED);
    if (r.state == GSCHED_FINISHED) CHECK(all[i].wrong(m) == 0);
    CHECK(gsched_cancel(all[i].ticket) == GSCHED_ENDED);
    gsched_release(all[i].ticket);
  }
  CHECK(cancelled >= 5);
  CHECK(server.statistics().cancelled == cancelled);
}

TEST_CASE("c abi: closing with requests in flight ends every one") {
  GSCHED_NEEDS_GPU();
  captured_model m(300'000, 60, 3000, 2);
  for (const gsched_close_how how : {GSCHED_DRAIN, GSCHED_CANCEL}) {
    open_server server("srpt+deficit");
    m.add_to(server.it, "steps");
    const std::uint32_t client = server.client();
    std::deque<exchange> all;
    for (std::uint32_t i = 0; i < 40; ++i) {
      all.emplace_back(m, i);
      ok(all.back().submit(server.it, m, client));
    }
    ok(gsched_server_close(server.it, how, 60 * second_us));
    std::uint64_t finished = 0;
    for (exchange& x : all) {
      const gsched_report r = report_of(x.ticket);
      CHECK((r.state == GSCHED_FINISHED || r.state == GSCHED_CANCELLED));
      finished += r.state == GSCHED_FINISHED;
      if (r.state == GSCHED_FINISHED) CHECK(x.wrong(m) == 0);
      gsched_release(x.ticket);
    }
    if (how == GSCHED_DRAIN) CHECK(finished == all.size());
    const gsched_statistics s = server.statistics();
    CHECK(s.finished == finished);
    CHECK(s.finished + s.cancelled == all.size());
    exchange after(m, 1);
    CHECK(after.submit(server.it, m, client) == GSCHED_CLOSED);
  }
}

TEST_CASE("c abi: graphs that cannot be scheduled, and models that make no sense, are refused") {
  GSCHED_NEEDS_GPU();
  captured_model good(4096, 3, 10, 1);
  captured_model other(4096, 4, 10, 1);
  open_server server("srpt");
  std::uint32_t id = 77;
  gsched_instance both[2] = {};
  both[0] = {sizeof both[0], 0, good.graphs[0], good.inputs.data(), good.outputs.data()};
  both[1] = {sizeof both[1], 0, other.graphs[0], other.inputs.data(), other.outputs.data()};
  gsched_model m{};
  m.size = sizeof m;
  m.name = "two";
  m.instances = both;
  m.instances_count = 2;
  m.inputs = m.outputs = 1;
  CHECK(gsched_add_model(server.it, &m, &id) == GSCHED_BAD_GRAPH);
  CHECK(std::string(gsched_last_error()).find("instance 1") != std::string::npos);
  m.instances_count = 1;
  const double times[] = {1.0, 2.0};
  m.durations_us = times;
  m.durations_count = 2; // of three
  CHECK(gsched_add_model(server.it, &m, &id) != GSCHED_OK);
  m.durations_us = nullptr;
  m.durations_count = 0;
  m.name = nullptr;
  CHECK(gsched_add_model(server.it, &m, &id) == GSCHED_BAD_ARGUMENT);
  m.name = "allocates";
  cudaGraph_t g = nullptr;
  ok(cudaGraphCreate(&g, 0));
  cudaMemAllocNodeParams p{};
  p.poolProps.allocType = cudaMemAllocationTypePinned;
  p.poolProps.location.type = cudaMemLocationTypeDevice;
  p.bytesize = 4096;
  cudaGraphNode_t node = nullptr;
  ok(cudaGraphAddMemAllocNode(&node, g, nullptr, 0, &p));
  both[0].graph = g;
  CHECK(gsched_add_model(server.it, &m, &id) == GSCHED_BAD_GRAPH);
  CHECK(std::string(gsched_last_error()).find('\n') == std::string::npos);
  ok(cudaGraphDestroy(g));
  CHECK(id == 77);
  good.add_to(server.it, "good"); // the server goes on
  exchange x(good, 5);
  ok(x.submit(server.it, good, server.client()));
  ok(gsched_wait(x.ticket, 60 * second_us));
  CHECK(x.wrong(good) == 0);
  gsched_release(x.ticket);
}

TEST_CASE("c abi: a graph may be destroyed once it was added, and ended tickets are collected") {
  GSCHED_NEEDS_GPU();
  auto m = std::make_unique<captured_model>(20'000, 10, 50, 2);
  open_server server("srpt");
  m->add_to(server.it, "steps");
  for (cudaGraph_t g : m->graphs) ok(cudaGraphDestroy(g));
  m->graphs.clear();
  const std::uint32_t client = server.client();
  std::deque<exchange> all;
  std::size_t got = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    exchange& x = all.emplace_back(*m, i);
    const void* from[] = {x.in.data()};
    void* into[] = {x.out.data()};
    gsched_request r{};
    r.size = sizeof r;
    r.model = m->id;
    r.client = client;
    r.inputs = from;
    r.outputs = into;
    r.collected = i % 2;
    r.user = &x;
    gsched_ticket* mine = nullptr;
    ok(gsched_submit(server.it, &r, r.collected == 1 ? nullptr : &mine));
    if (mine == nullptr) continue;
    const int code = gsched_watch(mine);
    CHECK((code == GSCHED_OK || code == GSCHED_ENDED));
    if (code == GSCHED_ENDED) {
      CHECK(x.wrong(*m) == 0);
      ++got;
    }
    gsched_release(mine);
  }
  while (got < all.size()) {
    gsched_ticket* some[8];
    std::uint32_t n = 0;
    ok(gsched_collect(server.it, some, 8, &n, 60 * second_us));
    for (std::uint32_t i = 0; i < n; ++i, ++got) {
      const gsched_report r = report_of(some[i]);
      CHECK(r.state == GSCHED_FINISHED);
      CHECK(static_cast<exchange*>(r.user)->wrong(*m) == 0);
      gsched_release(some[i]);
    }
  }
  ok(gsched_server_close(server.it, GSCHED_DRAIN, 10 * second_us));
}

TEST_CASE("c abi: two servers share a GPU") {
  GSCHED_NEEDS_GPU();
  captured_model a(50'000, 20, 100, 2);
  captured_model b(50'000, 20, 100, 2);
  open_server first("srpt");
  open_server second("fifo");
  a.add_to(first.it, "a");
  b.add_to(second.it, "b");
  const std::uint32_t ca = first.client();
  const std::uint32_t cb = second.client();
  std::deque<exchange> all;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const bool on_a = i % 2 == 0;
    exchange& x = all.emplace_back(on_a ? a : b, i);
    ok(x.submit(on_a ? first.it : second.it, on_a ? a : b, on_a ? ca : cb));
  }
  for (std::uint32_t i = 0; i < 40; ++i) {
    ok(gsched_wait(all[i].ticket, 60 * second_us));
    CHECK(all[i].wrong(i % 2 == 0 ? a : b) == 0);
    gsched_release(all[i].ticket);
  }
}

TEST_CASE("c abi: a graph's profile is written") {
  GSCHED_NEEDS_GPU();
  captured_model m(4096, 7, 10, 1);
  const std::string path = "c_abi_profile." + std::to_string(getpid()) + ".json";
  gsched_profile_options o{};
  o.size = sizeof o;
  o.model = "steps";
  o.dtype = "u32";
  o.batch = 1;
  o.input_bytes = o.output_bytes = m.bytes();
  ok(gsched_profile_graph(m.graphs[0], &o, path.c_str()));
  std::ifstream in(path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  CHECK(text.find("\"steps\"") != std::string::npos);
  CHECK(text.find("duration_us") != std::string::npos);
  std::remove(path.c_str());
  CHECK(gsched_profile_graph(m.graphs[0], &o, "/no/such/folder/p.json") == GSCHED_IO);
}
