// SPDX-License-Identifier: Apache-2.0
//
// Requests a second of gsched_server over gRPC on a Unix socket, and their latency: of so many
// connections, each with one request in flight, for the smallest shipped model (29 us alone) on
// the paced simulator. Server and clients share this machine. Every request has to finish;
// otherwise the program ends with 1.
#include "gsched_server/network/grpc_front.hpp"
#include "gsched_server/requests/service.hpp"
#include "gsched_server/settings/settings.hpp"

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
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;

std::atomic<bool> all_right{true};

/// One connection, and the latencies of its requests in microseconds.
class connection {
public:
  explicit connection(const std::string& address) {
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
  void send(int count, std::vector<double>& us) {
    for (int i = 0; i < count; ++i) {
      grpc::ClientContext call;
      inference::ModelInferResponse got;
      const auto begin = clock_type::now();
      if (!stub_->ModelInfer(&call, request_, &got).ok()) all_right = false;
      us.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
    }
  }

private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  inference::ModelInferRequest request_;
};

void infer(benchmark::State& state) {
  const std::string address = "unix:/tmp/gsched-bench." + std::to_string(::getpid()) + ".sock";
  const std::string model = GSCHED_SOURCE_DIR "/tools/data/profiles/lenet_b1.json";
  const char* const argv[] = {"bench", "--grpc",     address.c_str(), "--http",
                              "none",  "--profiles", model.c_str()};
  const auto how = gsched_server::read_settings(7, argv);
  gsched_server::service service(*how);
  gsched_server::grpc_front front(service, how->grpc, how->request_bytes);
  const auto clients = static_cast<std::size_t>(state.range(0));
  constexpr int each = 300;
  std::vector<std::unique_ptr<connection>> all;
  for (std::size_t i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<connection>(address));
    std::vector<double> warm;
    all.back()->send(20, warm);
  }
  std::vector<double> us;
  for (auto _ : state) {
    std::vector<std::vector<double>> of(clients);
    const auto begin = clock_type::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients; ++i)
      threads.emplace_back([&, i] { all[i]->send(each, of[i]); });
    for (std::thread& t : threads) t.join();
    state.SetIterationTime(std::chrono::duration<double>(clock_type::now() - begin).count());
    for (const std::vector<double>& some : of) us.insert(us.end(), some.begin(), some.end());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(us.size()));
  std::sort(us.begin(), us.end());
  state.counters["p50_us"] = us[us.size() / 2];
  state.counters["p99_us"] = us[us.size() * 99 / 100];
}

BENCHMARK(infer)->Arg(1)->Arg(8)->Arg(16)->UseManualTime();

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
