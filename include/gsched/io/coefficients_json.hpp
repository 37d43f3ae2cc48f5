// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/io/json_fields.hpp>
#include <gsched/io/read_text.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace gsched {

/// A larger file of coefficients is an error; its text is not parsed.
inline constexpr std::size_t max_coefficients_bytes = std::size_t{1} << 20;

namespace detail {

inline constexpr std::array<std::string_view, contention_law::size> contention_names{
    "l2_latency", "dram_latency", "warps", "l2", "dram", "older", "clock"};
inline constexpr std::array<std::string_view, 2> replay_names{"gap_us", "start_us"};

/// Reads the numbers of an object that has exactly these names. Each is from 0 to 1e6.
template <std::size_t N>
[[nodiscard]] std::array<double, N>
read_numbers(const json_fields& fields, const nlohmann::json& document, std::string_view object,
             const std::array<std::string_view, N>& names) {
  constexpr double most = 1e6;
  const nlohmann::json& node =
      fields.member(document, {json_fields::none, object}, "an object of numbers");
  if (!node.is_object())
    fields.fail({json_fields::none, object}, "is " + json_fields::show(node),
                "an object of numbers");
  std::array<double, N> values{};
  for (std::size_t i = 0; i < N; ++i) {
    const std::string field = std::string(object) + "/" + std::string(names[i]);
    const json_fields::place at{json_fields::none, field};
    const auto found = node.find(names[i]);
    if (found == node.end()) fields.fail(at, "is missing", "a number");
    if (!found->is_number()) fields.fail(at, "is " + json_fields::show(*found), "a number");
    values[i] = found->template get<double>();
    if (!(values[i] >= 0 && values[i] <= most))
      fields.fail(at, "is " + json_fields::show(*found), "a number from 0 to 1e6");
  }
  if (node.size() != N)
    fields.fail({json_fields::none, object}, "has " + std::to_string(node.size()) + " fields",
                std::to_string(N));
  return values;
}

} // namespace detail

/// Reads what `interference fit --out` writes. `name` names the text in errors.
///
/// Errors   bad_profile, one line: file, JSON pointer, what is wrong, what was expected.
/// Cost     O(text).
[[nodiscard]] inline interference_coefficients parse_coefficients(std::string_view text,
                                                                  std::string name) {
  if (text.size() > max_coefficients_bytes)
    throw error(errc::bad_profile, name + ": too large, expected at most " +
                                       std::to_string(max_coefficients_bytes >> 20) + " MiB");
  const json_fields fields(std::move(name));
  const nlohmann::json document = fields.parse_once(text);
  if (!document.is_object()) fields.fail({}, "is " + json_fields::show(document), "a JSON object");
  static_cast<void>(
      fields.whole<std::uint32_t>(document, {json_fields::none, "gsched_interference"}, 4, 4));
  for (const auto& [key, value] : document.items())
    if (key != "gsched_interference" && key != "contention" && key != "replay" && key != "seen" &&
        key != "graphs")
      fields.fail({}, "has the unknown key " + json_fields::show(nlohmann::json(key)),
                  "only gsched_interference, contention, replay, seen, graphs");
  interference_coefficients c;
  c.contention = contention_law::of(
      detail::read_numbers(fields, document, "contention", detail::contention_names));
  const auto replay = detail::read_numbers(fields, document, "replay", detail::replay_names);
  c.replay = {replay[0], replay[1]};
  c.seen.sum = detail::read_numbers(fields, document, "seen", resource_names);
  c.seen.graphs = fields.whole<std::uint32_t>(document, {json_fields::none, "graphs"}, 1, 1000);
  return c;
}

/// Reads coefficients from a file.
///
/// Errors   those of parse_coefficients; io if the file cannot be read.
[[nodiscard]] inline interference_coefficients
load_coefficients(const std::filesystem::path& path) {
  return parse_coefficients(read_text(path, "a file of coefficients", max_coefficients_bytes),
                            path.string());
}

/// Writes what parse_coefficients reads. Equal coefficients give equal bytes, and reading them back
/// gives equal coefficients.
///
/// Errors   none; the caller checks the stream.
inline void write_coefficients(std::ostream& out, const interference_coefficients& c) {
  nlohmann::ordered_json document{{"gsched_interference", 4}};
  const auto put = [&](const char* object, const auto& names, const auto& values) {
    nlohmann::ordered_json& node = document[object];
    for (std::size_t i = 0; i < names.size(); ++i) node[std::string(names[i])] = values[i];
  };
  put("contention", detail::contention_names, c.contention.values());
  put("replay", detail::replay_names, std::array{c.replay.gap_us, c.replay.start_us});
  put("seen", resource_names, c.seen.sum);
  document["graphs"] = c.seen.graphs;
  out << document.dump(2) << '\n';
}

} // namespace gsched
