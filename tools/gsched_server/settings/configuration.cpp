// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/settings/configuration.hpp"

#include "common/cli/option_values.hpp"

#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>

namespace gsched_server {

namespace {

/// Reads a configuration, field by field, and refuses what it does not know.
class configuration_reader : gsched::json_fields {
public:
  explicit configuration_reader(const std::string& file) : json_fields(file) {}

  [[nodiscard]] configuration read(std::string_view text) const {
    configuration c;
    const json document = parse_once(text);
    each(document, "",
         {{"device",
           [&](const json& v, const std::string& at) {
             if (!v.is_array()) return c.devices.push_back(text_of(v, at));
             list(v, at, 1, 64, [&](const json& one, const std::string& where) {
               c.devices.push_back(text_of(one, where));
             });
           }},
          {"policy", [&](const json& v, const std::string& at) { c.policy = text_of(v, at); }},
          {"plan", [&](const json& v, const std::string& at) { c.plan = text_of(v, at); }},
          {"grpc", [&](const json& v, const std::string& at) { c.grpc = text_of(v, at); }},
          {"http", [&](const json& v, const std::string& at) { c.http = text_of(v, at); }},
          {"socket", [&](const json& v, const std::string& at) { c.socket = text_of(v, at); }},
          {"agent", [&](const json& v, const std::string& at) { c.agent = text_of(v, at); }},
          {"tls",
           [&](const json& v, const std::string& at) {
             each(v, at,
                  {{"cert", [&](const json& f,
                                const std::string& w) { c.tls.certificate = text_of(f, w); }},
                   {"key", [&](const json& f, const std::string& w) { c.tls.key = text_of(f, w); }},
                   {"ca", [&](const json& f, const std::string& w) {
                      c.tls.authority = text_of(f, w);
                    }}});
           }},
          {"log", [&](const json& v, const std::string& at) { c.log = text_of(v, at); }},
          {"profiles",
           [&](const json& v, const std::string& at) {
             list(v, at, 1, 1024, [&](const json& one, const std::string& where) {
               c.profiles.push_back(text_of(one, where));
             });
           }},
          {"real_time_lanes",
           [&](const json& v, const std::string& at) { c.real_time_lanes = count(v, at, 0, 64); }},
          {"spin_us",
           [&](const json& v, const std::string& at) { c.spin_us = real(v, at, 0, 1e6); }},
          {"slow_down_limit",
           [&](const json& v, const std::string& at) { c.slow_down_limit = slow_down(v, at); }},
          {"slow_downs",
           [&](const json& v, const std::string& at) { c.slow_downs = text_of(v, at); }},
          {"limits", [&](const json& v, const std::string& at) { read_limits(v, at, c); }},
          {"tenants",
           [&](const json& v, const std::string& at) {
             named(v, at, 1024,
                   [&](const std::string& name, const json& one, const std::string& where) {
                     c.tenants[name] = tenant(one, where);
                   });
           }},
          {"models", [&](const json& v, const std::string& at) {
             auto& all = c.models.emplace();
             named(v, at, 1024,
                   [&](const std::string& name, const json& one, const std::string& where) {
                     all[name] = model(one, where);
                   });
             if (all.empty()) wrong(at, "is empty", "one model or more");
           }}});
    return c;
  }

private:
  using on_value = std::function<void(const json&, const std::string&)>;
  using on_named = std::function<void(const std::string&, const json&, const std::string&)>;

  [[noreturn]] void wrong(const std::string& at, const std::string& what,
                          const std::string& expected) const {
    fail({.field = std::string_view(at).substr(at.empty() ? 0 : 1)}, what, expected);
  }

