// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/grpc_front.hpp"
#include "gsched_server/requests/request_tensors.hpp"
#include "gsched_server/requests/service.hpp"
#include "gsched_server/requests/tensor.hpp"
#include "gsched_server/settings/settings.hpp"

#include <gsched/channel/client.hpp>

#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>

#include <open_inference.grpc.pb.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace inference;
using namespace std::chrono_literals;

namespace {

const std::string profiles = std::string(GSCHED_SOURCE_DIR) + "/tools/data/profiles/";

/// A service with a front end on a Unix socket, and a client in the same process.
struct fixture {
  explicit fixture(const std::string& configuration = "{}") {
    const std::string base = "/tmp/gsched_server_test." + std::to_string(::getpid());
    const std::string file = base + ".json";
    const std::string socket = "unix:" + base + ".sock";
    std::ofstream(file) << configuration;
    const char* const argv[] = {"test",   "--config", file.c_str(), "--grpc",        socket.c_str(),
                                "--http", "none",     "--profiles", profiles.c_str()};
    how = gsched_server::read_settings(9, argv);
    ::unlink(file.c_str());
    to.emplace(*how);
    front.emplace(*to, how->grpc, how->request_bytes);
    channel = grpc::CreateChannel(socket, grpc::InsecureChannelCredentials());
    stub = GRPCInferenceService::NewStub(channel);
  }

  /// What the model takes, as raw bytes.
  static ModelInferRequest request(const std::string& model, std::int64_t elements) {
    ModelInferRequest r;
    r.set_model_name(model);
    r.set_id("7");
    if (elements == 0) return r;
    auto& in = *r.add_inputs();
    in.set_name("input");
    in.set_datatype("FP32");
    in.add_shape(1);
    in.add_shape(elements);
    r.add_raw_input_contents(std::string(static_cast<std::size_t>(elements) * 4, 'x'));
    return r;
  }
  static ModelInferRequest lenet() { return request("lenet_b1", 784); }

  grpc::Status infer(const ModelInferRequest& r, ModelInferResponse* got = nullptr,
                     const std::vector<std::pair<std::string, std::string>>& metadata = {},
                     std::chrono::milliseconds within = 20s) {
    grpc::ClientContext call;
    for (const auto& [name, value] : metadata) call.AddMetadata(name, value);
    call.set_deadline(std::chrono::system_clock::now() + within);
    ModelInferResponse none;
    return stub->ModelInfer(&call, r, got != nullptr ? got : &none);
  }

  /// The ends of so many requests for the model `big`, at once.
  std::vector<grpc::Status>
  burst(std::size_t n, const std::vector<std::pair<std::string, std::string>>& metadata) {
    std::vector<grpc::Status> ends(n);
    std::vector<std::thread> all;
    for (grpc::Status& end : ends)
      all.emplace_back([&] { end = infer(request("big", 0), nullptr, metadata); });
    for (std::thread& t : all) t.join();
    return ends;
  }

  std::optional<gsched_server::settings> how;
  std::optional<gsched_server::service> to;
  std::optional<gsched_server::grpc_front> front;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<GRPCInferenceService::Stub> stub;
};

/// Shared mappings of this process that its core dumps leave out.
int kept_out_of_dumps() {
  std::ifstream smaps("/proc/self/smaps");
  bool shared = false;
  int found = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find("memfd:") != line.npos)
      shared = true;
    else if (line.starts_with("VmFlags:") && std::exchange(shared, false))
      found += line.find(" dd") != line.npos;
  }
  return found;
}

const char* const configuration = R"({
  "limits": {"requests": 64, "request_bytes": 1048576},
  "tenants": {"small": {"requests": 1, "real_time": false}},
  "models": {
    "lenet_b1": {},
    "big": {"profile": "vgg16_b32", "instances": 1, "inputs": []},
    "typed": {"profile": "lenet_b1",
      "inputs": [{"name": "a", "datatype": "INT8", "shape": [2]},
                 {"name": "b", "datatype": "FP64", "shape": [1, 1]}],
      "outputs": [{"name": "x", "datatype": "INT64", "shape": [2]},
                  {"name": "y", "datatype": "BOOL", "shape": [3]}]}
  }})";

} // namespace

