// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spec.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// Graphs as text: a line for the graph and one for each node.
///
///   graph urgent seed=7 nodes=3
///   0 kernel bytes=256 us=12 blocks=4 salt=91
///   1 child after=0
///   2 set bytes=64 value=7 width=64 in=1
///
/// A node's edges are `after=3,4w,5o,6ws`: w waits inside the kernel, o overlaps, s may start once
/// the other's blocks have begun. What is not written is as in spec.hpp.
namespace work_graph {

inline constexpr std::array<std::string_view, 8> kind_names{
    "kernel", "copy", "to_device", "to_host", "set", "host", "empty", "child"};

/// Key and value pairs of a line, and words without a value.
class line_fields {
public:
  line_fields(std::string_view line, std::string where) : where_(std::move(where)) {
    while (!line.empty()) {
      const std::size_t from = line.find_first_not_of(" \t\r");
      if (from == std::string_view::npos) break;
      line.remove_prefix(from);
      const std::size_t to = std::min(line.find_first_of(" \t\r"), line.size());
      const std::string_view word = line.substr(0, to);
      line.remove_prefix(to);
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos)
        words_.emplace_back(word);
      else
        values_.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }

  [[nodiscard]] const std::vector<std::string>& words() const noexcept { return words_; }
  /// The value of a key, taken out; unset where it is absent.
  [[nodiscard]] std::optional<std::string> take(std::string_view key) {
    for (auto v = values_.begin(); v != values_.end(); ++v)
      if (v->first == key) {
        std::string value = std::move(v->second);
        values_.erase(v);
        return value;
      }
    return std::nullopt;
  }
  template <class T>
  void number(std::string_view key, T& into) {
    if (const auto v = take(key)) into = parsed<T>(*v, key);
  }
  template <class T>
  [[nodiscard]] T parsed(std::string_view text, std::string_view key) const {
    T value{};
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong != std::errc{} || end != text.data() + text.size())
      fail(std::string(key) + "=" + std::string(text) + ", expected a number");
    return value;
  }
  /// After all keys that are known were taken.
  void finish() const {
    if (!values_.empty()) fail("\"" + values_.front().first + "\", expected a known key");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw gsched::error(gsched::errc::bad_profile, where_ + ": " + what);
  }

private:
  std::string where_;
  std::vector<std::string> words_;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// Reads lines, counts them, and leaves out empty ones and those that begin with #.
class line_reader {
public:
  line_reader(std::istream& from, std::string name) : from_(from), name_(std::move(name)) {}

