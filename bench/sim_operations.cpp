// SPDX-License-Identifier: Apache-2.0
//
// Operations that the simulated device runs a second, on real models with contention.
//
//   sim/...    lanes that are always busy, in segments of 100 us, two in flight on each lane: the
//              host's total cost of submitting, polling and simulating
//   serve/...  the work of serve_mix: its 2000 requests at a load, with the dispatcher under srpt
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/srpt.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/workload/arrivals.hpp>
#include <gsched/workload/serve_workload.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace gsched;

profile read_model(const char* name) {
  const std::string path = std::string(GSCHED_SOURCE_DIR) + "/tools/data/profiles/" + name;
  return load_profile(std::filesystem::path(path + ".json"));
}

/// Keeps each lane busy with one model after another.
class feeder {
public:
  feeder(const std::vector<const char*>& models, std::size_t lanes) : device_(sim::h200()) {
    for (const char* m : models) device_.load(programs_.emplace_back(to_program(read_model(m))));
    lanes_.resize(lanes);
    for (std::size_t i = 0; i < lanes; ++i) lanes_[i].id = device_.open_lane({});
    for (std::size_t i = 0; i < lanes; ++i)
      for (int k = 0; k < 2; ++k) submit(i);
  }

  /// Waits for the end of some segments and replaces them; returns the number of their operations.
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

/// The mix of serve_mix: items_per_second is kernel launches a second.
void demo_mix(benchmark::State& state) {
  run(state, {"resnet18_b1", "resnet18_b1", "inception_v3_b1"});
}
/// Every model at batch size 1.
void all_models(benchmark::State& state) {
  run(state,
      {"bert_base_b1", "googlenet_b1", "inception_v3_b1", "lenet_b1", "mobilenet_v2_b1",
       "resnet18_b1", "resnet50_b1", "squeezenet1_1_b1", "ssdlite_mobilenet_b1", "vgg16_b1"});
}
/// Large grids, with many waves a kernel.
void many_waves(benchmark::State& state) { run(state, {"resnet50_b32", "vgg16_b32"}); }

/// The two models of the demo with their weights, served like serve_mix by default.
class served_mix {
public:
  served_mix() {
    double weights = 0;
    for (const auto& [name, weight] : {std::pair{"resnet18_b1", 2.0}, {"inception_v3_b1", 1.0}}) {
      const profile p = read_model(name);
      models_.push_back({to_program(p), p.input, p.output, weight});
      weights += weight;
    }
    for (std::uint32_t m = 0; m < models_.size(); ++m) {
      lone_source one{m};
      mean_solo_s_ += models_[m].weight / weights * serve(one, 1).span_s;
    }
  }

  struct outcome {
    std::uint64_t operations = 0;
    double span_s = 0; ///< until the end of the last request
  };

  /// Open-loop requests at `load` times the rate that saturates the mean model alone.
  outcome serve(double load, double sigma) {
    std::vector<double> weights;
    for (const model& m : models_) weights.push_back(m.weight);
    const request_mix what(weights, clients);
    const double rate = load / mean_solo_s_;
    any_arrival_source from = sigma > 0 ? open_arrivals::lognormal(rate, sigma, what, 1)
                                        : open_arrivals::poisson(rate, what, 1);
    return serve(from, 2000);
  }

private:
  static constexpr std::uint32_t clients = 8;

  struct model {
    program graph;
    byte_count input{};
    byte_count output{};
    double weight = 1;

    task operator()(job_context& ctx) {
      const stream_id s = ctx.default_stream();
      ctx.copy_async(s, copy_direction::host_to_device, input);
      ctx.launch(s, graph);
      ctx.copy_async(s, copy_direction::device_to_host, output);
      co_return;
    }
  };
  /// One request of one model.
  struct lone_source {
    std::uint32_t model;
    std::optional<arrival> next() { return arrival{time_point{}, model, client_id{0}}; }
    void on_reply(client_id, time_point) {}
  };

  template <arrival_source Source>
  outcome serve(Source& from, std::uint64_t requests) {
    sim::device device(sim::h200());
    aggregate_accountant account(device.limits().sm, device.limits().sms);
    silent_listener hears;
    srpt order;
    dispatcher<srpt, sim::device, aggregate_accountant> dispatch(device, order, account, hears);
    std::vector<model_id> ids;
    for (model& m : models_) {
      dispatch.load(m.graph);
      ids.push_back(dispatch.add_model(m.graph.name(), m, &m.graph));
    }
    std::vector<client*> owners;
    for (std::uint32_t i = 0; i < clients; ++i) owners.push_back(&dispatch.add_client());
    const auto submit = [&](const arrival& q) {
      job_request r;
      r.model = ids[q.model];
      r.owner = owners[index(q.client)];
      r.arrival = q.at;
      static_cast<void>(dispatch.submit(r));
    };
    serve_workload(dispatch, device, from, requests, submit, [] {});
    if (dispatch.statistics().finished != requests) std::abort();
    return {dispatch.statistics().operations, to_s(device.now().time_since_epoch())};
  }

  std::deque<model> models_;
  double mean_solo_s_ = 0;
};

/// Load in percent, and ten times the sigma of lognormal gaps between requests; 0: Poisson.
void demo(benchmark::State& state) {
  served_mix mix;
  served_mix::outcome last;
  std::uint64_t operations = 0;
  for (auto _ : state) {
    last = mix.serve(static_cast<double>(state.range(0)) / 100,
                     static_cast<double>(state.range(1)) / 10);
    operations += last.operations;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
  state.counters["virtual_s"] = last.span_s;
}

BENCHMARK(demo_mix)->Name("sim/demo_mix")->ArgName("lanes")->Arg(1)->Arg(2)->Arg(4)->Arg(8);
BENCHMARK(all_models)->Name("sim/all_models")->ArgName("lanes")->Arg(4);
BENCHMARK(many_waves)->Name("sim/many_waves")->ArgName("lanes")->Arg(4);
BENCHMARK(demo)
    ->Name("serve/demo")
    ->ArgNames({"load", "sigma10"})
    ->Args({240, 20})
    ->Args({90, 0})
    ->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