TEST_CASE("gRPC: a server says what it is and what it has") {
  fixture f(configuration);
  const auto call = [](auto stub_call) {
    grpc::ClientContext context;
    CHECK(stub_call(&context).ok());
  };
  ServerLiveResponse live;
  call([&](auto* c) { return f.stub->ServerLive(c, {}, &live); });
  CHECK(live.live());
  ServerReadyResponse ready;
  call([&](auto* c) { return f.stub->ServerReady(c, {}, &ready); });
  CHECK(ready.ready());
  ServerMetadataResponse server;
  call([&](auto* c) { return f.stub->ServerMetadata(c, {}, &server); });
  CHECK(server.name() == "gsched_server");
  RepositoryIndexResponse index;
  call([&](auto* c) { return f.stub->RepositoryIndex(c, {}, &index); });
  REQUIRE(index.models_size() == 3);
  CHECK(index.models(1).name() == "lenet_b1");
  CHECK(index.models(1).state() == "READY");
  ModelMetadataRequest of;
  of.set_name("typed");
  ModelMetadataResponse model;
  call([&](auto* c) { return f.stub->ModelMetadata(c, of, &model); });
  CHECK(model.platform() == "gsched_simulated_profile");
  REQUIRE(model.inputs_size() == 2);
  CHECK(model.inputs(1).datatype() == "FP64");
  CHECK(model.outputs(1).shape(0) == 3);
  ModelReadyRequest unknown;
  unknown.set_name("nosuch");
  ModelReadyResponse never;
  grpc::ClientContext context;
  CHECK(f.stub->ModelReady(&context, unknown, &never).error_code() == grpc::NOT_FOUND);
}

TEST_CASE("gRPC: inference by raw and by typed contents") {
  fixture f(configuration);
  ModelInferResponse got;
  REQUIRE(f.infer(fixture::lenet(), &got).ok());
  CHECK(got.id() == "7");
  REQUIRE(got.outputs_size() == 1);
  CHECK(got.outputs(0).shape(1) == 10);
  CHECK(got.raw_output_contents(0) == std::string(40, '\0'));
  CHECK(got.parameters().at("latency_us").int64_param() > 20);

  ModelInferRequest r;
  r.set_model_name("typed");
  auto& b = *r.add_inputs(); // in any order
  b.set_name("b");
  b.set_datatype("FP64");
  b.add_shape(1);
  b.add_shape(1);
  b.mutable_contents()->add_fp64_contents(0.5);
  auto& a = *r.add_inputs();
  a.set_name("a");
  a.set_datatype("INT8");
  a.add_shape(2);
  a.mutable_contents()->add_int_contents(-128);
  a.mutable_contents()->add_int_contents(127);
  r.add_outputs()->set_name("y");
  REQUIRE(f.infer(r, &got).ok());
  REQUIRE(got.outputs_size() == 1);
  CHECK(got.outputs(0).name() == "y");
  CHECK(got.raw_output_contents(0).size() == 3);

  r.mutable_inputs(1)->mutable_contents()->set_int_contents(0, 128);
  CHECK(f.infer(r).error_message() == "input 'a': element 0 is 128, expected one of INT8");
}

