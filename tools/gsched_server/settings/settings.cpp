// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/settings/settings.hpp"

#include "gsched_server/devices/serving_device.hpp"
#include "gsched_server/network/tls.hpp"
#include "gsched_server/settings/configuration.hpp"
#include "gsched_server/settings/planned_placement.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/run/policy_options.hpp"

#include <gsched/core/error.hpp>
#include <gsched/policy/names.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

namespace gsched_server {

using common::command_line;
using common::device_option;
using common::in_quotes;
using common::is_unscheduled;
using common::joined_by_or;
using common::load_model;
using common::profile_catalogue;
using common::refuse;
using common::to_file;
using common::to_number;

namespace {

constexpr const char* details =
    R"(
Models are profiles, or adaptors. A simulated GPU takes the time of a profile, and a GPU runs stand-ins of
its kernels; both compute nothing, so that outputs are zeros. An adaptor computes what its library does. Without options all profiles that ship with gsched are served on a simulated H200, on the
Unix sockets grpc.sock and http.sock in $XDG_RUNTIME_DIR/gsched (or /tmp/gsched-UID).

With several devices, each model is on all of them unless the configuration or a plan places it, and
a request goes to the device with the least queued time. The channel then has a socket for each: PATH.0,
PATH.1, ...

SIGTERM and SIGINT: no more requests are taken, those accepted are served, and the program ends with
0; the second one cancels what is left. SIGHUP: limits, tenants and models are read again.

Examples
  gsched_server
      on Unix sockets
  gsched_server --grpc 127.0.0.1:8001 --http 127.0.0.1:8000
      on TCP, at the ports that clients of the protocol expect
  gsched_server --device sim:h200,sim:h200
      two devices
  gsched_server --config server.json --check
      only say whether the configuration is right

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

/// The options as typed.
struct raw_options {
  std::string device = "sim:h200";
  std::string config, plan, policy, slow_down_limit, slow_downs, grpc, http, socket, agent, log;
  std::vector<std::string> profiles, adaptors;
  tls_files tls;
  bool check = false;
};

std::string to_policy(const std::string& where, const std::string& name) {
  const gsched::policy_description* const known = gsched::find_policy(name);
  if (known == nullptr || is_unscheduled(name)) {
    std::vector<std::string_view> names;
    for (const gsched::policy_description& d : gsched::policy_descriptions) names.push_back(d.name);
    refuse(where, "unknown policy " + in_quotes(name), joined_by_or(names),
           gsched::errc::unknown_name);
  }
  static_cast<void>(gsched::factor_of(name)); // refuses a bad one
  return name;
}

/// One tensor for all bytes: FP32 where they are that, and a row for each input of the batch.
std::vector<tensor_spec> default_tensors(const char* name, std::uint64_t bytes,
                                         const gsched::profile& p) {
  if (bytes == 0) return {};
  tensor_spec t;
  t.name = name;
  t.type = find_datatype(p.dtype == "float32" && bytes % 4 == 0 ? "FP32" : "UINT8");
  const std::uint64_t elements = bytes / t.type->bytes;
  const std::uint64_t rows = elements % p.batch == 0 ? p.batch : 1;
  t.shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(elements / rows)};
  return {std::move(t)};
}

std::vector<tensor_spec> specs_of(const std::vector<gsched::adaptor_tensor>& all,
                                  const std::string& where) {
  std::vector<tensor_spec> specs;
  for (const gsched::adaptor_tensor& each : all) {
    static_cast<void>(each.bytes()); // refuses what is no tensor
    for (const tensor_spec& other : specs)
      if (other.name == each.name)
        refuse(where, "two tensors are named " + in_quotes(each.name), "a name for each");
    specs.push_back({each.name, find_datatype(each.datatype), each.shape});
  }
  return specs;
}

/// The profile of an adaptor's model: what is copied, and nothing else.
void read_adaptor(model_plan& m, const configured_model& asked, const std::string& where) {
  if (asked.inputs || asked.outputs)
    refuse(where, "model " + in_quotes(m.name) + " has tensors beside its adaptor",
           "an adaptor alone, which says what they are");
  m.adaptor.library = std::make_shared<gsched::adaptor_library>(asked.adaptor);
  m.adaptor.parameters = asked.parameters;
  const gsched::adaptor_signature tensors = m.adaptor.library->make()->signature();
  const std::string of = "adaptor " + asked.adaptor;
  m.inputs = specs_of(tensors.inputs, of);
  m.outputs = specs_of(tensors.outputs, of);
}

model_plan plan_of(const std::string& name, const configured_model& asked,
                   const profile_catalogue& known, const std::string& where, const settings& s,
                   const std::vector<gsched::architecture_limits>& sms,
                   const planned_placement* placed) {
  constexpr std::uint64_t most_output = std::uint64_t{1} << 30;
  model_plan m;
  m.name = name;
  m.instances = asked.instances;
  m.devices = asked.devices;
  m.slow_down_limit = asked.slow_down_limit.value_or(s.slow_down_limit);
  if (m.devices.empty() && placed != nullptr)
    m.devices = placed->devices_of(asked.profile.empty() ? name : asked.profile);
  if (m.devices.empty())
    for (std::uint32_t i = 0; i < s.devices.size(); ++i) m.devices.push_back(i);
  std::ranges::sort(m.devices);
  if (m.devices.back() >= s.devices.size())
    refuse(where, fmt::format("model {} is on device {}", in_quotes(name), m.devices.back()),
           fmt::format("a number below {}, of a device", s.devices.size()));
  if (const auto twice = std::ranges::adjacent_find(m.devices); twice != m.devices.end())
    refuse(where, fmt::format("model {} is on device {} twice", in_quotes(name), *twice),
           "each device once");
  if (!asked.adaptor.empty()) {
    read_adaptor(m, asked, where);
    if (!asked.profile.empty()) m.kernels = known.find(where, asked.profile);
  } else {
    if (!asked.parameters.empty())
      refuse(where, "model " + in_quotes(name) + " has parameters", "them beside an adaptor");
    m.kernels = known.find(where, asked.profile.empty() ? name : asked.profile);
    for (const std::uint32_t on : m.devices)
      m.profile = load_model(m.kernels, sms[on]); // fits on each
    m.inputs =
        asked.inputs ? *asked.inputs : default_tensors("input", m.profile.input.count(), m.profile);
    m.outputs = asked.outputs ? *asked.outputs
                              : default_tensors("output", m.profile.output.count(), m.profile);
  }
  if (const std::uint64_t n = bytes_of(m.inputs); n > s.request_bytes)
    refuse(where, fmt::format("model {} has inputs of {} bytes", in_quotes(name), n),
           fmt::format("at most limits/request_bytes, {}", s.request_bytes));
  if (const std::uint64_t n = bytes_of(m.outputs); n > most_output)
    refuse(where, fmt::format("model {} has outputs of {} bytes", in_quotes(name), n),
           fmt::format("at most {}", most_output));
  m.profile.input = gsched::byte_count{bytes_of(m.inputs)}; // what is copied
  m.profile.output = gsched::byte_count{bytes_of(m.outputs)};
  return m;
}

std::string policies_text() {
  std::string text;
  for (const gsched::policy_description& d : gsched::policy_descriptions)
    text += fmt::format("  {:<13} {}\n", d.name, d.summary);
  return text;
}

/// Refuses an address that two front ends would listen on.
void refuse_same(const std::vector<std::pair<const char*, const address*>>& all) {
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t other = 0; other < i; ++other) {
      const address& a = *all[i].second;
      if (a == *all[other].second && a.what != address::kind::none &&
          (a.what == address::kind::unix_socket || a.port != 0))
        refuse(all[i].first, fmt::format("{} is that of {}, too", a.text(), all[other].first),
               "an address for each");
    }
}