  [[nodiscard]] std::optional<line_fields> next() {
    for (std::string line; std::getline(from_, line);) {
      ++number_;
      const std::size_t first = line.find_first_not_of(" \t\r");
      if (first != std::string::npos && line[first] != '#') return line_fields(line, here());
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string here() const { return name_ + ":" + std::to_string(number_); }
  [[noreturn]] void fail(const std::string& what) const {
    throw gsched::error(gsched::errc::bad_profile, here() + ": " + what);
  }

private:
  std::istream& from_;
  std::string name_;
  std::size_t number_ = 0;
};

[[nodiscard]] inline std::string written(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

[[nodiscard]] inline std::string to_text(const node& n) {
  static const node plain;
  std::string s(kind_names[static_cast<std::size_t>(n.what)]);
  const auto number = [&](const char* key, auto value, auto usual) {
    if (value != usual) s += std::string(" ") + key + "=" + std::to_string(value);
  };
  const auto flag = [&](const char* word, bool value) {
    if (value) s += std::string(" ") + word;
  };
  if (has_buffer(n.what)) number("bytes", n.bytes, 0u);
  number("salt", n.salt, 0u);
  if (n.what == kind::kernel) {
    s += " us=" + written(n.us);
    number("blocks", n.blocks, plain.blocks);
    number("fill", n.fill, plain.fill);
    number("threads", n.threads, plain.threads);
    number("cluster", n.cluster, plain.cluster);
    number("shared", n.shared, plain.shared);
    number("priority", n.priority, plain.priority);
    flag("cooperative", n.cooperative);
    flag("triggers", n.triggers);
  }
  if (n.what == kind::set) {
    number("element", n.set.element, plain.set.element);
    number("value", n.set.value, plain.set.value);
    number("width", n.set.width, plain.set.width);
    number("height", n.set.height, plain.set.height);
    number("pitch", n.set.pitch, plain.set.pitch);
  }
  number("in", n.parent, none);
  for (std::size_t k = 0; k < n.after.size(); ++k) {
    const edge& e = n.after[k];
    s += (k == 0 ? " after=" : ",") + std::to_string(e.from);
    if (e.how != order::full) s += e.how == order::waits ? "w" : "o";
    if (e.at_start) s += "s";
  }
  for (std::size_t k = 0; k < n.reads.size(); ++k)
    s += (k == 0 ? " reads=" : ",") + std::to_string(n.reads[k]);
  number("takes", n.takes, none);
  return s;
}

[[nodiscard]] inline std::string to_text(const graph& g) {
  std::string s = "graph " + g.name + " seed=" + std::to_string(g.seed) +
                  " nodes=" + std::to_string(g.nodes.size()) + (g.captured ? " captured" : "") +
                  "\n";
  for (std::size_t i = 0; i < g.nodes.size(); ++i)
    s += std::to_string(i) + " " + to_text(g.nodes[i]) + "\n";
  return s;
}

namespace detail {

[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t to = std::min(text.find(','), text.size());
    parts.push_back(text.substr(0, to));
    text.remove_prefix(std::min(to + 1, text.size()));
  }
  return parts;
}

[[nodiscard]] inline edge read_edge(const line_fields& line, std::string_view text) {
  edge e;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  e.from = line.parsed<std::uint32_t>(text.substr(0, digits), "after");
  for (const char c : text.substr(digits)) {
    if (c == 'w')
      e.how = order::waits;
    else if (c == 'o')
      e.how = order::overlaps;
    else if (c == 's')
      e.at_start = true;
    else
      line.fail("after=" + std::string(text) + ", expected a node's number with w, o or s");
  }
  return e;
}

[[nodiscard]] inline node read_node(line_fields& line, std::size_t number) {
  const std::vector<std::string>& words = line.words();
  if (words.size() < 2 || words[0] != std::to_string(number))
    line.fail("expected the line of node " + std::to_string(number));
  const auto name = std::find(kind_names.begin(), kind_names.end(), words[1]);
  if (name == kind_names.end()) line.fail("\"" + words[1] + "\", expected a kind of node");
  node n;
  n.what = static_cast<kind>(name - kind_names.begin());
  for (std::size_t k = 2; k < words.size(); ++k) {
    if (words[k] == "cooperative")
      n.cooperative = true;
    else if (words[k] == "triggers")
      n.triggers = true;
    else
      line.fail("\"" + words[k] + "\", expected a known word");
  }
  line.number("bytes", n.bytes);
  line.number("salt", n.salt);
  line.number("us", n.us);
  line.number("blocks", n.blocks);
  line.number("fill", n.fill);
  line.number("threads", n.threads);
  line.number("cluster", n.cluster);
  line.number("shared", n.shared);
  line.number("priority", n.priority);
  line.number("element", n.set.element);
  line.number("value", n.set.value);
  line.number("width", n.set.width);
  line.number("height", n.set.height);
  line.number("pitch", n.set.pitch);
  line.number("in", n.parent);
  line.number("takes", n.takes);
  if (const auto after = line.take("after"))
    for (const std::string_view part : split(*after)) n.after.push_back(read_edge(line, part));
  if (const auto reads = line.take("reads"))
    for (const std::string_view part : split(*reads))
      n.reads.push_back(line.parsed<std::uint32_t>(part, "reads"));
  line.finish();
  return n;
}

} // namespace detail

/// Of the lines from "graph NAME ..." on.
/// Errors   gsched::error bad_profile, a line with the place, for what is no graph or has a flaw.
[[nodiscard]] inline graph read_graph(line_reader& from) {
  graph g;
  auto first = from.next();
  if (!first || first->words().size() < 2 || first->words()[0] != "graph")
    from.fail("expected \"graph NAME\"");
  g.name = first->words()[1];
  for (std::size_t k = 2; k < first->words().size(); ++k) {
    if (first->words()[k] != "captured")
      first->fail("\"" + first->words()[k] + "\", expected a known word");
    g.captured = true;
  }
  std::size_t count = 0;
  first->number("seed", g.seed);
  first->number("nodes", count);
  first->finish();
  for (std::size_t i = 0; i < count; ++i) {
    auto line = from.next();
    if (!line) from.fail("expected " + std::to_string(count) + " nodes");
    g.nodes.push_back(detail::read_node(*line, i));
  }
  if (const auto wrong = flaw(g)) from.fail("graph " + g.name + ": " + *wrong);
  return g;
}

} // namespace work_graph
