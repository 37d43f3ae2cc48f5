// SPDX-License-Identifier: Apache-2.0

#include "cuda/device/device_yield_kernels.hpp"
#include "cuda/graph/program_samples.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/inference.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

using word = std::uint32_t;

constexpr std::size_t n = arena::row;
constexpr std::size_t bytes = arena::row_bytes;

/// Two steps from input to output, on memory of its own, as in a captured model.
struct model {
  arena memory;
  cuda::program graph;

  model() : graph(make_two_steps("two steps", memory)) {}
  [[nodiscard]] cuda::bound_program bound() {
    return {&graph, {{memory.at(0), byte_count{bytes}}}, {{memory.at(2), byte_count{bytes}}}};
  }
};

/// Memory of one of the three kinds that a request may use.
class buffer {
public:
  explicit buffer(int where) : kind_(where), pageable_(n) {
    if (kind_ == 1) cuda::check(cudaMallocHost(&p_, bytes), "test memory");
    if (kind_ == 2) cuda::check(cudaMalloc(&p_, bytes), "test memory");
    if (kind_ == 0) p_ = pageable_.data();
  }
  ~buffer() {
    if (kind_ == 1) cudaFreeHost(p_);
    if (kind_ == 2) cudaFree(p_);
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;

  [[nodiscard]] void* get() const noexcept { return p_; }
  void write(const std::vector<word>& from) {
    cuda::check(cudaMemcpy(p_, from.data(), bytes, cudaMemcpyDefault), "test memory");
  }
  [[nodiscard]] std::vector<word> read() const {
    std::vector<word> to(n);
    cuda::check(cudaMemcpy(to.data(), p_, bytes, cudaMemcpyDefault), "test memory");
    return to;
  }

private:
  int kind_;
  std::vector<word> pageable_;
  void* p_ = nullptr;
};

struct asked {
  buffer in, out;
  std::vector<word> input;
  std::unique_ptr<cuda::inference_request> request;
  job_state end = job_state::waiting;

  explicit asked(int i) : in(i % 3), out(i / 3 % 3), input(n) {
    for (std::size_t k = 0; k < n; ++k)
      input[k] = static_cast<word>(k * 31 + static_cast<std::size_t>(i) * 7919);
    in.write(input);
    request = std::make_unique<cuda::inference_request>(
        std::initializer_list<const void*>{in.get()}, std::initializer_list<void*>{out.get()});
  }
};

struct ends : silent_listener {
  std::deque<asked>* all = nullptr;
  void on_end(const job& j, void* user, time_point) noexcept {
    for (asked& a : *all)
      if (a.request.get() == user) a.end = j.state;
  }
};

TEST_CASE("each request to a model of two instances gets the result of its input") {
  GSCHED_NEEDS_GPU();
  std::deque<model> instances(2);
  cuda::inference body({instances[0].bound(), instances[1].bound()});
  CHECK(body.instances() == 2);
  CHECK(body.expected() == &instances[0].graph.host());
  cuda::device gpu;
  fifo order;
  aggregate_accountant account(gpu.limits().sm, gpu.limits().sms);
  ends hears;
  std::deque<asked> all;
  hears.all = &all;
  dispatcher scheduler(gpu, order, account, hears);
  for (model& m : instances) scheduler.load(m.graph.host());
  const model_id id = scheduler.add_model("two steps", body, body.expected(), body.instances());
  client& owner = scheduler.add_client();
  for (int i = 0; i < 60; ++i) all.emplace_back(i);
  // A request without outputs fails; the others are not affected.
  all[7].request = std::make_unique<cuda::inference_request>(
      std::initializer_list<const void*>{all[7].in.get()}, std::initializer_list<void*>{});
  for (asked& a : all) {
    job_request r;
    r.model = id;
    r.owner = &owner;
    r.user = a.request.get();
    static_cast<void>(scheduler.submit(r));
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!scheduler.idle() && std::chrono::steady_clock::now() < limit)
    if (!scheduler.step()) gpu.wait(gpu.now() + std::chrono::milliseconds(1));
  REQUIRE(scheduler.idle());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].end == (i == 7 ? job_state::failed : job_state::finished));
    if (i != 7) CHECK(all[i].out.read() == two_steps(all[i].input));
  }
}

TEST_CASE("different instances, and no instance at all, are refused") {
  const auto refused = [](std::vector<cuda::bound_program> instances) {
    try {
      const cuda::inference body(std::move(instances));
      FAIL_CHECK("no error");
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_option);
    }
  };
  refused({});
  refused({{}});
}

TEST_CASE("instances with different memory are refused") {
  GSCHED_NEEDS_GPU();
  std::deque<model> instances(2);
  cuda::bound_program other = instances[1].bound();
  other.outputs[0].bytes = byte_count{4};
  try {
    const cuda::inference body({instances[0].bound(), other});
    FAIL_CHECK("no error");
  } catch (const error& e) {
    CHECK(std::string(e.what()) ==
          "inference: instance 1, expected a program with memory as instance 0 has it");
  }
}

} // namespace
} // namespace gsched::testing
