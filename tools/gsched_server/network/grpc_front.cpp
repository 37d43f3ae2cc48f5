// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/grpc_front.hpp"

#include "gsched_server/network/about.hpp"
#include "gsched_server/network/socket_listener.hpp"
#include "gsched_server/network/wire_format.hpp"
#include "gsched_server/operations/load_report.hpp"
#include "gsched_server/operations/request_id.hpp"
#include "gsched_server/requests/service.hpp"

#include "common/cli/option_values.hpp"
#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/read_text.hpp>

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <open_inference.grpc.pb.h>

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched_server {

using common::in_quotes;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

namespace {

// Statuses --------------------------------------------------------------------------------------

grpc::StatusCode code_of(outcome o) noexcept {
  switch (o) {
  case outcome::ok: return grpc::OK;
  case outcome::invalid: return grpc::INVALID_ARGUMENT;
  case outcome::not_found: return grpc::NOT_FOUND;
  case outcome::denied: return grpc::PERMISSION_DENIED;
  case outcome::exhausted: return grpc::RESOURCE_EXHAUSTED;
  case outcome::late: return grpc::DEADLINE_EXCEEDED;
  case outcome::cancelled: return grpc::CANCELLED;
  case outcome::unavailable: return grpc::UNAVAILABLE;
  case outcome::failed: break;
  }
  return grpc::INTERNAL;
}

/// google.rpc.Status with a google.rpc.RetryInfo, as clients of gRPC know them.
std::string retry_details(grpc::StatusCode code, const answer& a) {
  using namespace wire;
  const auto ns = static_cast<std::uint64_t>(a.retry_after.count());
  std::string delay, info, any, status;
  put_number(delay, 1, ns / 1'000'000'000);
  put_number(delay, 2, ns % 1'000'000'000);
  put_bytes(info, 1, delay);
  put_bytes(any, 1, "type.googleapis.com/google.rpc.RetryInfo");
  put_bytes(any, 2, info);
  put_number(status, 1, static_cast<std::uint64_t>(code));
  put_bytes(status, 2, a.line);
  put_bytes(status, 3, any);
  return status;
}

grpc::Status status_of(const answer& a) {
  if (a.what == outcome::ok) return grpc::Status::OK;
  const grpc::StatusCode code = code_of(a.what);
  if (a.retry_after > gsched::duration::zero()) return {code, a.line, retry_details(code, a)};
  return {code, a.line};
}

// Requests and responses --------------------------------------------------------------------------

parameter value_of(const inference::InferParameter& p) {
  switch (p.parameter_choice_case()) {
  case inference::InferParameter::kBoolParam: return p.bool_param();
  case inference::InferParameter::kInt64Param: return p.int64_param();
  case inference::InferParameter::kDoubleParam: return p.double_param();
  case inference::InferParameter::kUint64Param: return static_cast<double>(p.uint64_param());
  case inference::InferParameter::kStringParam: return std::string_view(p.string_param());
  case inference::InferParameter::PARAMETER_CHOICE_NOT_SET: break;
  }
  return std::string_view();
}

/// The metadata's, or the message's own one; of a stream, whose metadata is that of all its
/// messages, only that. Empty if there is none that can be used.
std::string id_of(const grpc::CallbackServerContext& call, const ModelInferRequest& request,
                  bool of_stream) {
  if (!of_stream)
    if (const auto given = call.client_metadata().find(request_id_header);
        given != call.client_metadata().end())
      if (const std::string_view id(given->second.data(), given->second.size()); is_request_id(id))
        return std::string(id);
  return is_request_id(request.id()) ? request.id() : std::string();
}

/// Metadata first, then the request's parameters; gRPC's deadline limits both.
void read_terms(terms& t, const grpc::CallbackServerContext& call,
                const ModelInferRequest& request) {
  for (const auto& [name, value] : call.client_metadata())
    t.set_header({name.data(), name.size()}, {value.data(), value.size()});
  for (const auto& [name, value] : request.parameters()) t.set(name, value_of(value));
  if (const auto by = call.deadline(); by != std::chrono::system_clock::time_point::max())
    t.limit(std::chrono::duration_cast<gsched::duration>(by - std::chrono::system_clock::now()));
}

/// A request of the protocol as one of the service. It refers to the request's memory, and to its
/// own for contents whose elements have another size in the protocol.
class decoded {
public:
  /// Errors   refusal (invalid)
  decoded(const ModelInferRequest& request, const model_plan& model) {
    const auto raw = static_cast<std::size_t>(request.raw_input_contents_size());
    if (raw != 0 && raw != static_cast<std::size_t>(request.inputs_size()))
      throw refusal(outcome::invalid, fmt::format("raw_input_contents: {} of them, expected one "
                                                  "for each of {} inputs",
                                                  raw, request.inputs_size()));
    std::vector<given_tensor> all;
    for (int i = 0; i < request.inputs_size(); ++i) {
      const ModelInferRequest::InferInputTensor& in = request.inputs(i);
      given_tensor g{in.name(), in.datatype(), {in.shape().data(), size_of(in.shape())}, {}};
      if (raw != 0) {
        if (in.has_contents())
          throw refusal(outcome::invalid, fmt::format("input {}: contents beside "
                                                      "raw_input_contents, expected one of them",
                                                      in_quotes(in.name())));
        g.bytes = std::as_bytes(std::span<const char>(request.raw_input_contents(i)));
      } else {
        g.bytes = typed(in.contents(), spec_of(g, model.inputs));
      }
      all.push_back(g);
    }
    inputs = in_order(all, model.inputs);
    for (const ModelInferRequest::InferRequestedOutputTensor& out : request.outputs()) {
      const auto found = std::find_if(model.outputs.begin(), model.outputs.end(),
                                      [&](const tensor_spec& t) { return t.name == out.name(); });
      if (found == model.outputs.end())
        throw refusal(
            outcome::invalid,
            fmt::format("output {}: unknown, expected one of the model's", in_quotes(out.name())));
    }
  }

  std::vector<std::span<const std::byte>> inputs;

private:
  template <class Field>
  static std::size_t size_of(const Field& f) noexcept {
    return static_cast<std::size_t>(f.size());
  }
  template <class Field>
  static std::span<const std::byte> as_they_are(const Field& f) noexcept {
    return std::as_bytes(std::span(f.data(), size_of(f)));
  }
  /// Elements that the protocol has as 32 bits.
  template <class To, class Field>
  std::span<const std::byte> narrowed(const Field& f, const tensor_spec& t) {
    std::vector<std::byte>& bytes = converted_.emplace_back(size_of(f) * sizeof(To));
    for (std::size_t i = 0; i < size_of(f); ++i) {
      const auto wide = f[static_cast<int>(i)];
      const To narrow = static_cast<To>(wide);
      if (narrow != wide)
        throw refusal(outcome::invalid, fmt::format("input {}: element {} is {}, expected one of "
                                                    "{}",
                                                    in_quotes(t.name), i, wide, t.type->name));
      std::memcpy(bytes.data() + i * sizeof(To), &narrow, sizeof(To));
    }
    return bytes;
  }
  std::span<const std::byte> typed(const inference::InferTensorContents& c, const tensor_spec& t) {
    using kind = datatype::kind;
    switch (t.type->what) {
    case kind::boolean: return as_they_are(c.bool_contents());
    case kind::sint:
      switch (t.type->bytes) {
      case 1: return narrowed<std::int8_t>(c.int_contents(), t);
      case 2: return narrowed<std::int16_t>(c.int_contents(), t);
      case 4: return as_they_are(c.int_contents());
      default: return as_they_are(c.int64_contents());
      }
    case kind::uint:
      switch (t.type->bytes) {
      case 1: return narrowed<std::uint8_t>(c.uint_contents(), t);
      case 2: return narrowed<std::uint16_t>(c.uint_contents(), t);
      case 4: return as_they_are(c.uint_contents());
      default: return as_they_are(c.uint64_contents());
      }
    case kind::real:
      return t.type->bytes == 4 ? as_they_are(c.fp32_contents()) : as_they_are(c.fp64_contents());
    case kind::half: break;
    }
    throw refusal(outcome::invalid,
                  fmt::format("input {}: {} as contents, expected raw_input_contents",
                              in_quotes(t.name), t.type->name));
  }

  std::deque<std::vector<std::byte>> converted_;
};

void fill(ModelInferResponse& to, const ModelInferRequest& request, const served& m, answer& a) {
  to.set_model_name(m.plan.name);
  to.set_model_version("1");
  to.set_id(request.id());
  auto& facts = *to.mutable_parameters();
  facts["latency_us"].set_int64_param(
      std::chrono::ceil<std::chrono::microseconds>(a.latency).count());
  facts["wait_us"].set_int64_param(std::chrono::ceil<std::chrono::microseconds>(a.waited).count());
  if (a.missed_deadline) facts["missed_deadline"].set_bool_param(true);
  std::vector<bool> was_given(a.outputs.size()); // one may be asked for twice
  std::vector<int> given(a.outputs.size());
  const auto add = [&](std::size_t i) {
    const tensor_spec& t = m.plan.outputs[i];
    ModelInferResponse::InferOutputTensor& out = *to.add_outputs();
    out.set_name(t.name);
    out.set_datatype(t.type->name.data(), t.type->name.size());
    out.mutable_shape()->Add(t.shape.begin(), t.shape.end());
    if (a.outputs.empty()) {
      to.add_raw_output_contents(m.zeros[i]);
    } else if (!was_given[i]) {
      to.add_raw_output_contents(std::move(a.outputs[i]));
      was_given[i] = true;
      given[i] = to.raw_output_contents_size() - 1;
    } else {
      to.add_raw_output_contents(std::string(to.raw_output_contents(given[i])));
    }
  };
  for (std::size_t i = 0; i < m.plan.outputs.size() && request.outputs_size() == 0; ++i) add(i);
  for (const ModelInferRequest::InferRequestedOutputTensor& asked : request.outputs())
    for (std::size_t i = 0; i < m.plan.outputs.size(); ++i)
      if (m.plan.outputs[i].name == asked.name()) add(i);
}

// Messages are read and written here, since gRPC itself ends a call whose message it cannot read
// with a status that says something else, and a stream with none.

/// The bytes are freed. False if they are no request, or not all of one.
[[nodiscard]] bool try_read(grpc::ByteBuffer& bytes, ModelInferRequest& to) {
  return bytes.Valid() &&
         grpc::SerializationTraits<ModelInferRequest>::Deserialize(&bytes, &to).ok();
}
answer not_read() {
  return {.what = outcome::invalid,
          .reason = refused_for::protocol,
          .line = "the request is no message of the protocol, or ends too early, expected a whole "
                  "one"};
}
template <class Message>
[[nodiscard]] bool try_write(const Message& from, grpc::ByteBuffer& to) {
  bool own = false;
  return grpc::SerializationTraits<Message>::Serialize(from, &to, &own).ok();
}
answer not_written(std::string id) {
  return {.what = outcome::failed,
          .line = "outputs of 2 GiB or more, expected less",
          .id = std::move(id)};
}

/// The answer is another one if it cannot be written.
void fill(grpc::ByteBuffer& to, const ModelInferRequest& request, const served& m, answer& a) {
  ModelInferResponse response;
  fill(response, request, m, a);
  if (!try_write(response, to)) a = not_written(std::move(a.id));
}

/// One request of a call: decodes it, submits it, and can be cancelled at any time.
class running {
public:
  /// `ended` is called once, perhaps before it returns; this lives until then and until it returns.
  void start(service& on, const grpc::CallbackServerContext& call, const ModelInferRequest& request,
             bool of_stream, const std::function<void(answer&)>& ended) {
    service_request what;
    std::string id = id_of(call, request, of_stream);
    try {
      model_ = on.find(request.model_name(), request.model_version());
      what.model = model_;
      read_terms(what.with, call, request);
      what.with.id = std::move(id);
      what.inputs = decoded_.emplace(request, model_->plan).inputs;
    } catch (refusal& e) {
      if (what.with.id.empty()) what.with.id = std::move(id);
      answer says = on.count_refused(model_ ? model_->plan.name : "", what.with, std::move(e.says));
      return ended(says);
    }
    gsched::ticket t = on.infer(std::move(what), ended);
    const std::lock_guard lock(mutex_);
    ticket_ = std::move(t);
    if (cancelled_ && ticket_) ticket_.cancel();
  }
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (ticket_) ticket_.cancel();
  }
  /// Null for an unknown one.
  [[nodiscard]] const served* model() const noexcept { return model_.get(); }

private:
  served_ptr model_;
  std::optional<decoded> decoded_;
  std::mutex mutex_;
  gsched::ticket ticket_;
  bool cancelled_ = false;
};

/// ModelInfer. gRPC and start() each have a share of it.
class infer_call final : public grpc::ServerUnaryReactor {
public:
  explicit infer_call(grpc::ByteBuffer& response) : response_(response) {}

  [[nodiscard]] bool try_take(grpc::ByteBuffer& bytes) { return try_read(bytes, request_); }

  void start(service& on, grpc::CallbackServerContext& call) {
    running_.start(on, call, request_, false, [this, &on, &call](answer& a) {
      if (a.what == outcome::ok) fill(response_, request_, *running_.model(), a);
      call.AddTrailingMetadata(request_id_header, a.id);
      call.AddTrailingMetadata(load_header_binary, on.report()->binary);
      Finish(status_of(a));
    });
    release();
  }
  void OnCancel() override { running_.cancel(); }
  void OnDone() override { release(); }

private:
  void release() {
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  ModelInferRequest request_;
  grpc::ByteBuffer& response_;
  running running_;
  std::atomic<int> shares_{2};
};

/// ModelStreamInfer: responses come as their requests end. gRPC may call back from within its own
/// functions, so none of them is called with the lock.
class infer_stream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
public:
  infer_stream(service& on, const grpc::CallbackServerContext& call) : on_(on), call_(call) {
    read_on();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const std::unique_lock lock(mutex_);
      reads_done_ = true;
    } else {
      std::list<item>::iterator at;
      {
        const std::lock_guard lock(mutex_);
        live_.splice(live_.end(), next_);
        at = std::prev(live_.end());
        ++holds_; // for the response; the read's own one is for start
      }
      if (try_read(at->bytes, at->request)) {
        at->run.start(on_, call_, at->request, true, [this, at](answer& a) { ended(at, a); });
      } else {
        answer refused = on_.count_refused({}, {}, not_read());
        ended(at, refused);
      }
      if (cancelled_.load()) cancel_all();
      {
        const std::lock_guard lock(mutex_);
        drop(at);
      }
      read_on();
    }
    release();
  }
  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      drop(written_.front());
      written_.pop_front();
      writing_ = false;
      broken_ |= !ok;
    }
    if (!ok) cancel_all();
    write();
    read_on();
    release();
  }
  void OnCancel() override {
    cancelled_.store(true);
    cancel_all();
  }
  void OnDone() override { delete this; }

private:
  static constexpr std::size_t most_live = 64; ///< requests in service; more are not read yet
  struct item {
    grpc::ByteBuffer bytes; ///< of the request, then of the response
    ModelInferRequest request;
    running run;
    int shares = 2; ///< of its start, and of its response
  };
  /// With the lock.
  void drop(std::list<item>::iterator at) {
    if (--at->shares == 0) live_.erase(at);
  }

  /// Reads one more, if there is room for it.
  void read_on() {
    {
      const std::lock_guard lock(mutex_);
      if (reads_done_ || !next_.empty() || live_.size() >= most_live) return;
      next_.emplace_back();
      ++holds_;
    }
    StartRead(&next_.back().bytes);
  }

  static void name(ModelStreamInferResponse& to, const answer& a) {
    (*to.mutable_infer_response()->mutable_parameters())["request_id"].set_string_param(a.id);
  }
  void ended(std::list<item>::iterator at, answer& a) {
    ModelStreamInferResponse to;
    if (a.what == outcome::ok) {
      fill(*to.mutable_infer_response(), at->request, *at->run.model(), a);
      name(to, a);
      if (!try_write(to, at->bytes)) a = not_written(std::move(a.id));
    }
    if (a.what != outcome::ok) {
      to.Clear();
      to.set_error_message(fmt::format("{}: {}", to_string(a.what), a.line));
      to.mutable_infer_response()->set_id(at->request.id());
      to.mutable_infer_response()->set_model_name(at->request.model_name());
      name(to, a);
      static_cast<void>(try_write(to, at->bytes)); // it is small
    }
    {
      const std::lock_guard lock(mutex_);
      written_.push_back(at);
    }
    write(); // the response's hold is its write's
  }
  /// Writes the next response, if none is being written. Each response has a hold.
  void write() {
    const grpc::ByteBuffer* next = nullptr;
    std::size_t dropped = 0;
    {
      const std::lock_guard lock(mutex_);
      if (writing_) return;
      for (; broken_ && !written_.empty(); ++dropped) {
        drop(written_.front());
        written_.pop_front();
      }
      if (!written_.empty()) {
        next = &written_.front()->bytes;
        writing_ = true;
      }
    }
    for (; dropped > 0; --dropped) release();
    if (next != nullptr) StartWrite(next);
  }
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    for (item& i : live_) i.run.cancel();
  }
  /// The last one ends the call.
  void release() {
    {
      const std::lock_guard lock(mutex_);
      if (--holds_ > 0) return;
    }
    Finish(grpc::Status::OK);
  }

  service& on_;
  const grpc::CallbackServerContext& call_;
  std::mutex mutex_;                              ///< of what follows
  std::list<item> live_, next_;                   ///< those read, and the one being read
  std::deque<std::list<item>::iterator> written_; ///< responses, in the order of their ends
  std::size_t holds_ = 0;                         ///< reads, and responses that are not written
  bool reads_done_ = false, writing_ = false, broken_ = false;
  std::atomic<bool> cancelled_{false};
};

