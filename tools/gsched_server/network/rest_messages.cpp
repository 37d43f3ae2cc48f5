// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/network/rest_messages.hpp"

#include "gsched_server/network/about.hpp"

#include "common/cli/option_values.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace gsched_server {

using common::in_quotes;
using json = nlohmann::json;

namespace {

constexpr int most_depth = 64;                ///< of JSON: tensors have 16 dimensions at most
constexpr std::uint64_t most_of_element = 64; ///< of its text, with space around it
constexpr std::uint64_t most_around_elements = 128 * 1024;

[[noreturn]] void refuse_body(const std::string& line) { throw refusal(outcome::invalid, line); }

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

json parse(std::string_view text) {
  try {
    return json::parse(text.begin(), text.end(), [](int depth, json::parse_event_t, json&) {
      if (depth > most_depth)
        refuse_body(fmt::format("the body: nested deeper than {}, expected less", most_depth));
      return true;
    });
  } catch (const json::parse_error& e) {
    refuse_body(fmt::format("the body: byte {} is not JSON, expected an object", e.byte));
  } catch (const json::exception&) {
    refuse_body("the body: a number too large, expected at most 1e308");
  }
}

const json* member(const json& of, const char* name, json::value_t kind, const std::string& where,
                   const char* expected) {
  const auto found = of.find(name);
  if (found == of.end()) return nullptr;
  const bool good = found->type() == kind ||
                    (kind == json::value_t::number_unsigned && found->is_number_unsigned());
  if (!good)
    refuse_body(fmt::format("{}{}: a {}, expected {}", where, name, found->type_name(), expected));
  return &*found;
}

void read_parameters(const json& of, terms& with, bool& binary_output) {
  const json* const all = member(of, "parameters", json::value_t::object, "", "an object");
  if (all == nullptr) return;
  for (const auto& [name, v] : all->items()) {
    if (name == "binary_data_output") {
      if (!v.is_boolean())
        refuse_body("parameter binary_data_output: a " + std::string(v.type_name()) +
                    ", expected true or false");
      binary_output = v.get<bool>();
    } else if (v.is_boolean()) {
      with.set(name, v.get<bool>());
    } else if (v.is_number_unsigned() &&
               v.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      with.set(name, v.get<double>());
    } else if (v.is_number_integer()) {
      with.set(name, v.get<std::int64_t>());
    } else if (v.is_number()) {
      with.set(name, v.get<double>());
    } else if (v.is_string()) {
      with.set(name, std::string_view(v.get_ref<const std::string&>()));
    } // others are none of ours
  }
}

[[noreturn]] void refuse_element(const tensor_spec& t, std::size_t i, const json& v) {
  std::string shown = dump(v);
  if (shown.size() > 40) shown = shown.substr(0, 40) + "...";
  refuse_body(fmt::format("input {}: element {} is {}, expected one of {}", in_quotes(t.name), i,
                          shown, t.type->name));
}

template <class To>
void put(std::vector<std::byte>& to, To value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

void put_element(std::vector<std::byte>& to, const tensor_spec& t, std::size_t i, const json& v) {
  using kind = datatype::kind;
  switch (t.type->what) {
  case kind::boolean:
    if (v.is_boolean()) return put(to, v.get<bool>());
    if (v.is_number_unsigned() && v.get<std::uint64_t>() <= 1) return put(to, v == 1u);
    break;
  case kind::uint:
    if (v.is_number_unsigned()) {
      const auto n = v.get<std::uint64_t>();
      if (t.type->bytes < 8 && n >> (8 * t.type->bytes) != 0) break;
      switch (t.type->bytes) {
      case 1: return put(to, static_cast<std::uint8_t>(n));
      case 2: return put(to, static_cast<std::uint16_t>(n));
      case 4: return put(to, static_cast<std::uint32_t>(n));
      default: return put(to, n);
      }
    }
    break;
  case kind::sint:
    if (v.is_number_integer() &&
        !(v.is_number_unsigned() &&
          v.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})) {
      const auto n = v.get<std::int64_t>();
      const std::int64_t most = t.type->bytes == 8
                                    ? std::numeric_limits<std::int64_t>::max()
                                    : (std::int64_t{1} << (8 * t.type->bytes - 1)) - 1;
      if (n > most || n < -most - 1) break;
      switch (t.type->bytes) {
      case 1: return put(to, static_cast<std::int8_t>(n));
      case 2: return put(to, static_cast<std::int16_t>(n));
      case 4: return put(to, static_cast<std::int32_t>(n));
      default: return put(to, n);
      }
    }
    break;
  case kind::real:
    if (v.is_number()) {
      if (t.type->bytes == 8) return put(to, v.get<double>());
      const double n = v.get<double>();
      if (std::fabs(n) > double{std::numeric_limits<float>::max()}) break;
      return put(to, static_cast<float>(n));
    }
    break;
  case kind::half:
    refuse_body(
        fmt::format("input {}: {} in JSON, expected binary data", in_quotes(t.name), t.type->name));
  }
  refuse_element(t, i, v);
}

/// The elements of an array, which may be nested by the tensor's dimensions.
void put_all(std::vector<std::byte>& to, const tensor_spec& t, const json& v) {
  for (const json& one : v) {
    const std::size_t i = to.size() / t.type->bytes;
    if (one.is_array())
      put_all(to, t, one);
    else if (i >= t.elements())
      refuse_body(fmt::format("input {}: more than {} elements, expected as many",
                              in_quotes(t.name), t.elements()));
    else
      put_element(to, t, i, one);
  }
}

std::string one_text(const json& of, const char* name, const std::string& where) {
  const json* const v = member(of, name, json::value_t::string, where, "text");
  if (v == nullptr) refuse_body(where + name + ": missing, expected text");
  return v->get<std::string>();
}

bool flag_of(const json& of, const char* name, const std::string& where, bool otherwise) {
  const json* const all = member(of, "parameters", json::value_t::object, where, "an object");
  if (all == nullptr) return otherwise;
  const json* const v = member(*all, name, json::value_t::boolean, where, "true or false");
  return v != nullptr ? v->get<bool>() : otherwise;
}

void append_zeros(std::string& to, const tensor_spec& t) {
  const char* const zero = t.type->what == datatype::kind::boolean ? "false"
                           : t.type->what == datatype::kind::real  ? "0.0"
                                                                   : "0";
  to += '[';
  for (std::uint64_t i = 0; i < t.elements(); ++i) {
    if (i > 0) to += ',';
    to += zero;
  }
  to += ']';
}

void append_booleans(std::string& to, const std::string& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) to += ',';
    to += bytes[i] != 0 ? "true" : "false";
  }
}