/// Names of devices, and of presets' files; each text is one, or several between commas.
std::vector<common::device_choice> to_devices(const std::vector<std::string>& texts) {
  constexpr std::size_t most = 64;
  std::vector<common::device_choice> all;
  for (const std::string& text : texts)
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t comma = std::min(text.find(',', from), text.size());
      const std::string name = text.substr(from, comma - from);
      command_line none("gsched_server", "", "");
      device_option one;
      one.declare(none, false, name.c_str());
      one.read(all.emplace_back());
      if (all.size() > most)
        refuse("--device", "more than 64 devices", "at most 64, between commas");
      from = comma + 1;
    }
  return all;
}

/// Nothing if there is no TLS.
std::optional<tls_files> to_tls(const tls_files& typed, const tls_files& written,
                                const settings& s) {
  tls_files f;
  const auto take = [](const std::string& first, const std::string& second) {
    return first.empty() ? second : first;
  };
  f.certificate = take(typed.certificate, written.certificate);
  f.key = take(typed.key, written.key);
  f.authority = take(typed.authority, written.authority);
  if (f == tls_files{}) return std::nullopt;
  if (f.certificate.empty())
    refuse("--tls-cert", "not given, beside other options of TLS", "a file");
  if (f.key.empty()) refuse("--tls-key", "not given, beside --tls-cert", "a file");
  if (s.grpc.what != address::kind::tcp && s.http.what != address::kind::tcp)
    refuse("--tls-cert", "given, but --grpc and --http are no TCP addresses",
           "HOST:PORT for one of them");
  static_cast<void>(tls_context(f)); // refuses wrong files
  return f;
}