/// ModelInfer and ModelStreamInfer from and to bytes, and the other calls, each answered at once.
using protocol = inference::GRPCInferenceService;
using described_calls = protocol::WithCallbackMethod_ServerLive<
    protocol::WithCallbackMethod_ServerReady<protocol::WithCallbackMethod_ServerMetadata<
        protocol::WithCallbackMethod_ModelReady<protocol::WithCallbackMethod_ModelMetadata<
            protocol::WithCallbackMethod_RepositoryIndex<protocol::Service>>>>>>;
class calls final : public protocol::WithRawCallbackMethod_ModelInfer<
                        protocol::WithRawCallbackMethod_ModelStreamInfer<described_calls>> {
public:
  explicit calls(service& on) : on_(on) {}

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* call,
                                       const inference::ServerLiveRequest*,
                                       inference::ServerLiveResponse* to) override {
    to->set_live(true);
    return finish(call);
  }
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* call,
                                        const inference::ServerReadyRequest*,
                                        inference::ServerReadyResponse* to) override {
    to->set_ready(on_.ready());
    return finish(call);
  }
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* call,
                                       const inference::ModelReadyRequest* request,
                                       inference::ModelReadyResponse* to) override {
    return with_model(call, request->name(), request->version(),
                      [&](const served&) { to->set_ready(on_.ready()); });
  }
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* call,
                                           const inference::ServerMetadataRequest*,
                                           inference::ServerMetadataResponse* to) override {
    to->set_name(server_name);
    to->set_version(server_version);
    for (const char* const each : server_extensions) to->add_extensions(each);
    return finish(call);
  }
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* call,
                                          const inference::ModelMetadataRequest* request,
                                          inference::ModelMetadataResponse* to) override {
    return with_model(call, request->name(), request->version(), [&](const served& m) {
      to->set_name(m.plan.name);
      to->add_versions("1");
      to->set_platform(platform_of(m));
      const auto copy = [](const std::vector<tensor_spec>& from, auto& all) {
        for (const tensor_spec& t : from) {
          auto& one = *all.Add();
          one.set_name(t.name);
          one.set_datatype(t.type->name.data(), t.type->name.size());
          one.mutable_shape()->Add(t.shape.begin(), t.shape.end());
        }
      };
      copy(m.plan.inputs, *to->mutable_inputs());
      copy(m.plan.outputs, *to->mutable_outputs());
      for (const auto& [key, value] : properties_of(m)) (*to->mutable_properties())[key] = value;
    });
  }
  grpc::ServerUnaryReactor* RepositoryIndex(grpc::CallbackServerContext* call,
                                            const inference::RepositoryIndexRequest* request,
                                            inference::RepositoryIndexResponse* to) override {
    if (on_.ready() || !request->ready())
      for (const served_ptr& m : on_.models()) {
        auto& one = *to->add_models();
        one.set_name(m->plan.name);
        one.set_version("1");
        one.set_state(on_.ready() ? "READY" : "UNAVAILABLE");
        if (!on_.ready()) one.set_reason(on_.why_not_ready());
      }
    return finish(call);
  }
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* to) override {
    auto made = std::make_unique<infer_call>(*to);
    if (!made->try_take(const_cast<grpc::ByteBuffer&>(*bytes))) { // gRPC does not read them again
      const answer says = on_.count_refused({}, {}, not_read());
      call->AddTrailingMetadata(request_id_header, says.id);
      return finish(call, status_of(says));
    }
    made->start(on_, *call);
    return made.release();
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
  ModelStreamInfer(grpc::CallbackServerContext* call) override {
    return new infer_stream(on_, *call);
  }

private:
  static grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* call,
                                          const grpc::Status& s = grpc::Status::OK) {
    grpc::ServerUnaryReactor* const r = call->DefaultReactor();
    r->Finish(s);
    return r;
  }
  template <class Use>
  grpc::ServerUnaryReactor* with_model(grpc::CallbackServerContext* call, const std::string& name,
                                       const std::string& version, Use use) {
    try {
      use(*on_.find(name, version));
    } catch (const refusal& e) {
      return finish(call, status_of(e.says));
    }
    return finish(call);
  }

  service& on_;
};

} // namespace

