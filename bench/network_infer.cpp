// SPDX-License-Identifier: Apache-2.0
//
// Requests a second of gsched_server over gRPC on a Unix socket, and their latency: of so many
// connections, each with one request in flight, for the smallest shipped model (29 us alone) on
// the paced simulator; and the same through the channel. Server and clients share this machine.
// The latency is split into what is outside the server (client, gRPC or channel, reply), the wait
// for the device, and the device, copies included. Every request has to finish; otherwise the
// program ends with 1.
#include "gsched_server/network/grpc_front.hpp"
#include "gsched_server/requests/service.hpp"
#include "gsched_server/settings/settings.hpp"

#include <gsched/channel/client.hpp>

#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <open_inference.grpc.pb.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;

std::atomic<bool> all_right{true};

/// A request's latency in microseconds, and the server's parts of it.
struct sample {
  double total = 0, waited = 0, device = 0;
  [[nodiscard]] double outside() const noexcept { return total - waited - device; }
};

[[nodiscard]] double us_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
}

/// One connection of gRPC.
class grpc_connection {
public:
  grpc_connection(const std::string& address, const std::string&) {
    grpc::ChannelArguments how;
    how.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); // or several would share one socket
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), how));
    request_.set_model_name("lenet_b1");
    auto& in = *request_.add_inputs();
    in.set_name("input");
    in.set_datatype("FP32");
    in.add_shape(1);
    in.add_shape(784);
    request_.add_raw_input_contents(std::string(std::size_t{4} * 784, 'x'));
  }
  void send(int count, std::vector<sample>& to) {
    for (int i = 0; i < count; ++i) {
      grpc::ClientContext call;
      inference::ModelInferResponse got;
      const auto begin = clock_type::now();
      if (!stub_->ModelInfer(&call, request_, &got).ok()) all_right = false;
      const double total = us_since(begin);
      const auto us = [&](const char* name) {
        return static_cast<double>(got.parameters().at(name).int64_param());
      };
      to.push_back({total, us("wait_us"), us("latency_us") - us("wait_us")});
    }
  }

private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  inference::ModelInferRequest request_;
};

/// One client of the channel.
class channel_connection {
public:
  channel_connection(const std::string&, const std::string& socket)
      : client_(socket, {.arena_bytes = 1 << 20, .wait = gsched::channel::wait_by::hybrid}),
        model_(client_.model("lenet_b1")), io_(client_.allocate(model_.payload_bytes())) {}
  void send(int count, std::vector<sample>& to) {
    for (int i = 0; i < count; ++i) {
      const auto begin = clock_type::now();
      client_.predict(model_, io_);
      const gsched::channel::reply r = client_.read_result();
      if (r.how != gsched::channel::outcome::finished) all_right = false;
      const double waited = gsched::to_us(r.waited), latency = gsched::to_us(r.latency);
      to.push_back({us_since(begin), waited, latency - waited});
    }
  }

private:
  gsched::channel::client client_;
  gsched::channel::model_entry model_;
  std::span<std::byte> io_;
};

template <class Connection>
void infer(benchmark::State& state) {
  const std::string path = "/tmp/gsched-bench." + std::to_string(::getpid());
  const std::string address = "unix:" + path + ".grpc", socket = path + ".channel";
  const std::string model = GSCHED_SOURCE_DIR "/tools/data/profiles/lenet_b1.json";
  const char* const argv[] = {"bench",    "--grpc",       address.c_str(), "--http",     "none",
                              "--socket", socket.c_str(), "--profiles",    model.c_str()};
  const auto how = gsched_server::read_settings(static_cast<int>(std::size(argv)), argv);
  gsched_server::service service(*how);
  gsched_server::grpc_front front(service, how->grpc, how->request_bytes);
  const auto clients = static_cast<std::size_t>(state.range(0));
  constexpr int each = 300;
  std::vector<std::unique_ptr<Connection>> all;
  for (std::size_t i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<Connection>(address, socket));
    std::vector<sample> warm;
    all.back()->send(20, warm);
  }
  std::vector<sample> taken;
  for (auto _ : state) {
    std::vector<std::vector<sample>> of(clients);
    const auto begin = clock_type::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients; ++i)
      threads.emplace_back([&, i] { all[i]->send(each, of[i]); });
    for (std::thread& t : threads) t.join();
    state.SetIterationTime(std::chrono::duration<double>(clock_type::now() - begin).count());
    for (const std::vector<sample>& some : of) taken.insert(taken.end(), some.begin(), some.end());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(taken.size()));
  const auto tell = [&](const std::string& name, auto part) {
    std::vector<double> us;
    for (const sample& s : taken) us.push_back(std::invoke(part, s));
    std::sort(us.begin(), us.end());
    state.counters[name + "p50_us"] = us[us.size() / 2];
    state.counters[name + "p99_us"] = us[us.size() * 99 / 100];
  };
  tell("", &sample::total);
  tell("outside_", &sample::outside);
  tell("waited_", &sample::waited);
  tell("device_", &sample::device);
}

BENCHMARK(infer<grpc_connection>)->Name("infer")->Arg(1)->Arg(8)->Arg(16)->UseManualTime();
BENCHMARK(infer<channel_connection>)->Name("channel")->Arg(1)->Arg(8)->Arg(16)->UseManualTime();

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return all_right ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << "gsched.bench.network_infer: " << e.what() << '\n';
  return 1;
}