/// LIBRARY or LIBRARY:NAME, as models; a name that is not given is the file's without "lib".
std::map<std::string, configured_model> to_adaptors(const std::vector<std::string>& texts) {
  std::map<std::string, configured_model> all;
  for (const std::string& text : texts) {
    const std::size_t colon = text.rfind(':');
    const bool named = colon != std::string::npos && text.find('/', colon) == std::string::npos;
    std::string name = named ? text.substr(colon + 1) : std::filesystem::path(text).stem().string();
    if (!named && name.starts_with("lib")) name.erase(0, 3);
    configured_model m;
    m.adaptor = named ? text.substr(0, colon) : text;
    if (name.empty() || m.adaptor.empty())
      refuse("--adaptor", in_quotes(text), "LIBRARY or LIBRARY:NAME");
    if (!all.emplace(name, std::move(m)).second)
      refuse("--adaptor", "two models are named " + in_quotes(name), "LIBRARY:NAME for each");
  }
  return all;
}

settings read(const raw_options& raw, const command_line& line) {
  settings s;
  configuration c;
  std::string file = "--config";
  if (line.is_given("--config")) {
    c = read_configuration(to_file("--config", raw.config, "a configuration"));
    file = raw.config;
  }
  s.devices = c.devices.empty() || line.is_given("--device") ? to_devices({raw.device})
                                                             : to_devices(c.devices);
  s.policy = line.is_given("--policy") ? to_policy("--policy", raw.policy)
             : c.policy                ? to_policy(file + ": /policy", *c.policy)
                                       : raw.policy;
  s.real_time_lanes = c.real_time_lanes;
  s.spin = gsched::from_us(c.spin_us);
  if (line.is_given("--slow-down-limit"))
    s.slow_down_limit =
        to_number("--slow-down-limit", raw.slow_down_limit, {1, most_slow_down, false, "a ratio"});
  else if (c.slow_down_limit)
    s.slow_down_limit = *c.slow_down_limit;
  const auto listen = [&](const char* option, const std::string& typed,
                          const std::optional<std::string>& written, const char* name) {
    if (line.is_given(option)) return to_address(option, typed);
    if (written) return to_address(file + ": /" + (option + 2), *written);
    s.in_folder = true;
    return address{.what = address::kind::unix_socket,
                   .path = (socket_folder() / name).string(),
                   .host = {},
                   .port = 0};
  };
  s.grpc = listen("--grpc", raw.grpc, c.grpc, "grpc.sock");
  s.http = listen("--http", raw.http, c.http, "http.sock");
  s.tls = to_tls(raw.tls, c.tls, s);
  s.socket = line.is_given("--socket") ? raw.socket : c.socket.value_or("");
  if (s.grpc.what == address::kind::none && s.http.what == address::kind::none && s.socket.empty())
    refuse("--grpc", "none, as are --http and --socket", "one of them");
  if (line.is_given("--agent"))
    s.agent = to_address("--agent", raw.agent);
  else if (c.agent)
    s.agent = to_address(file + ": /agent", *c.agent);
  refuse_same({{"--grpc", &s.grpc}, {"--http", &s.http}, {"--agent", &s.agent}});
  s.log = line.is_given("--log") ? raw.log : c.log.value_or("none");
  if (s.log.empty()) refuse("--log", "empty", "a file, - or none");
  if (s.log == "none") s.log.clear();
  for (std::uint32_t i = 0; i < s.devices.size() && !s.socket.empty(); ++i)
    if (const std::string path = s.socket_of(i);
        path == s.grpc.path || path == s.http.path || path == s.agent.path)
      refuse("--socket", in_quotes(path) + " is that of another front end, too", "a path for each");
  s.requests = c.requests;
  s.request_bytes = c.request_bytes;
  s.memory_bytes = c.memory_bytes;
  s.http_threads = c.http_threads;
  s.trace_events = c.trace_events;
  s.drain = gsched::from_us(c.drain_s * 1e6);
  s.notice = gsched::from_us(c.notice_s * 1e6);
  s.tenants = std::move(c.tenants);
  s.tenants.try_emplace(default_tenant);
  s.check = raw.check;

  const profile_catalogue known(line.is_given("--profiles") ? raw.profiles : c.profiles);
  std::vector<gsched::architecture_limits> sms;
  for (const common::device_choice& each : s.devices) sms.push_back(sm_of(each));
  std::optional<planned_placement> plan;
  if (line.is_given("--plan"))
    plan.emplace(to_file("--plan", raw.plan, "a plan"), s.devices.size());
  else if (c.plan)
    plan.emplace(to_file(file + ": /plan", *c.plan, "a plan"), s.devices.size());
  const planned_placement* const placed = plan ? &*plan : nullptr;
  const std::map<std::string, configured_model> adapted = to_adaptors(raw.adaptors);
  for (const auto& [name, asked] : adapted) {
    if (c.models && c.models->contains(name))
      refuse("--adaptor", "model " + in_quotes(name) + " is in the configuration, too",
             "another name");
    s.models.push_back(plan_of(name, asked, known, "--adaptor", s, sms, placed));
  }
  if (c.models) {
    for (const auto& [name, asked] : *c.models)
      s.models.push_back(plan_of(name, asked, known, file + ": /models/" + name, s, sms, placed));
  } else if (adapted.empty() || line.is_given("--profiles") || !c.profiles.empty()) {
    for (const auto& [name, path] : known.files())
      if (placed == nullptr || placed->has(name))
        s.models.push_back(plan_of(name, {}, known, "--profiles", s, sms, placed));
    if (placed != nullptr && s.models.empty())
      refuse("--plan", "no profile of its models", "the names of profiles, with or without _bN");
  }
  std::ranges::sort(s.models, {}, &model_plan::name);
  if (const auto twice = std::ranges::adjacent_find(s.models, {}, &model_plan::name);
      twice != s.models.end())
    refuse("--adaptor", "model " + in_quotes(twice->name) + " is a profile, too", "another name");
  const bool source_given = line.is_given("--slow-downs");
  s.slow_downs_at = source_given                         ? "--slow-downs"
                    : c.slow_downs                       ? file + ": /slow_downs"
                    : line.is_given("--slow-down-limit") ? "--slow-down-limit"
                                                         : file + ": /slow_down_limit";
  s.slow_downs = source_given ? raw.slow_downs : c.slow_downs.value_or(s.slow_downs);
  if (!s.limits_slow_downs() && (source_given || c.slow_downs))
    refuse(s.slow_downs_at, "given without a limit", "slow_down_limit beside it");
  if (plan && !plan->partitions().empty())
    fmt::print(
        stderr,
        "gsched_server: --plan: the plan has {}, and models on a device share it in time here: "
        "its latencies do not hold (serve_partitions keeps partitions)\n",
        plan->partitions());
  return s;
}