namespace {

std::shared_ptr<grpc::ServerCredentials> credentials_of(const address& at,
                                                        const std::optional<tls_files>& tls) {
  if (!tls || at.what != address::kind::tcp) return grpc::InsecureServerCredentials();
  const auto text = [](const std::string& file) {
    constexpr std::size_t most = std::size_t{16} << 20;
    return file.empty() ? std::string() : gsched::read_text(file, "a file in PEM", most);
  };
  grpc::SslServerCredentialsOptions how(
      tls->authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  how.pem_root_certs = text(tls->authority);
  how.pem_key_cert_pairs.push_back({text(tls->key), text(tls->certificate)});
  return grpc::SslServerCredentials(how);
}

/// What is no method of a service here.
class unknown_method final : public grpc::ServerGenericBidiReactor {
public:
  unknown_method() {
    Finish({grpc::UNIMPLEMENTED, "unknown method, expected one of inference.GRPCInferenceService"});
  }
  void OnDone() override { delete this; }
};
class other_calls final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new unknown_method;
  }
};

} // namespace

struct grpc_front::state {
  explicit state(service& to) : answers(to) {}
  calls answers;
  other_calls others;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::optional<socket_listener> listener;
};

namespace {

/// The frames that refuse an HTTP/2 connection: SETTINGS, then GOAWAY with the code
/// ENHANCE_YOUR_CALM and a line.
std::string goodbye(std::string_view line) {
  std::string frames{"\0\0\0\4\0\0\0\0\0"
                     "\0\0\0\7\0\0\0\0\0"
                     "\0\0\0\0\0\0\0\13",
                     26};
  frames[11] = static_cast<char>(8 + line.size());
  return frames += line;
}

} // namespace