TEST_CASE("gRPC: what a request breaks is one line of a status") {
  fixture f(configuration);
  const auto refuses = [&](grpc::StatusCode code, const std::string& text, auto change) {
    ModelInferRequest r = fixture::lenet();
    change(r);
    const grpc::Status s = f.infer(r);
    CHECK_MESSAGE(s.error_code() == code, s.error_message());
    CHECK_MESSAGE(s.error_message().find(text) != std::string::npos, s.error_message());
    CHECK(s.error_message().find('\n') == std::string::npos);
  };
  refuses(grpc::NOT_FOUND, "'nosuch'", [](auto& r) { r.set_model_name("nosuch"); });
  refuses(grpc::NOT_FOUND, "version '2'", [](auto& r) { r.set_model_version("2"); });
  refuses(grpc::INVALID_ARGUMENT, "missing",
          [](auto& r) { r.clear_inputs(), r.clear_raw_input_contents(); });
  refuses(grpc::INVALID_ARGUMENT, "expected input",
          [](auto& r) { r.mutable_inputs(0)->set_name("x"); });
  refuses(grpc::INVALID_ARGUMENT, "expected FP32",
          [](auto& r) { r.mutable_inputs(0)->set_datatype("FP16"); });
  refuses(grpc::INVALID_ARGUMENT, "shape [1,784,1]",
          [](auto& r) { r.mutable_inputs(0)->add_shape(1); });
  refuses(grpc::INVALID_ARGUMENT, "shape [1,-1]",
          [](auto& r) { r.mutable_inputs(0)->set_shape(1, -1); });
  refuses(grpc::INVALID_ARGUMENT, "0 bytes, expected 3136",
          [](auto& r) { r.set_raw_input_contents(0, ""); });
  refuses(grpc::INVALID_ARGUMENT, "3137 bytes",
          [](auto& r) { r.mutable_raw_input_contents(0)->append("x"); });
  refuses(grpc::INVALID_ARGUMENT, "raw_input_contents: 2",
          [](auto& r) { r.add_raw_input_contents("x"); });
  refuses(grpc::INVALID_ARGUMENT, "contents beside",
          [](auto& r) { r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); });
  refuses(grpc::INVALID_ARGUMENT, "0 bytes, expected 3136",
          [](auto& r) { r.clear_raw_input_contents(); });
  refuses(grpc::INVALID_ARGUMENT, "there twice", [](auto& r) {
    *r.add_inputs() = r.inputs(0), r.add_raw_input_contents(r.raw_input_contents(0));
  });
  refuses(grpc::INVALID_ARGUMENT, "output 'z'", [](auto& r) { r.add_outputs()->set_name("z"); });
  refuses(grpc::INVALID_ARGUMENT, "deadline_ms: 0",
          [](auto& r) { (*r.mutable_parameters())["deadline_ms"].set_int64_param(0); });
  refuses(grpc::INVALID_ARGUMENT, "tenant",
          [](auto& r) { (*r.mutable_parameters())["tenant"].set_bool_param(true); });
  refuses(grpc::RESOURCE_EXHAUSTED, "",
          [](auto& r) { r.add_raw_input_contents(std::string(3 << 20, 'x')); });
  refuses(grpc::PERMISSION_DENIED, "tenant 'small'", [](auto& r) {
    (*r.mutable_parameters())["tenant"].set_string_param("small");
    (*r.mutable_parameters())["priority"].set_string_param("real_time");
  });
  ModelInferRequest no_time = fixture::request("big", 0);
  (*no_time.mutable_parameters())["deadline_ms"].set_double_param(0.5);
  CHECK(f.infer(no_time).error_code() == grpc::DEADLINE_EXCEEDED);
  CHECK(f.infer(fixture::lenet(), nullptr, {{"gsched-deadline-ms", "x"}}).error_code() ==
        grpc::INVALID_ARGUMENT);
}

TEST_CASE("gRPC: an id comes with each answer") {
  fixture f(configuration);
  const auto trailer_of = [&](ModelInferRequest r, const char* asks, const char* name) {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + 20s);
    if (asks != nullptr) call.AddMetadata("x-request-id", asks);
    ModelInferResponse none;
    static_cast<void>(f.stub->ModelInfer(&call, r, &none));
    const auto& all = call.GetServerTrailingMetadata();
    const auto found = all.find(name);
    return found == all.end() ? std::string()
                              : std::string(found->second.data(), found->second.size());
  };
  CHECK(trailer_of(fixture::lenet(), "mine", "x-request-id") == "mine");
  CHECK(trailer_of(fixture::lenet(), nullptr, "x-request-id") == "7"); // the message's
  CHECK(trailer_of(fixture::request("nosuch", 0), "lost", "x-request-id") == "lost");
  ModelInferRequest unnamed = fixture::lenet();
  unnamed.clear_id();
  CHECK(trailer_of(unnamed, nullptr, "x-request-id").size() == 16);
  // The library keeps the load report from programs: see tests/cli/gsched_operations.py.
}

TEST_CASE("gRPC: over a limit a request is told when to try again") {
  fixture f(configuration);
  int served = 0, told = 0;
  for (int tries = 0; tries < 10 && told == 0; ++tries) { // they may come one after another
    const auto ends = f.burst(6, {{"gsched-tenant", "small"}});
    for (const grpc::Status& s : ends) {
      CHECK((s.ok() || s.error_code() == grpc::RESOURCE_EXHAUSTED));
      served += s.ok();
      told +=
          s.error_details().find("type.googleapis.com/google.rpc.RetryInfo") != std::string::npos;
    }
  }
  CHECK(served > 0);
  CHECK(told > 0);
}

