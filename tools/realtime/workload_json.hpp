// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/workload.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/json_fields.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace realtime {

namespace detail {

/// Reads a workload out of a document; refuses fields that it does not know, for a misspelt one
/// would silently leave a default in place.
class workload_reader : gsched::json_fields {
public:
  static constexpr std::uint64_t version = 1;
  static constexpr std::size_t most_clients = 64;

  explicit workload_reader(std::string file) : json_fields(std::move(file)) {}

  [[nodiscard]] workload read(std::string_view text) const {
    const json document = parse_once(text);
    if (!document.is_object()) fail({}, "is " + kind_of(document), "an object");
    const node root{document, ""};
    known(root, {"gsched_workload", "name", "about", "clients"});
    static_cast<void>(
        whole<std::uint64_t>(document, {.field = "gsched_workload"}, version, version));
    workload w;
    w.name = name_of(root, "name");
    if (document.contains("about")) w.about = label(document, {.field = "about"});
    const json& clients = array(document, {.field = "clients"});
    if (clients.empty() || clients.size() > most_clients)
      fail({.field = "clients"}, "has " + std::to_string(clients.size()) + " elements",
           "1 to " + std::to_string(most_clients));
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const node at{clients[i], "clients/" + std::to_string(i)};
      w.clients.push_back(client_of(at));
      for (std::size_t k = 0; k < i; ++k)
        if (w.clients[k].name == w.clients[i].name)
          fail({.field = at.path + "/name"}, "is also that of clients/" + std::to_string(k),
               "a name of its own");
    }
    return w;
  }

private:
  struct node {
    const json& value;
    std::string path;
    [[nodiscard]] std::string at(const char* key) const {
      return path.empty() ? key : path + "/" + key;
    }
  };

  void known(const node& n, std::initializer_list<std::string_view> keys) const {
    if (!n.value.is_object()) fail({.field = n.path}, "is " + show(n.value), "an object");
    for (const auto& [key, value] : n.value.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      std::string all;
      for (const std::string_view k : keys) all.append(all.empty() ? "" : ", ").append(k);
      fail({.field = n.path}, "has the unknown key " + show(json(key)), "only " + all);
    }
  }

  [[nodiscard]] const json& get(const node& n, const char* key, const std::string& expected) const {
    const auto found = n.value.find(key);
    if (found == n.value.end()) fail({.field = n.at(key)}, "is missing", expected);
    return *found;
  }

  [[nodiscard]] std::string line_of(const node& n, const char* key,
                                    const std::string& expected) const {
    const json& value = get(n, key, expected);
    const std::string at = n.at(key);
    if (!value.is_string()) fail({.field = at}, "is " + show(value), expected);
    const auto& s = value.get_ref<const std::string&>();
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (s.empty() || s.size() > 200 || std::any_of(s.begin(), s.end(), control))
      fail({.field = at}, "is " + show(value), expected + ", one line of at most 200 bytes");
    return s;
  }

  /// Fit for the lines of a trace, too.
  [[nodiscard]] std::string name_of(const node& n, const char* key) const {
    std::string s = line_of(n, key, "a name");
    if (s.find(',') != s.npos) fail({.field = n.at(key)}, "has a comma", "a name without one");
    return s;
  }

  template <class Value>
  [[nodiscard]] Value
  one_of(const node& n, const char* key,
         std::initializer_list<std::pair<std::string_view, Value>> names) const {
    std::string all;
    for (const auto& [name, value] : names)
      all.append(all.empty() ? "" : " or ").append("\"").append(name).append("\"");
    const std::string word = line_of(n, key, all);
    for (const auto& [name, value] : names)
      if (word == name) return value;
    fail({.field = n.at(key)}, "is " + show(json(word)), all);
  }

  /// Above 0.
  [[nodiscard]] double number(const node& n, const char* key, double most) const {
    const std::string expected = "a number above 0, at most " + json(most).dump();
    const json& value = get(n, key, expected);
    if (!value.is_number()) fail({.field = n.at(key)}, "is " + show(value), expected);
    const auto x = value.get<double>();
    if (!(x > 0 && x <= most)) fail({.field = n.at(key)}, "is " + show(value), expected);
    return x;
  }

  [[nodiscard]] gsched::duration time(const node& n, const char* key) const {
    return time_of(get(n, key, "a time in microseconds"), {.field = n.at(key)}, false);
  }