  /// Calls what is listed for each key of an object.
  void each(const json& node, const std::string& at,
            const std::vector<std::pair<std::string_view, on_value>>& known) const {
    if (!node.is_object()) wrong(at, "is " + show(node), "an object");
    for (const auto& [key, value] : node.items()) {
      const on_value* found = nullptr;
      std::vector<std::string_view> names;
      for (const auto& [name, call] : known) {
        if (name == key) found = &call;
        names.push_back(name);
      }
      if (found == nullptr)
        wrong(at, "has the unknown key " + common::in_quotes(key), common::joined_by_or(names));
      (*found)(value, at + "/" + key);
    }
  }
  /// Calls for each member of an object whose keys are names.
  void named(const json& node, const std::string& at, std::size_t most,
             const on_named& call) const {
    if (!node.is_object()) wrong(at, "is " + show(node), "an object");
    if (node.size() > most)
      wrong(at, fmt::format("has {} members", node.size()), fmt::format("at most {}", most));
    for (const auto& [key, value] : node.items()) {
      if (key.empty() || key.size() > 256 || key.find('/') != key.npos || has_control(key))
        wrong(at, "has the key " + common::in_quotes(key),
              "a name of 1 to 256 bytes, without '/' and control characters");
      call(key, value, at + "/" + key);
    }
  }
  void list(const json& node, const std::string& at, std::size_t least, std::size_t most,
            const on_value& call) const {
    if (!node.is_array() || node.size() < least || node.size() > most)
      wrong(at, "is " + show(node), fmt::format("an array of {} to {}", least, most));
    for (std::size_t i = 0; i < node.size(); ++i) call(node[i], at + "/" + std::to_string(i));
  }

  [[nodiscard]] static bool has_control(std::string_view s) noexcept {
    for (const char c : s)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
    return false;
  }
  [[nodiscard]] std::string text_of(const json& v, const std::string& at) const {
    if (!v.is_string() || v.get_ref<const std::string&>().empty() ||
        has_control(v.get_ref<const std::string&>()))
      wrong(at, "is " + show(v), "text of one line");
    return v.get<std::string>();
  }
  [[nodiscard]] std::uint64_t whole_at(const json& v, const std::string& at, std::uint64_t least,
                                       std::uint64_t most) const {
    return whole_of(v, {.field = std::string_view(at).substr(1)}, least, most);
  }
  [[nodiscard]] std::uint32_t count(const json& v, const std::string& at, std::uint32_t least,
                                    std::uint32_t most) const {
    return static_cast<std::uint32_t>(whole_at(v, at, least, most));
  }
  [[nodiscard]] double real(const json& v, const std::string& at, double least, double most) const {
    const double n = v.is_number() ? v.get<double>() : std::nan("");
    if (!(n >= least && n <= most))
      wrong(at, "is " + show(v), fmt::format("a number from {} to {}", least, most));
    return n;
  }
  [[nodiscard]] double slow_down(const json& v, const std::string& at) const {
    return real(v, at, 1, most_slow_down);
  }
  [[nodiscard]] bool flag(const json& v, const std::string& at) const {
    if (!v.is_boolean()) wrong(at, "is " + show(v), "true or false");
    return v.get<bool>();
  }

  void read_limits(const json& node, const std::string& at, configuration& c) const {
    each(
        node, at,
        {{"requests",
          [&](const json& v, const std::string& w) { c.requests = count(v, w, 1, 65536); }},
         {"request_bytes",
          [&](const json& v, const std::string& w) {
            c.request_bytes = whole_at(v, w, 1, std::uint64_t{1} << 30);
          }},
         {"memory_bytes",
          [&](const json& v, const std::string& w) {
            c.memory_bytes = whole_at(v, w, std::uint64_t{1} << 20, std::uint64_t{1} << 40);
          }},
         {"http_threads",
          [&](const json& v, const std::string& w) { c.http_threads = count(v, w, 1, 512); }},
         {"trace_events",
          [&](const json& v, const std::string& w) {
            c.trace_events = count(v, w, 0, std::uint32_t{1} << 24);
          }},
         {"drain_s", [&](const json& v, const std::string& w) { c.drain_s = real(v, w, 0, 3600); }},
         {"notice_s",
          [&](const json& v, const std::string& w) { c.notice_s = real(v, w, 0, 3600); }}});
  }