TEST_CASE("gRPC: a deadline that can no longer be met is refused") {
  fixture f(configuration);
  int served = 0, late = 0;
  for (int tries = 0; tries < 10 && (served == 0 || late == 0); ++tries) {
    // One instance: the last of them would wait for seven.
    for (const grpc::Status& s :
         f.burst(8, {{"gsched-real-time", "true"}, {"gsched-deadline-ms", "40"}})) {
      CHECK((s.ok() || s.error_code() == grpc::DEADLINE_EXCEEDED));
      ++(s.ok() ? served : late);
    }
  }
  CHECK(served > 0);
  CHECK(late > 0);
}

TEST_CASE("gRPC: a call that is cancelled, or whose own deadline passes, ends its request") {
  fixture f(configuration);
  for (const bool by_deadline : {false, true}) {
    const int calls = 12; // 80 ms of work or more
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::thread> all;
    std::atomic<int> ended{0};
    for (int i = 0; i < calls; ++i) {
      auto& context = *contexts.emplace_back(std::make_unique<grpc::ClientContext>());
      if (by_deadline) context.set_deadline(std::chrono::system_clock::now() + 60ms);
      all.emplace_back([&] {
        ModelInferResponse none;
        const grpc::Status s = f.stub->ModelInfer(&context, fixture::request("big", 0), &none);
        if (!s.ok()) ++ended;
      });
    }
    if (!by_deadline) {
      std::this_thread::sleep_for(20ms);
      for (const auto& each : contexts) each->TryCancel();
    }
    for (std::thread& t : all) t.join();
    CHECK(ended > 0);
    CHECK(f.to->wait_idle(10s));
    CHECK(f.to->metrics().find(
              R"(gsched_requests_total{model="big",tenant="default",end="cancelled"})") !=
          std::string::npos);
  }
}

TEST_CASE("gRPC: a stream answers each of its requests") {
  fixture f(configuration);
  grpc::ClientContext context;
  const auto stream = f.stub->ModelStreamInfer(&context);
  const int most = 200; // more than are in service at once
  std::thread writes([&] {
    for (int i = 0; i < most; ++i) {
      ModelInferRequest r = i % 10 == 9 ? fixture::request("nosuch", 0) : fixture::lenet();
      r.set_id(std::to_string(i));
      CHECK(stream->Write(r));
    }
    stream->WritesDone();
  });
  std::vector<int> seen(most);
  int errors = 0;
  for (ModelStreamInferResponse r; stream->Read(&r);) {
    ++seen.at(static_cast<std::size_t>(std::stoi(r.infer_response().id())));
    if (!r.error_message().empty()) ++errors;
  }
  writes.join();
  CHECK(stream->Finish().ok());
  CHECK(std::count(seen.begin(), seen.end(), 1) == most);
  CHECK(errors == most / 10);

  grpc::ClientContext leaves; // with requests in service
  const auto other = f.stub->ModelStreamInfer(&leaves);
  for (int i = 0; i < 20; ++i) CHECK(other->Write(fixture::request("big", 0)));
  leaves.TryCancel();
  CHECK(other->Finish().error_code() == grpc::CANCELLED);
  CHECK(f.to->wait_idle(10s));
}

TEST_CASE("clients of the channel are served beside it") {
  const std::string socket = "/tmp/gsched_server_test." + std::to_string(::getpid()) + ".channel";
  fixture f(R"({"models": {"lenet_b1": {}}, "socket": ")" + socket + "\"}");
  gsched::channel::client c(socket);
  const auto m = c.model("lenet_b1");
  REQUIRE(m.payload_bytes() == 784 * 4 + 40);
  const std::span<std::byte> io = c.allocate(m.payload_bytes());
  std::ranges::fill(io, std::byte{1});
  c.predict(m, io);
  CHECK(c.read_result().how == gsched::channel::outcome::finished);
  CHECK(std::ranges::count(io.subspan(m.input_bytes), std::byte{0}) == 40);
  CHECK(kept_out_of_dumps() == 1); // the server's mapping of this client's arena; not the client's
  CHECK(f.infer(fixture::lenet()).ok());
  CHECK(f.to->metrics().find("\ngsched_channel_clients{device=\"0\"} 1\n") != std::string::npos);

  gsched_server::settings changed = *f.how; // the model is another one of its name
  changed.models.front().instances = 2;
  f.to->reload(changed);
  CHECK(c.model("lenet_b1").id != m.id);
  c.predict(c.model("lenet_b1"), io);
  CHECK(c.read_result().how == gsched::channel::outcome::finished);
}