template <class T>
void append_elements(std::string& to, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T v;
    std::memcpy(&v, bytes.data() + at, sizeof(T));
    if (at > 0) to += ',';
    if constexpr (std::is_floating_point_v<T>)
      if (!std::isfinite(v)) { // which JSON does not have
        to += "null";
        continue;
      }
    fmt::format_to(std::back_inserter(to), "{}", +v);
  }
}

/// What a model has computed; not for FP16 and BF16.
void append_values(std::string& to, const tensor_spec& t, const std::string& bytes) {
  using kind = datatype::kind;
  to += '[';
  switch (t.type->what) {
  case kind::boolean: append_booleans(to, bytes); break;
  case kind::sint:
    switch (t.type->bytes) {
    case 1: append_elements<std::int8_t>(to, bytes); break;
    case 2: append_elements<std::int16_t>(to, bytes); break;
    case 4: append_elements<std::int32_t>(to, bytes); break;
    default: append_elements<std::int64_t>(to, bytes); break;
    }
    break;
  case kind::uint:
    switch (t.type->bytes) {
    case 1: append_elements<std::uint8_t>(to, bytes); break;
    case 2: append_elements<std::uint16_t>(to, bytes); break;
    case 4: append_elements<std::uint32_t>(to, bytes); break;
    default: append_elements<std::uint64_t>(to, bytes); break;
    }
    break;
  case kind::real:
    if (t.type->bytes == 4)
      append_elements<float>(to, bytes);
    else
      append_elements<double>(to, bytes);
    break;
  case kind::half: break;
  }
  to += ']';
}

