// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/c_abi_gpu_kernels.hpp"

#include <gsched/gsched_c.h>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched::testing {

inline constexpr std::int64_t second_us = 1'000'000;

inline void ok(cudaError_t e) {
  INFO(cudaGetErrorString(e));
  REQUIRE(e == cudaSuccess);
}
inline void ok(int code) {
  INFO(std::string(gsched_last_error()));
  REQUIRE(code == GSCHED_OK);
}

/// Models of steps on `words` numbers, captured as a framework does it: by another copy of the
/// runtime than the library's, on a stream of its own.
struct captured_model {
  std::uint32_t words;
  std::uint32_t steps;
  std::uint32_t spin;
  bool reports; ///< its kernels do
  host_step step{spin};
  std::uint32_t id = 0;

  std::vector<cudaGraph_t> graphs{};
  std::vector<std::uint32_t*> memory{}; ///< of each instance: in, out, and between
  std::vector<gsched_buffer> inputs{};
  std::vector<gsched_buffer> outputs{};

  captured_model(std::uint32_t w, std::uint32_t s, std::uint32_t p, std::size_t instances,
                 bool with_reports = false)
      : words(w), steps(s), spin(p), reports(with_reports) {
    for (std::size_t i = 0; i < instances; ++i) capture();
  }
  captured_model(const captured_model&) = delete;
  captured_model& operator=(const captured_model&) = delete;
  ~captured_model() {
    for (cudaGraph_t g : graphs) cudaGraphDestroy(g);
    for (std::uint32_t* m : memory) cudaFree(m);
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return words * sizeof(std::uint32_t); }
  [[nodiscard]] std::uint32_t expected(std::uint32_t v) const {
    for (std::uint32_t k = 0; k < steps; ++k) v = step(v, k);
    return v;
  }

  void add_to(gsched_server* server, const char* name) { ok(try_add_to(server, name)); }
  [[nodiscard]] int try_add_to(gsched_server* server, const char* name) {
    std::vector<gsched_instance> all(graphs.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].size = sizeof all[i];
      all[i].graph = graphs[i];
      all[i].inputs = &inputs[i];
      all[i].outputs = &outputs[i];
    }
    gsched_model m{};
    m.size = sizeof m;
    m.name = name;
    m.instances = all.data();
    m.instances_count = static_cast<std::uint32_t>(all.size());
    m.inputs = m.outputs = 1;
    return gsched_add_model(server, &m, &id);
  }

private:
  void capture() {
    std::uint32_t* m = nullptr;
    ok(cudaMalloc(reinterpret_cast<void**>(&m), 3 * bytes()));
    memory.push_back(m);
    inputs.push_back({m, bytes()});
    outputs.push_back({m + words, bytes()});
    std::uint32_t* const between = m + 2 * std::size_t{words};
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    const std::uint32_t* from = m;
    for (std::uint32_t k = 0; k < steps; ++k) {
      std::uint32_t* const to =
          (steps - k) % 2 == 1 ? m + words : between; // the last is the output
      (reports ? launch_reporting_step : launch_step)(s, from, to, words, k, spin);
      from = to;
    }
    cudaGraph_t g = nullptr;
    ok(cudaStreamEndCapture(s, &g));
    ok(cudaStreamDestroy(s));
    graphs.push_back(g);
  }
};

/// A server that is released with its scope.
struct open_server {
  gsched_server* it = nullptr;

  explicit open_server(const char* policy, std::uint32_t watchdog_ms = 20000,
                       bool instrumented = false) {
    gsched_server_options o{};
    o.size = sizeof o;
    ok(gsched_default_options(&o));
    o.policy = policy;
    o.watchdog_ms = watchdog_ms;
    o.instrumented = instrumented ? 1 : 0;
    ok(gsched_server_open(&o, &it));
  }
  open_server(const open_server&) = delete;
  open_server& operator=(const open_server&) = delete;
  ~open_server() { gsched_server_release(it); }

  [[nodiscard]] std::uint32_t client(double weight = 1.0) const {
    std::uint32_t id = 0;
    ok(gsched_add_client(it, weight, &id));
    return id;
  }
  [[nodiscard]] gsched_statistics statistics() const {
    gsched_statistics s{};
    s.size = sizeof s;
    ok(gsched_get_statistics(it, &s));
    return s;
  }
};

[[nodiscard]] inline gsched_report report_of(const gsched_ticket* t) {
  gsched_report r{};
  r.size = sizeof r;
  ok(gsched_status(t, &r));
  return r;
}

/// Input, output and ticket of one request, in pageable memory.
struct exchange {
  std::vector<std::uint32_t> in;
  std::vector<std::uint32_t> out;
  gsched_ticket* ticket = nullptr;

  exchange(const captured_model& m, std::uint32_t seed) : in(m.words), out(m.words) {
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = seed * 2654435761u + std::uint32_t(i);
  }

  [[nodiscard]] int submit(gsched_server* to, const captured_model& m, std::uint32_t client,
                           double deadline_us = 0) {
    const void* from[] = {in.data()};
    void* into[] = {out.data()};
    gsched_request r{};
    r.size = sizeof r;
    r.model = m.id;
    r.client = client;
    r.deadline_us = deadline_us;
    r.inputs = from;
    r.outputs = into;
    return gsched_submit(to, &r, &ticket);
  }
  /// How many words of the output are not what they should be.
  [[nodiscard]] std::size_t wrong(const captured_model& m) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < in.size(); ++i) n += out[i] != m.expected(in[i]);
    return n;
  }
};

} // namespace gsched::testing