grpc_front::grpc_front(service& to, const address& at, std::uint64_t request_bytes,
                       const std::optional<tls_files>& tls, std::uint64_t memory_bytes)
    : state_(std::make_unique<state>(to)) {
  constexpr std::uint64_t around_tensors = std::uint64_t{1} << 20;
  gpr_set_log_function([](gpr_log_func_args*) {}); // errors are reported as one line, below
  grpc::EnableDefaultHealthCheckService(true);
  state_->listener.emplace(at);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(request_bytes + around_tensors));
  builder.SetMaxSendMessageSize(-1);
  // gRPC's own listener hears nothing more once accept() has failed for want of a file descriptor.
  using from = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  state_->acceptor =
      builder.experimental().AddExternalConnectionAcceptor(from::FROM_FD, credentials_of(at, tls));
  grpc::ResourceQuota quota("gsched");
  quota.Resize(memory_bytes); // a message's size is looked at when all of it is there
  builder.SetResourceQuota(quota);
  builder.RegisterService(&state_->answers);
  builder.RegisterCallbackGenericService(&state_->others);
  state_->server = builder.BuildAndStart();
  if (state_->server == nullptr)
    throw common::run_error(gsched::errc::io,
                            at.text() + ": gRPC cannot start, expected it to be usable here");
  const auto take = [&on = *state_->acceptor](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters p;
    p.fd = socket;
    on.HandleNewConnection(&p);
  };
  state_->listener->start(
      SOCK_NONBLOCK, take,
      at.what == address::kind::tcp && tls
          ? "" // it would be garbage to a client of TLS
          : goodbye("the server has no file descriptors left, expected fewer connections at once"));
}

grpc_front::~grpc_front() {
  if (state_) shut_down(gsched::duration::zero());
}

const address& grpc_front::listens_at() const noexcept { return state_->listener->listens_at(); }

void grpc_front::not_ready() noexcept {
  if (auto* const health = state_->server->GetHealthCheckService()) health->SetServingStatus(false);
}

void grpc_front::shut_down(gsched::duration wait) {
  state_->listener->stop();
  state_->server->Shutdown(std::chrono::system_clock::now() + wait);
  state_->server->Wait();
}

} // namespace gsched_server
