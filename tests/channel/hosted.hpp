// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/channel.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/server.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// A host of models on the paced simulator, in this process.
namespace channel_test {

using namespace gsched;

[[nodiscard]] inline program kernels(const char* name, std::size_t count, duration each) {
  operation k;
  k.launch = {.grid = {264}, .block = {256}, .registers_per_thread = 32};
  k.expected = each;
  k.kernel = kernel_id{0};
  return program(name, std::vector<operation>(count, k));
}

/// Launches its program, and turns the inputs round.
class reversing final : public served_model {
public:
  reversing(program p, std::size_t input_bytes)
      : served_model("reversing", {}), program_(std::make_shared<program>(std::move(p))),
        input_bytes_(input_bytes) {
    instances.push_back({program_.get(), program_});
  }
  void deliver(request_record& r) noexcept override {
    const auto in = r.payload.first(input_bytes_);
    std::reverse_copy(in.begin(), in.end(), r.payload.subspan(input_bytes_).begin());
  }

private:
  std::shared_ptr<program> program_;
  std::size_t input_bytes_;
};

/// Its body throws.
class failing final : public served_model {
public:
  failing() : served_model("failing", {}), program_(kernels("failing", 1, duration{1000})) {
    instances.push_back({&program_, nullptr});
  }
  task run(job_context&, request_record&) override {
    throw std::runtime_error("the model is out of order");
    co_return;
  }

private:
  program program_;
};

inline constexpr std::size_t half = 256; ///< bytes of inputs of "brief", and of outputs

inline std::string fresh_name() {
  static int n = 0;
  return "@gsched-test-" + std::to_string(::getpid()) + "-" + std::to_string(n++);
}

template <class Policy>
struct hosted_by {
  explicit hosted_by(channel::host_options how = {}) {
    if (how.socket.empty()) how.socket = socket;
    socket = how.socket;
    host.emplace(server, how);
    host->offer(brief, "brief", half, half);
    host->offer(endless, "endless", 0, 0);
  }
  ~hosted_by() { host.reset(); }

  [[nodiscard]] channel::client_options few() const {
    channel::client_options o;
    o.slots = 8;
    o.arena_bytes = 64 * 1024;
    return o;
  }
  bool come_to(std::uint64_t connected) {
    for (int n = 0; n < 5000 && host->statistics().connected != connected; ++n)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return host->statistics().connected == connected;
  }

  std::string socket = fresh_name();
  gsched::server server{[] { return sim::paced_device(sim::h200()); }, [] { return Policy(); }};
  model_id brief = server.add_model({}, [] {
    return std::make_unique<reversing>(kernels("brief", 5, std::chrono::microseconds(20)), half);
  });
  model_id endless =
      server.add_model("endless", kernels("endless", 20000, std::chrono::milliseconds(1)));
  std::optional<channel::host> host;
};
using hosted = hosted_by<fifo>;

} // namespace channel_test