  [[nodiscard]] tenant_limits tenant(const json& node, const std::string& at) const {
    tenant_limits t;
    each(
        node, at,
        {{"weight", [&](const json& v, const std::string& w) { t.weight = real(v, w, 1e-6, 1e6); }},
         {"requests",
          [&](const json& v, const std::string& w) { t.requests = count(v, w, 1, 65536); }},
         {"rate", [&](const json& v, const std::string& w) { t.rate = real(v, w, 1e-6, 1e9); }},
         {"burst", [&](const json& v, const std::string& w) { t.burst = real(v, w, 1, 1e9); }},
         {"real_time", [&](const json& v, const std::string& w) { t.real_time = flag(v, w); }}});
    return t;
  }

  [[nodiscard]] configured_model model(const json& node, const std::string& at) const {
    configured_model m;
    each(
        node, at,
        {{"profile", [&](const json& v, const std::string& w) { m.profile = text_of(v, w); }},
         {"adaptor", [&](const json& v, const std::string& w) { m.adaptor = text_of(v, w); }},
         {"parameters", [&](const json& v, const std::string& w) { m.parameters = text_of(v, w); }},
         {"instances",
          [&](const json& v, const std::string& w) { m.instances = count(v, w, 1, 64); }},
         {"devices",
          [&](const json& v, const std::string& w) {
            list(v, w, 1, 64, [&](const json& one, const std::string& where) {
              m.devices.push_back(count(one, where, 0, 63));
            });
          }},
         {"slow_down_limit",
          [&](const json& v, const std::string& w) { m.slow_down_limit = slow_down(v, w); }},
         {"inputs", [&](const json& v, const std::string& w) { m.inputs = tensors(v, w); }},
         {"outputs", [&](const json& v, const std::string& w) { m.outputs = tensors(v, w); }}});
    return m;
  }

  [[nodiscard]] std::vector<tensor_spec> tensors(const json& node, const std::string& at) const {
    std::vector<tensor_spec> all;
    list(node, at, 0, 64, [&](const json& one, const std::string& w) {
      all.push_back(tensor(one, w));
      for (std::size_t i = 0; i + 1 < all.size(); ++i)
        if (all[i].name == all.back().name)
          wrong(w, "has the name of another one, " + common::in_quotes(all[i].name),
                "a name for each");
    });
    return all;
  }

  [[nodiscard]] tensor_spec tensor(const json& node, const std::string& at) const {
    tensor_spec t;
    bool has_shape = false;
    each(node, at,
         {{"name", [&](const json& v, const std::string& w) { t.name = text_of(v, w); }},
          {"datatype",
           [&](const json& v, const std::string& w) {
             t.type = find_datatype(text_of(v, w));
             if (t.type == nullptr) wrong(w, "is " + show(v), datatype_names());
           }},
          {"shape", [&](const json& v, const std::string& w) {
             has_shape = true;
             std::uint64_t elements = 1;
             list(v, w, 0, 16, [&](const json& d, const std::string& where) {
               const std::uint64_t n = whole_at(d, where, 1, most_elements);
               if (n > most_elements / elements)
                 wrong(w, "is of too many elements",
                       fmt::format("at most {} of them", most_elements));
               elements *= n;
               t.shape.push_back(static_cast<std::int64_t>(n));
             });
           }}});
    if (t.name.empty()) wrong(at, "has no name", "name, datatype and shape");
    if (t.type == nullptr) wrong(at, "has no datatype", "name, datatype and shape");
    if (!has_shape) wrong(at, "has no shape", "name, datatype and shape");
    return t;
  }

  static constexpr std::uint64_t most_elements = std::uint64_t{1} << 30;
};

} // namespace

configuration read_configuration(const std::filesystem::path& file) {
  constexpr std::size_t most = std::size_t{16} << 20;
  const std::string text = gsched::read_text(file, "a configuration", most);
  if (text.size() > most)
    throw gsched::error(gsched::errc::bad_profile,
                        file.string() + ": larger than 16 MiB, expected a configuration");
  return configuration_reader(file.string()).read(text);
}

} // namespace gsched_server