json tensors_json(const std::vector<tensor_spec>& all) {
  json list = json::array();
  for (const tensor_spec& t : all)
    list.push_back({{"name", t.name}, {"datatype", t.type->name}, {"shape", t.shape}});
  return list;
}

} // namespace

rest_request::rest_request(std::string_view body, std::optional<std::size_t> json_bytes,
                           const model_plan& model, terms& with) {
  if (json_bytes && *json_bytes > body.size())
    refuse_body(
        fmt::format("Inference-Header-Content-Length: {} of a body of {} bytes, expected at most "
                    "as many",
                    *json_bytes, body.size()));
  std::string_view rest = json_bytes ? body.substr(*json_bytes) : std::string_view();
  if (body.empty()) refuse_body("the body: empty, expected an object");
  // A value takes more memory than its text, so no more of them are read than the model has use
  // for.
  std::uint64_t most_json = most_around_elements;
  for (const tensor_spec& t : model.inputs) most_json += t.elements() * most_of_element;
  if (const std::size_t n = json_bytes.value_or(body.size()); n > most_json)
    refuse_body(fmt::format("the body: {} bytes of JSON, expected at most {} for this model", n,
                            most_json));
  const json document = parse(body.substr(0, json_bytes.value_or(body.size())));
  if (!document.is_object())
    refuse_body(fmt::format("the body: a {}, expected an object", document.type_name()));
  if (const json* const v = member(document, "id", json::value_t::string, "", "text"))
    id = v->get<std::string>();
  bool binary_output = false;
  read_parameters(document, with, binary_output);

  const json* const list = member(document, "inputs", json::value_t::array, "", "an array");
  std::deque<std::string> names; // given_tensor refers to them
  std::vector<given_tensor> all;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const json& in = (*list)[i];
    const std::string where = fmt::format("inputs/{}/", i);
    if (!in.is_object())
      refuse_body(fmt::format("inputs/{}: a {}, expected an object", i, in.type_name()));
    std::vector<std::int64_t>& shape = shapes_.emplace_back();
    const json* const dims = member(in, "shape", json::value_t::array, where, "an array");
    if (dims == nullptr) refuse_body(where + "shape: missing, expected an array");
    for (const json& d : *dims) {
      if (!d.is_number_unsigned() || d.get<std::uint64_t>() >> 32 != 0)
        refuse_body(where + "shape: not of whole numbers, expected the model's");
      shape.push_back(d.get<std::int64_t>());
    }
    given_tensor g{names.emplace_back(one_text(in, "name", where)),
                   names.emplace_back(one_text(in, "datatype", where)),
                   shape,
                   {}};
    const tensor_spec& t = spec_of(g, model.inputs);
    const json* const parameters =
        member(in, "parameters", json::value_t::object, where, "an object");
    const json* const size = parameters == nullptr
                                 ? nullptr
                                 : member(*parameters, "binary_data_size",
                                          json::value_t::number_unsigned, where, "a whole number");
    const auto data = in.find("data");
    if (size != nullptr) {
      if (data != in.end())
        refuse_body(where + "data: beside binary_data_size, expected one of them");
      const auto bytes = size->get<std::uint64_t>();
      if (bytes > rest.size())
        refuse_body(
            fmt::format("{}binary_data_size: {}, but {} bytes are left, expected at most as many",
                        where, bytes, rest.size()));
      g.bytes = std::as_bytes(std::span(rest.data(), bytes));
      rest.remove_prefix(bytes);
    } else {
      if (data == in.end()) refuse_body(where + "data: missing, expected an array");
      if (!data->is_array())
        refuse_body(fmt::format("{}data: a {}, expected an array", where, data->type_name()));
      std::vector<std::byte>& bytes = converted_.emplace_back();
      bytes.reserve(t.bytes());
      put_all(bytes, t, *data);
      g.bytes = bytes;
    }
    all.push_back(g);
  }
  if (!rest.empty())
    refuse_body(fmt::format("the body: {} bytes after the last input, expected none", rest.size()));
  inputs = in_order(all, model.inputs);

  const json* const asked = member(document, "outputs", json::value_t::array, "", "an array");
  if (asked == nullptr || asked->empty()) {
    for (std::size_t i = 0; i < model.outputs.size(); ++i) outputs.push_back({i, binary_output});
    return;
  }
  for (std::size_t i = 0; i < asked->size(); ++i) {
    const json& out = (*asked)[i];
    const std::string where = fmt::format("outputs/{}/", i);
    if (!out.is_object())
      refuse_body(fmt::format("outputs/{}: a {}, expected an object", i, out.type_name()));
    const std::string name = one_text(out, "name", where);
    const auto found = std::find_if(model.outputs.begin(), model.outputs.end(),
                                    [&](const tensor_spec& t) { return t.name == name; });
    if (found == model.outputs.end())
      refuse_body(fmt::format("output {}: unknown, expected one of the model's", in_quotes(name)));
    outputs.push_back({static_cast<std::size_t>(found - model.outputs.begin()),
                       flag_of(out, "binary_data", where, binary_output)});
    if (outputs.size() > model.outputs.size())
      refuse_body(where + "name: more outputs than the model has, expected each once");
  }
}