  [[nodiscard]] client_spec client_of(const node& n) const {
    known(n, {"name", "class", "model", "arrivals"});
    client_spec c;
    c.name = name_of(n, "name");
    c.service =
        one_of<gsched::service_class>(n, "class",
                                      {{"real_time", gsched::service_class::real_time},
                                       {"best_effort", gsched::service_class::best_effort}});
    c.model = line_of(n, "model", "a profile's name");
    c.arrivals = arrivals_of({get(n, "arrivals", "an object"), n.at("arrivals")});
    return c;
  }

  [[nodiscard]] arrival_spec arrivals_of(const node& n) const {
    if (!n.value.is_object()) fail({.field = n.path}, "is " + show(n.value), "an object");
    arrival_spec a;
    a.law = one_of<arrival_law>(n, "law",
                                {{"uniform", arrival_law::uniform},
                                 {"poisson", arrival_law::poisson},
                                 {"closed", arrival_law::closed},
                                 {"trace", arrival_law::trace}});
    switch (a.law) {
    case arrival_law::uniform:
    case arrival_law::poisson:
      known(n, {"law", "load", "rate_per_s"});
      if (n.value.contains("load") == n.value.contains("rate_per_s"))
        fail({.field = n.path},
             n.value.contains("load") ? "has load and rate_per_s" : "has no load",
             "load or rate_per_s");
      if (n.value.contains("load"))
        a.load = number(n, "load", 100);
      else
        a.rate = number(n, "rate_per_s", 1e6);
      break;
    case arrival_law::closed:
      known(n, {"law", "under_way", "think_us", "think"});
      if (n.value.contains("under_way"))
        a.under_way = static_cast<std::uint32_t>(
            whole_of(n.value["under_way"], {.field = n.at("under_way")}, 1, 1024));
      if (n.value.contains("think_us")) a.think = time(n, "think_us");
      if (n.value.contains("think"))
        a.exponential = one_of<bool>(n, "think", {{"fixed", false}, {"exponential", true}});
      break;
    case arrival_law::trace:
      known(n, {"law", "file", "speedup", "repeat_us"});
      a.file = line_of(n, "file", "a file beside this one");
      if (n.value.contains("speedup")) a.speedup = number(n, "speedup", 1e6);
      if (n.value.contains("repeat_us")) a.repeat = time(n, "repeat_us");
      break;
    }
    return a;
  }
};

[[nodiscard]] inline nlohmann::ordered_json arrivals_json(const arrival_spec& a) {
  switch (a.law) {
  case arrival_law::uniform:
  case arrival_law::poisson: {
    nlohmann::ordered_json j{{"law", a.law == arrival_law::uniform ? "uniform" : "poisson"}};
    j[a.load > 0 ? "load" : "rate_per_s"] = a.load > 0 ? a.load : a.rate;
    return j;
  }
  case arrival_law::closed:
    return {{"law", "closed"},
            {"under_way", a.under_way},
            {"think_us", gsched::to_us(a.think)},
            {"think", a.exponential ? "exponential" : "fixed"}};
  case arrival_law::trace: break;
  }
  return {{"law", "trace"},
          {"file", a.file},
          {"speedup", a.speedup},
          {"repeat_us", gsched::to_us(a.repeat)}};
}

} // namespace detail

/// A client as a workload's file has it.
[[nodiscard]] inline nlohmann::ordered_json client_to_json(const client_spec& c) {
  return {{"name", c.name},
          {"class", c.real_time() ? "real_time" : "best_effort"},
          {"model", c.model},
          {"arrivals", detail::arrivals_json(c.arrivals)}};
}

/// A workload's file is refused beyond this size, before it is parsed.
inline constexpr std::size_t max_workload_bytes = std::size_t{1} << 20;

/// `name` stands for the text in errors.
/// Errors   bad_profile, one line: file, JSON pointer, what is wrong, what was expected.
[[nodiscard]] inline workload parse_workload(std::string_view text, std::string name) {
  if (text.size() > max_workload_bytes)
    throw gsched::error(gsched::errc::bad_profile, name + ": too large, expected at most 1 MiB");
  return detail::workload_reader(std::move(name)).read(text);
}

/// What parse_workload reads: equal workloads give equal bytes.
inline void write_workload(std::ostream& out, const workload& w) {
  nlohmann::ordered_json clients = nlohmann::ordered_json::array();
  for (const client_spec& c : w.clients) clients.push_back(client_to_json(c));
  nlohmann::ordered_json document{{"gsched_workload", detail::workload_reader::version},
                                  {"name", w.name}};
  if (!w.about.empty()) document["about"] = w.about;
  document["clients"] = std::move(clients);
  out << document.dump(2, ' ', true) << '\n';
}

} // namespace realtime