TEST_CASE("gRPC: a drain serves what was accepted, and refuses what comes after") {
  fixture f(configuration);
  std::atomic<int> served{0}, refused{0}, others{0};
  std::atomic<bool> stop{false}, closes{false};
  std::vector<std::thread> all;
  for (int i = 0; i < 4; ++i)
    all.emplace_back([&, i] {
      while (!stop) {
        const grpc::Status s = f.infer(i == 0 ? fixture::request("big", 0) : fixture::lenet());
        if (s.ok()) {
          ++served;
        } else { // gRPC itself cancels calls that come while it closes
          ++(s.error_code() == grpc::UNAVAILABLE || (closes && s.error_code() == grpc::CANCELLED)
                 ? refused
                 : others);
          std::this_thread::sleep_for(5ms);
        }
      }
    });
  std::this_thread::sleep_for(150ms);
  f.to->stop_accepting();
  CHECK(f.to->wait_idle(10s));
  ServerReadyResponse ready;
  grpc::ClientContext context;
  CHECK(f.stub->ServerReady(&context, {}, &ready).ok());
  CHECK(!ready.ready());
  std::this_thread::sleep_for(20ms);
  closes = true;
  f.front->shut_down(5s);
  stop = true;
  for (std::thread& t : all) t.join();
  CHECK(served > 10);
  CHECK(refused > 0);
  CHECK(others == 0);
  double counted = 0; // each request that the server has served has reached its client
  std::istringstream metrics(f.to->metrics());
  for (std::string line; std::getline(metrics, line);)
    if (line.starts_with("gsched_requests_total") && line.find(R"(end="ok")") != line.npos)
      counted += std::stod(line.substr(line.rfind(' ')));
  CHECK(counted == served);
}

TEST_CASE("gRPC: TLS, and certificates of clients") {
  const std::string base = "/tmp/gsched_server_test." + std::to_string(::getpid());
  if (std::system("openssl version >/dev/null 2>&1") != 0) {
    std::puts("gRPC with TLS, no openssl: passed over");
    return;
  }
  for (const char* const name : {"server", "client"}) {
    const std::string file = base + "." + name;
    REQUIRE(
        std::system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                     "-days 2 -keyout " +
                     file + ".key -out " + file +
                     ".pem -subj /CN=localhost -addext subjectAltName=DNS:localhost "
                     ">/dev/null 2>&1")
                        .c_str()) == 0);
  }
  const auto read = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  fixture f(configuration);
  const auto asks = [&](const gsched_server::tls_files& files, grpc::SslCredentialsOptions how) {
    const gsched_server::grpc_front secure(
        *f.to, gsched_server::to_address("--grpc", "127.0.0.1:0"), 1 << 20, files);
    how.pem_root_certs = read(base + ".server.pem");
    grpc::ChannelArguments named; // by number, as gRPC's resolver of names has leaks
    named.SetSslTargetNameOverride("localhost");
    const auto stub = GRPCInferenceService::NewStub(grpc::CreateCustomChannel(
        "ipv4:" + secure.listens_at().text(), grpc::SslCredentials(how), named));
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + 20s);
    ModelInferResponse none;
    return stub->ModelInfer(&call, fixture::lenet(), &none);
  };
  gsched_server::tls_files files{base + ".server.pem", base + ".server.key", ""};
  CHECK(asks(files, {}).ok());
  files.authority = base + ".client.pem";
  CHECK(asks(files, {}).error_code() == grpc::UNAVAILABLE);
  const grpc::SslCredentialsOptions shows{"", read(base + ".client.key"),
                                          read(base + ".client.pem")};
  CHECK(asks(files, shows).ok());
  for (const char* const file : {".server.key", ".server.pem", ".client.key", ".client.pem"})
    ::unlink((base + file).c_str());
}