/// Whether both have the same rules, as far as they follow from the models.
bool same_neighbours(const settings& one, const settings& other) {
  if (!one.limits_slow_downs() && !other.limits_slow_downs()) return true;
  return std::ranges::equal(one.models, other.models, [](const model_plan& a, const model_plan& b) {
    return a.name == b.name && a.kernels == b.kernels && a.slow_down_limit == b.slow_down_limit;
  });
}

} // namespace

std::string settings::socket_of(std::uint32_t device) const {
  return socket.empty() || devices.size() == 1 ? socket : fmt::format("{}.{}", socket, device);
}

std::string settings::device_names() const {
  std::string all;
  for (const common::device_choice& each : devices) all += (all.empty() ? "" : ",") + each.device;
  return all;
}

bool settings::limits_slow_downs() const noexcept {
  return std::ranges::any_of(
      models, [](const model_plan& m) { return m.slow_down_limit < gsched::corun_limit::none; });
}

std::string settings::fixed_difference(const settings& other) const {
  if (!std::ranges::equal(devices, other.devices, [](const auto& one, const auto& another) {
        return one.device == another.device && one.preset == another.preset;
      }))
    return "device";
  if (policy != other.policy) return "policy";
  if (real_time_lanes != other.real_time_lanes) return "real_time_lanes";
  if (spin != other.spin) return "spin_us";
  if (slow_downs != other.slow_downs) return "slow_downs";
  if (!same_neighbours(*this, other)) return "models with slow_down_limit";
  if (grpc != other.grpc) return "grpc";
  if (http != other.http) return "http";
  if (socket != other.socket) return "socket";
  if (tls != other.tls) return "tls";
  if (agent != other.agent) return "agent";
  if (log != other.log) return "log";
  if (request_bytes != other.request_bytes) return "limits/request_bytes";
  if (memory_bytes != other.memory_bytes) return "limits/memory_bytes";
  if (trace_events != other.trace_events) return "limits/trace_events";
  if (http_threads != other.http_threads) return "limits/http_threads";
  return {};
}

