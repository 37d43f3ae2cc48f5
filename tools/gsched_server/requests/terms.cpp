// SPDX-License-Identifier: Apache-2.0
#include "gsched_server/requests/terms.hpp"

#include "gsched_server/operations/request_id.hpp"
#include "gsched_server/requests/answer.hpp"

#include "common/cli/option_values.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace gsched_server {

namespace {

constexpr double most_deadline_ms = 3.6e6;

[[noreturn]] void refuse_parameter(std::string_view name, const std::string& wrong,
                                   const std::string& expected) {
  throw refusal(outcome::invalid,
                "parameter " + std::string(name) + ": " + wrong + ", expected " + expected);
}

std::string show(const parameter& value) {
  struct text {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t n) const { return std::to_string(n); }
    std::string operator()(double d) const { return std::to_string(d); }
    std::string operator()(std::string_view s) const { return common::in_quotes(s); }
  };
  return std::visit(text{}, value);
}

} // namespace

void terms::set(std::string_view name, const parameter& value) {
  if (name == "tenant") {
    const auto* const text = std::get_if<std::string_view>(&value);
    if (text == nullptr || text->empty() || text->size() > 256)
      refuse_parameter(name, show(value), "a name of 1 to 256 bytes");
    tenant = *text;
  } else if (name == "priority") {
    const auto* const text = std::get_if<std::string_view>(&value);
    if (text == nullptr || (*text != "real_time" && *text != "best_effort"))
      refuse_parameter(name, show(value), "real_time or best_effort");
    real_time = *text == "real_time";
  } else if (name == "real_time") {
    const auto* const flag = std::get_if<bool>(&value);
    if (flag == nullptr) refuse_parameter(name, show(value), "true or false");
    real_time = *flag;
  } else if (name == "deadline_ms") {
    double ms = -1;
    if (const auto* const whole = std::get_if<std::int64_t>(&value))
      ms = static_cast<double>(*whole);
    else if (const auto* const real = std::get_if<double>(&value))
      ms = *real;
    if (!(ms > 0 && ms <= most_deadline_ms))
      refuse_parameter(name, show(value), "milliseconds above 0, at most 3.6e6");
    deadline = gsched::from_us(1e3 * ms);
  }
}

void terms::set_header(std::string_view name, std::string_view value) {
  if (name == request_id_header && is_request_id(value)) id = value;
  constexpr std::string_view prefix = "gsched-";
  if (!name.starts_with(prefix)) return;
  const std::string_view rest = name.substr(prefix.size());
  if (rest == "tenant" || rest == "priority") {
    set(rest, value);
  } else if (rest == "real-time") {
    if (value == "true" || value == "false")
      set("real_time", value == "true");
    else
      set("real_time", value); // which refuses it
  } else if (rest == "deadline-ms") {
    double ms = 0;
    const auto [stop, ec] = std::from_chars(value.data(), value.data() + value.size(), ms);
    if (ec == std::errc{} && stop == value.data() + value.size())
      set("deadline_ms", ms);
    else
      set("deadline_ms", value); // which refuses it
  }
}

} // namespace gsched_server