rest_response response_of(const rest_request& request, const served& m, const answer& a) {
  const auto us = [](gsched::duration d) {
    return std::chrono::ceil<std::chrono::microseconds>(d).count();
  };
  json head{{"model_name", m.plan.name},
            {"model_version", "1"},
            {"parameters", {{"latency_us", us(a.latency)}, {"wait_us", us(a.waited)}}}};
  if (!request.id.empty()) head["id"] = request.id;
  if (a.missed_deadline) head["parameters"]["missed_deadline"] = true;
  rest_response r;
  r.body = dump(head);
  r.body.pop_back();
  r.body += ",\"outputs\":[";
  std::string bytes;
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const rest_request::asked_output& asked = request.outputs[i];
    const tensor_spec& t = m.plan.outputs[asked.of];
    json one{{"name", t.name}, {"datatype", t.type->name}, {"shape", t.shape}};
    const bool binary = asked.binary || t.type->what == datatype::kind::half;
    if (binary) one["parameters"] = {{"binary_data_size", t.bytes()}};
    if (i > 0) r.body += ',';
    r.body += dump(one);
    if (binary) {
      bytes += a.outputs.empty() ? m.zeros[asked.of] : a.outputs[asked.of];
      r.json_bytes = 0;
    } else { // without a JSON value for each element
      r.body.pop_back();
      r.body += ",\"data\":";
      if (a.outputs.empty())
        append_zeros(r.body, t);
      else
        append_values(r.body, t, a.outputs[asked.of]);
      r.body += '}';
    }
  }
  r.body += "]}";
  if (r.json_bytes) {
    r.json_bytes = r.body.size();
    r.body += bytes;
  }
  return r;
}

std::string error_json(std::string_view line) { return dump({{"error", line}}); }

std::string server_json() {
  return dump(
      {{"name", server_name}, {"version", server_version}, {"extensions", server_extensions}});
}

std::string model_json(const served& m) {
  json properties = json::object();
  for (const auto& [key, value] : properties_of(m)) properties[key] = value;
  return dump({{"name", m.plan.name},
               {"versions", {"1"}},
               {"platform", platform_of(m)},
               {"inputs", tensors_json(m.plan.inputs)},
               {"outputs", tensors_json(m.plan.outputs)},
               {"properties", properties}});
}

std::string index_json(const service& of, std::string_view body) {
  bool only_ready = false;
  if (!body.empty()) {
    const json asked = parse(body);
    if (!asked.is_object())
      refuse_body(fmt::format("the body: a {}, expected an object", asked.type_name()));
    if (const json* const v = member(asked, "ready", json::value_t::boolean, "", "true or false"))
      only_ready = v->get<bool>();
  }
  json list = json::array();
  if (of.ready() || !only_ready)
    for (const served_ptr& m : of.models())
      list.push_back({{"name", m->plan.name},
                      {"version", "1"},
                      {"state", of.ready() ? "READY" : "UNAVAILABLE"},
                      {"reason", of.ready() ? "" : of.why_not_ready()}});
  return dump(list);
}

} // namespace gsched_server