std::optional<settings> read_settings(int argc, const char* const* argv) {
  raw_options raw;
  raw.policy = "srpt+deficit";
  command_line line("gsched_server",
                    "Serves models over the network by the Open Inference Protocol (KServe v2), "
                    "gRPC and\nREST, on a simulated GPU that follows the real clock.",
                    "Policies\n" + policies_text() + details);
  line.group("Serving");
  line.option("--device", raw.device, "NAME,...",
              "sim:h200 (or sim), a simulated NVIDIA H200;\nFILE.json, the preset of a simulated "
              "GPU; cuda:N (cuda is\ncuda:0), a GPU of this machine; several between commas,\n"
              "each with a server of its own");
  common::declare_profiles(line, raw.profiles);
  line.option("--policy", raw.policy, "P",
              "Orders best-effort requests, one of the policies below;\nreal-time ones go first, "
              "by deadline");
  line.option("--slow-down-limit", raw.slow_down_limit, "X",
              "Keep apart models of which one would take more than X\ntimes as long beside "
              "the other: 1.2 allows 20%; models/NAME/\nslow_down_limit of the configuration has "
              "one for each");
  line.option("--slow-downs", raw.slow_downs, "FROM",
              "predicted (by the law of contention that ships, from the\ncounters of kernels in "
              "the profiles), LAW.json (by another\none, of interference fit) or PAIRS.csv (as "
              "corun_pairs.csv\nof measure)");
  line.option("--adaptor", raw.adaptors, "LIB[:NAME]",
              "A shared library with a model of your own, and its name\n(docs/guide/adaptor.md); "
              "without --profiles these alone");
  line.option("--plan", raw.plan, "FILE",
              "Put models on the devices where this plan has them\n(plan --json), without its "
              "partitions; without configured\nmodels those of the plan");
  line.group("Front ends");
  line.option("--grpc", raw.grpc, "ADDR", "unix:PATH, HOST:PORT (0: a free port) or none");
  line.option("--http", raw.http, "ADDR", "The same for REST, and for /metrics");
  line.option("--tls-cert", raw.tls.certificate, "FILE",
              "Serve TCP addresses with TLS: the certificate, in PEM");
  line.option("--tls-key", raw.tls.key, "FILE", "Its private key");
  line.option("--tls-ca", raw.tls.authority, "FILE",
              "Ask for certificates of clients, signed by one of these");
  line.option("--socket", raw.socket, "PATH",
              "Also serve clients of gsched::channel, through\nshared memory; with several devices "
              "at PATH.0, PATH.1, ...");
  line.group("Operations");
  line.option("--agent", raw.agent, "ADDR",
              "Answer agent checks of HAProxy there, with a weight\nthat follows load");
  line.option("--log", raw.log, "FILE",
              "A line of JSON for each request, appended; - for\nstandard output, or none");
  line.group("Configuration");
  line.option(
      "--config", raw.config, "FILE",
      "JSON: limits, tenants, models and their tensors, and the\noptions above, which count "
      "before it (docs/guide/network.md)");
  line.flag("--check", raw.check, "Only check options, configuration and profiles");
  if (!line.parse(argc, argv)) return std::nullopt;
  return read(raw, line);
}

} // namespace gsched_server
