// SPDX-License-Identifier: Apache-2.0
// An adaptor that does what its parameters say: throws, adds no program, or has other faults.
#include <gsched/core/error.hpp>
#include <gsched/server/adaptor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace gsched;

namespace {

class faulty final : public adaptor {
public:
  adaptor_signature signature() const override {
    return {.inputs = {{"flags", "BOOL", {3}}, {"x", "FP64", {2}}},
            .outputs = {{"y", "FP64", {2}}, {"n", "INT16", {1}}}};
  }

  void init(adaptor_context& context) override {
    how_ = context.parameters;
    if (how_ == "init") throw std::runtime_error("no weights\nhere");
    if (how_ == "programs") return;
    operation kernel;
    kernel.launch = {.grid = {8}, .block = {128}};
    kernel.expected = from_us(10);
    for (std::uint32_t i = 0; i < context.instances; ++i)
      programs_.push_back(
          &context.add(program("faulty", std::vector(how_ == "sizes" ? i + 1 : 1, kernel))));
  }

  task run(job_context& job, adaptor_request& request) override {
    if (how_ == "run") throw std::runtime_error("at once");
    job.launch(*programs_[job.instance]);
    co_await job.synchronize();
    if (how_ == "later") throw error(errc::bad_option, "later, expected no such thing");
    const std::span<const std::byte> flags = request.input(0);
    const std::span<const double> x = request.input<double>(1);
    const std::span<double> y = request.output<double>(0);
    for (std::size_t i = 0; i < 2; ++i) y[i] = 2 * x[i];
    std::int16_t set = 0;
    for (const std::byte each : flags) set = static_cast<std::int16_t>(set + (each != std::byte{}));
    request.output<std::int16_t>(1)[0] = set;
    if (how_ == "tensor") static_cast<void>(request.input(2));
    if (how_ == "type") static_cast<void>(request.input<float>(1));
  }

private:
  std::string how_;
  std::vector<const program*> programs_;
};

} // namespace

GSCHED_ADAPTOR(faulty)
