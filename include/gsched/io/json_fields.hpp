// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// Reads fields of a JSON document and checks them. Each error is bad_profile, one line: file, JSON
/// pointer, what is wrong, what was expected.
///
/// Threads  immutable.
class json_fields {
public:
  static constexpr int max_depth = 32;
  static constexpr double max_us = 3.6e9; ///< an hour; the sum of all times of a file fits duration

  explicit json_fields(std::string file) : file_(std::move(file)) {}

  using json = nlohmann::json;
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// A place in the document; `pointer` formats it for an error.
  struct place {
    std::size_t operation = none;
    std::string_view field{};
    std::size_t element = none;
    [[nodiscard]] std::string pointer() const {
      std::string p;
      if (operation != none) p += "/operations/" + std::to_string(operation);
      if (!field.empty()) p.append("/").append(field);
      if (element != none) p += "/" + std::to_string(element);
      return p.empty() ? "the document" : p;
    }
  };

  /// Throws an error about a place: "file: pointer wrong, expected ...".
  [[noreturn]] void fail(const place& at, const std::string& wrong, const std::string& expected,
                         errc code = errc::bad_profile) const {
    throw error(code, file_ + ": " + at.pointer() + " " + wrong + ", expected " + expected);
  }

  /// Parses a document. `known(depth, key)` returns whether to keep a key; the root's keys have
  /// depth 1. A kept key that occurs twice in one object is an error.
  template <class Known>
  [[nodiscard]] json parse(std::string_view text, Known known) const {
    std::vector<std::vector<std::string>> open; // by depth: keys seen in the current objects
    return parse_events(text, [&](int depth, json::parse_event_t event, const json& value) {
      const auto level = static_cast<std::size_t>(depth);
      if (event == json::parse_event_t::object_start) {
        if (open.size() <= level) open.resize(level + 1);
        open[level].clear();
      }
      if (event != json::parse_event_t::key) return true;
      const auto& key = value.get_ref<const std::string&>();
      if (!known(depth, std::string_view(key))) return false;
      std::vector<std::string>& others = open[level - 1];
      if (std::find(others.begin(), others.end(), key) != others.end())
        fail({}, "has the key " + show(json(key)) + " twice", "it once");
      others.push_back(key);
      return true;
    });
  }

  /// Parses a document and keeps every key.
  [[nodiscard]] json parse_once(std::string_view text) const {
    return parse(text, [](int, std::string_view) { return true; });
  }

  /// A member of an object, of any type.
  [[nodiscard]] const json& member(const json& node, const place& at,
                                   const std::string& expected) const {
    const auto found = node.find(at.field);
    if (found == node.end()) fail(at, "is missing", expected);
    return *found;
  }

  /// An array member.
  [[nodiscard]] const json& array(const json& node, const place& at) const {
    const json& value = member(node, at, "an array");
    if (!value.is_array()) fail(at, "is " + show(value), "an array");
    return value;
  }

  /// A string member without control characters.
  [[nodiscard]] const std::string& label(const json& node, const place& at) const {
    const json& value = member(node, at, "a string");
    if (!value.is_string()) fail(at, "is " + show(value), "a string");
    const auto& s = value.get_ref<const std::string&>();
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::any_of(s.begin(), s.end(), control))
      fail(at, "has a control character", "text of one line");
    return s;
  }

  /// A whole-number member from `least` to `most`; whole_of checks a value itself.
  template <class Number>
  [[nodiscard]] Number whole(const json& node, const place& at, Number least, Number most) const {
    return static_cast<Number>(whole_of(member(node, at, range(least, most)), at, least, most));
  }

  [[nodiscard]] std::uint64_t whole_of(const json& value, const place& at, std::uint64_t least,
                                       std::uint64_t most) const {
    if (!value.is_number_unsigned()) fail(at, "is " + show(value), range(least, most));
    const auto n = value.get<std::uint64_t>();
    if (n < least || n > most) fail(at, "is " + show(value), range(least, most));
    return n;
  }

  /// A time member in microseconds, at most an hour; time_of checks a value itself.
  [[nodiscard]] duration time(const json& node, const place& at, bool positive) const {
    return time_of(member(node, at, "a time in microseconds"), at, positive);
  }

  [[nodiscard]] duration time_of(const json& value, const place& at, bool positive) const {
    const char* const expected =
        positive ? "microseconds above 0, at most 3.6e9" : "microseconds from 0 to 3.6e9";
    if (!value.is_number()) fail(at, "is " + show(value), expected);
    const auto us = value.get<double>();
    if (!(us >= 0.0 && us <= max_us)) fail(at, "is " + show(value), expected);
    const duration t = from_us(us);
    if (positive && t == duration::zero()) fail(at, "is " + show(value), expected);
    return t;
  }

  /// The expected range, for an error.
  [[nodiscard]] static std::string range(std::uint64_t least, std::uint64_t most) {
    return "a whole number, " + std::to_string(least) + " to " + std::to_string(most);
  }

  /// The type of a value, for an error.
  [[nodiscard]] static std::string kind_of(const json& value) {
    return std::string(value.is_array() || value.is_object() ? "an " : "a ") + value.type_name();
  }

  /// A value, for an error: at most 40 characters, without control characters.
  [[nodiscard]] static std::string show(const json& value) {
    if (value.is_structured() || value.is_null()) return kind_of(value);
    std::string s = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (s.size() > 40) s = s.substr(0, 40) + "...";
    return s;
  }

private:
  template <class Keep>
  [[nodiscard]] json parse_events(std::string_view text, Keep keep_event) const {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw error(errc::bad_profile, file_ + ": empty, expected a JSON object");
    const auto keep = [&](int depth, json::parse_event_t event, const json& value) {
      if (depth > max_depth)
        throw error(errc::bad_profile, file_ + ": nested deeper than " + std::to_string(max_depth) +
                                           ", expected less");
      return keep_event(depth, event, value);
    };
    try {
      return json::parse(text.begin(), text.end(), keep);
    } catch (const json::parse_error& e) {
      if (e.byte > text.size())
        throw error(errc::bad_profile, file_ + ": ends too early, at byte " +
                                           std::to_string(text.size()) +
                                           ", expected the rest of the JSON document");
      const auto before = text.substr(0, e.byte > 0 ? e.byte - 1 : 0);
      throw error(errc::bad_profile,
                  file_ + ": " + line_and_column(before) + " is not JSON, expected a JSON object");
    } catch (const json::exception&) { // a number too large for double; has no position
      throw error(errc::bad_profile, file_ + ": a number too large, expected at most 1e308");
    }
  }

  [[nodiscard]] static std::string line_and_column(std::string_view before) {
    const auto lines = std::count(before.begin(), before.end(), '\n');
    const std::size_t last = before.rfind('\n');
    const std::size_t column =
        last == std::string_view::npos ? before.size() + 1 : before.size() - last;
    return "line " + std::to_string(lines + 1) + ", column " + std::to_string(column);
  }

  std::string file_;
};

} // namespace gsched
