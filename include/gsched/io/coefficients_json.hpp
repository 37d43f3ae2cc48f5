// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
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

/// A number of an object, and what it may be.
struct bounded_name {
  std::string_view name;
  double least = 0, most = 1e6;
};

/// As in presets. Within these, the law is at least 1 and never falls with a demand of a neighbour:
/// an older kernel keeps no more than all of its demand.
inline constexpr std::array<bounded_name, contention_law::size> contention_names{
    {{"l2_latency", 0, 100},
     {"dram_latency", 0, 100},
     {"warps", 0, 100},
     {"l2", 0.01, 100},
     {"dram", 0.01, 100},
     {"older", 0, 1},
     {"clock", 0, 100}}};
inline constexpr std::array<bounded_name, 2> replay_names{{{"gap_us"}, {"start_us"}}};
inline constexpr std::array<bounded_name, resources> seen_names = [] {
  std::array<bounded_name, resources> all{};
  for (std::size_t r = 0; r < resources; ++r) all[r].name = resource_names[r];
  return all;
}();

/// Reads the numbers of an object that has exactly these names.
template <std::size_t N>
[[nodiscard]] std::array<double, N>
read_numbers(const json_fields& fields, const nlohmann::json& document, std::string_view object,
             const std::array<bounded_name, N>& names) {
  const nlohmann::json& node =
      fields.member(document, {json_fields::none, object}, "an object of numbers");
  if (!node.is_object())
    fields.fail({json_fields::none, object}, "is " + json_fields::show(node),
                "an object of numbers");
  std::array<double, N> values{};
  for (std::size_t i = 0; i < N; ++i) {
    const auto& [name, least, most] = names[i];
    const std::string field = std::string(object) + "/" + std::string(name);
    const json_fields::place at{json_fields::none, field};
    const auto found = node.find(name);
    if (found == node.end()) fields.fail(at, "is missing", "a number");
    if (!found->is_number()) fields.fail(at, "is " + json_fields::show(*found), "a number");
    values[i] = found->template get<double>();
    if (!(values[i] >= least && values[i] <= most))
      fields.fail(at, "is " + json_fields::show(*found),
                  "a number from " + number_text(least) + " to " + number_text(most));
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
  c.seen.sum = detail::read_numbers(fields, document, "seen", detail::seen_names);
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
    for (std::size_t i = 0; i < names.size(); ++i) node[std::string(names[i].name)] = values[i];
  };
  put("contention", detail::contention_names, c.contention.values());
  put("replay", detail::replay_names, std::array{c.replay.gap_us, c.replay.start_us});
  put("seen", detail::seen_names, c.seen.sum);
  document["graphs"] = c.seen.graphs;
  out << document.dump(2) << '\n';
}

} // namespace gsched
