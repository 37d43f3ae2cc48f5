// SPDX-License-Identifier: Apache-2.0
//
// Operations that the simulated device runs a second, on real models in segments of 100 us, two in
// flight on each lane, with contention: the host's whole cost of submitting, polling and
// simulating.
#include <gsched/job/profile_json.hpp>
#include <gsched/sim/device.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace gsched;

/// Keeps each lane busy with one model after another.
class feeder {
public:
  feeder(const std::vector<const char*>& models, std::size_t lanes) : device_(sim::h200()) {
    for (const char* m : models) {
      const std::string path = std::string(GSCHED_SOURCE_DIR) + "/examples/data/profiles/" + m;
      device_.load(
          programs_.emplace_back(to_program(read_profile(std::filesystem::path(path + ".json")))));
    }
    lanes_.resize(lanes);
    for (std::size_t i = 0; i < lanes; ++i) lanes_[i].id = device_.open_lane({});
    for (std::size_t i = 0; i < lanes; ++i)
      for (int k = 0; k < 2; ++k) submit(i);
  }

  /// Lets some segments end and replaces them; says how many operations those had.
  std::size_t turn() {
    std::array<device_event, 16> events;
    device_.wait(no_deadline);
    std::size_t operations = 0;
    const std::size_t n = device_.poll(events);
    for (std::size_t i = 0; i < n; ++i)
      operations += submit(static_cast<std::size_t>(index(events[i].segment)));
    return operations;
  }
  [[nodiscard]] sim::device& device() { return device_; }

private:
  struct lane {
    lane_id id{};
    const program* model = nullptr;
    std::size_t at = 0;
  };

  std::size_t submit(std::size_t on) {
    lane& l = lanes_[on];
    if (l.model == nullptr || l.at == l.model->size()) {
      l.model = &programs_[next_++ % programs_.size()];
      l.at = 0;
    }
    const std::size_t end = l.model->cut(l.at, from_us(100));
    segment s;
    s.id = segment_id{on};
    s.lane = l.id;
    s.program = l.model->id();
    s.first = static_cast<std::uint32_t>(l.at);
    s.operations = l.model->range(l.at, end);
    if (device_.submit(s)) std::abort();
    l.at = end;
    return s.operations.size();
  }

  sim::device device_;
  std::deque<program> programs_;
  std::vector<lane> lanes_;
  std::size_t next_ = 0;
};

void run(benchmark::State& state, const std::vector<const char*>& models) {
  feeder f(models, static_cast<std::size_t>(state.range(0)));
  std::size_t operations = 0;
  for (auto _ : state) operations += f.turn();
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
  state.counters["virtual_s"] = to_s(f.device().now().time_since_epoch());
  state.counters["occupied"] = f.device().mean_occupied();
}

/// serve_mix's own mix: items_per_second is kernel launches a second.
void demo_mix(benchmark::State& state) {
  run(state, {"resnet18_b1", "resnet18_b1", "inception_v3_b1"});
}
/// Every model of batch 1.
void all_models(benchmark::State& state) {
  run(state,
      {"bert_base_b1", "googlenet_b1", "inception_v3_b1", "lenet_b1", "mobilenet_v2_b1",
       "resnet18_b1", "resnet50_b1", "squeezenet1_1_b1", "ssdlite_mobilenet_b1", "vgg16_b1"});
}
/// Large grids: many waves a kernel.
void many_waves(benchmark::State& state) { run(state, {"resnet50_b32", "vgg16_b32"}); }

BENCHMARK(demo_mix)->Name("sim/demo_mix")->ArgName("lanes")->Arg(1)->Arg(2)->Arg(4)->Arg(8);
BENCHMARK(all_models)->Name("sim/all_models")->ArgName("lanes")->Arg(4);
BENCHMARK(many_waves)->Name("sim/many_waves")->ArgName("lanes")->Arg(4);

} // namespace

BENCHMARK_MAIN();
