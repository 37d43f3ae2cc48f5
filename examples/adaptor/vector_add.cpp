// SPDX-License-Identifier: Apache-2.0
// A model of one's own in a shared library: adds two vectors. gsched_server --adaptor serves it.
//
// On the simulated device a program takes its time and computes nothing, so the host computes here;
// on a GPU the program is a captured graph (examples/adaptor/saxpy.cu).
#include <gsched/server/adaptor.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

using namespace gsched;

namespace {

class vector_add final : public adaptor {
public:
  adaptor_signature signature() const override {
    return {.inputs = {{"a", "FP32", {elements}}, {"b", "FP32", {elements}}},
            .outputs = {{"sum", "FP32", {elements}}}};
  }

  void init(adaptor_context& context) override { // once for each device
    operation kernel;
    kernel.launch = {.grid = {8}, .block = {128}};
    kernel.expected = from_us(10);
    for (std::uint32_t i = 0; i < context.instances; ++i)
      programs_.push_back(&context.add(program("vector_add", {kernel})));
  }

  task run(job_context& job, adaptor_request& request) override { // for each request
    job.launch(*programs_[job.instance]);
    co_await job.synchronize();
    const std::span<const float> a = request.input<float>(0), b = request.input<float>(1);
    std::ranges::transform(a, b, request.output<float>(0).begin(), std::plus());
  }

private:
  static constexpr std::int64_t elements = 4;
  std::vector<const program*> programs_;
};

} // namespace

GSCHED_ADAPTOR(vector_add)