TEST_CASE("gRPC: a model of an adaptor computes its outputs") {
  const std::string library = std::string(GSCHED_ADAPTORS) + "faulty.so";
  fixture f(R"({"models": {"own": {"adaptor": ")" + library + R"("},
               "throws": {"adaptor": ")" +
            library + R"(", "parameters": "later"}}})");
  ModelMetadataRequest of;
  of.set_name("own");
  ModelMetadataResponse model;
  grpc::ClientContext context;
  CHECK(f.stub->ModelMetadata(&context, of, &model).ok());
  CHECK(model.platform() == "gsched_adaptor");
  CHECK(model.properties().at("outputs") == "computed");
  REQUIRE(model.outputs_size() == 2);
  CHECK(model.outputs(1).datatype() == "INT16");

  ModelInferRequest r;
  r.set_model_name("own");
  for (const auto& [name, type, elements] :
       {std::tuple("x", "FP64", 2), std::tuple("flags", "BOOL", 3)}) {
    auto& in = *r.add_inputs();
    in.set_name(name);
    in.set_datatype(type);
    in.add_shape(elements);
  }
  const double x[2] = {1.5, -4};
  r.add_raw_input_contents(std::string(reinterpret_cast<const char*>(x), sizeof x));
  r.add_raw_input_contents(std::string("\1\0\1", 3));
  const auto doubled = [](const std::string& bytes) {
    double y[2];
    REQUIRE(bytes.size() == sizeof y);
    std::memcpy(y, bytes.data(), sizeof y);
    return y[0] == 3 && y[1] == -8;
  };
  ModelInferResponse got;
  REQUIRE(f.infer(r, &got).ok());
  REQUIRE(got.raw_output_contents_size() == 2);
  CHECK(doubled(got.raw_output_contents(0)));
  CHECK(got.raw_output_contents(1) == std::string("\2\0", 2));
  for (const char* const name : {"n", "y", "y"}) r.add_outputs()->set_name(name);
  REQUIRE(f.infer(r, &got).ok());
  REQUIRE(got.raw_output_contents_size() == 3);
  CHECK(doubled(got.raw_output_contents(1)));
  CHECK(doubled(got.raw_output_contents(2)));

  r.set_model_name("throws");
  for (int i = 0; i < 10; ++i) { // more than its instances
    const grpc::Status s = f.infer(r);
    CHECK(s.error_code() == grpc::INTERNAL);
    CHECK(s.error_message() == "later, expected no such thing");
  }
  gsched_server::settings changed = *f.how;
  changed.models.front().adaptor.parameters = "init";
  CHECK_THROWS_WITH(f.to->reload(changed),
                    ("model own: adaptor " + library + ": init: no weights here").c_str());
  r.set_model_name("own");
  CHECK(f.infer(r).ok());
}

TEST_CASE("an adaptor aligns its requests' inputs") {
  const double x[2] = {1.5, -4};
  std::vector<std::byte> memory(64);
  const std::span<std::byte> odd = std::span(memory).subspan(1, sizeof x);
  std::memcpy(odd.data(), x, sizeof x);
  const std::vector<gsched_server::tensor_spec> in{
      {"x", gsched_server::find_datatype("FP64"), {2}}};
  const std::vector<gsched_server::tensor_spec> out{
      {"a", gsched_server::find_datatype("INT8"), {1}},
      {"y", gsched_server::find_datatype("FP64"), {1}}};
  gsched_server::request_tensors t;
  const std::span<const std::byte> given = odd;
  t.prepare({&given, 1}, in, out);
  CHECK(reinterpret_cast<std::uintptr_t>(t.inputs()[0].data()) % 8 == 0);
  CHECK(std::memcmp(t.inputs()[0].data(), x, sizeof x) == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(t.outputs()[1].data()) % 8 == 0);
  CHECK(t.take_outputs()[1] == std::string(8, '\0'));
}

#ifdef GSCHED_VECTOR_ADD
TEST_CASE("clients of the channel are served by an adaptor in their own memory") {
  const std::string socket = "/tmp/gsched_server_test." + std::to_string(::getpid()) + ".channel";
  fixture f(R"({"models": {"add": {"adaptor": ")" GSCHED_VECTOR_ADD R"("}}, "socket": ")" + socket +
            "\"}");
  gsched::channel::client c(socket);
  const auto m = c.model("add");
  REQUIRE(m.payload_bytes() == 48);
  const std::span<std::byte> io = c.allocate(m.payload_bytes());
  auto* const all = reinterpret_cast<float*>(io.data());
  for (int i = 0; i < 8; ++i) all[i] = static_cast<float>(i) + 0.5F;
  c.predict(m, io);
  CHECK(c.read_result().how == gsched::channel::outcome::finished);
  for (int i = 0; i < 4; ++i) CHECK(all[8 + i] == static_cast<float>(2 * i + 5));
}
#endif
