// SPDX-License-Identifier: Apache-2.0
#include "gsched_top/frame.hpp"

#include "common/cli/run_error.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gsched_top {

namespace {

using nlohmann::json;

/// At most so many characters, all of ASCII.
std::string shown(const json& name, std::size_t most) {
  std::string s = name.get<std::string>();
  for (char& c : s)
    if (c < 0x20 || c > 0x7e) c = '?';
  return s.size() <= most ? s : s.substr(0, most - 1) + "+";
}

std::string time_text(double us) {
  return us >= 1e6   ? fmt::format("{:.2f} s", us * 1e-6)
         : us >= 1e3 ? fmt::format("{:.2f} ms", us * 1e-3)
                     : fmt::format("{:.0f} us", us);
}

/// A rate is null until something has watched for a while.
std::string rate_text(const json& v) {
  return v.is_null() ? "-" : fmt::format("{:.1f}", v.get<double>());
}
std::string share_text(const json& v) {
  return v.is_null() ? "-" : fmt::format("{:.1f}%", 100 * v.get<double>());
}

std::string frame_of(const json& s) {
  const json& q = s.at("requests");
  std::string out = fmt::format(
      "gsched_server {}, {}, {} UTC\n{} of {} in service, {} ended, {} failed or refused, {}/s, {} "
      "failed/s\n\n",
      shown(s.at("state"), 20), shown(s.at("policy"), 30), shown(s.at("at"), 20),
      q.at("active").get<std::uint64_t>(), q.at("limit").get<std::uint64_t>(),
      q.at("ended").get<std::uint64_t>(), q.at("failed").get<std::uint64_t>(),
      rate_text(q.at("per_s")), rate_text(q.at("failed_per_s")));
  out += fmt::format("{:<24} {:>7} {:>13} {:>11} {:>8} {:>10} {:>12} {:>6}\n", "device", "busy",
                     "SMs", "lanes", "waiting", "queue", "preemptions", "/s");
  for (const json& d : s.at("devices"))
    out += fmt::format(
        "{:<24} {:>7} {:>13} {:>11} {:>8} {:>10} {:>12} {:>6}\n",
        fmt::format("{} {}{}", d.at("device").get<int>(), shown(d.at("name"), 14),
                    d.at("failed").get<bool>() ? " FAILED" : ""),
        share_text(d.at("busy")),
        fmt::format("{} of {}", rate_text(d.at("sms_in_use")), d.at("sms").get<int>()),
        fmt::format("{} of {}", rate_text(d.at("lanes_in_use")), d.at("lanes").get<int>()),
        d.at("waiting").get<std::uint64_t>(), time_text(d.at("queued_us").get<double>()),
        d.at("preemptions").get<std::uint64_t>(), rate_text(d.at("preemptions_per_s")));
  out += fmt::format("\n{:<24} {:<16} {:>9} {:>9} {:>10} {:>10} {:>10}\n", "model", "tenant", "ok",
                     "otherwise", "p50", "p99", "wait p99");
  for (const json& l : s.at("latency")) {
    const bool any = l.at("recent").get<std::uint64_t>() > 0;
    const auto time = [&](const char* key) {
      return any ? time_text(l.at(key).get<double>()) : "-";
    };
    out += fmt::format("{:<24} {:<16} {:>9} {:>9} {:>10} {:>10} {:>10}\n", shown(l.at("model"), 24),
                       shown(l.at("tenant"), 16), l.at("ok").get<std::uint64_t>(),
                       l.at("otherwise").get<std::uint64_t>(), time("p50_us"), time("p99_us"),
                       time("wait_p99_us"));
  }
  std::string refusals;
  for (const auto& [reason, n] : s.at("refusals").items())
    if (n.get<std::uint64_t>() > 0)
      refusals += fmt::format("  {} {}", shown(reason, 20), n.get<std::uint64_t>());
  if (!refusals.empty()) out += "\nrefusals" + refusals + "\n";
  constexpr std::size_t most_decisions = 8;
  std::string decisions;
  std::size_t left = most_decisions;
  for (const json& d : s.at("decisions")) {
    if (left-- == 0) break;
    decisions +=
        fmt::format("{} {:<20} {:<24} {}\n", shown(d.at("at"), 12), shown(d.at("what"), 20),
                    d.contains("model") ? shown(d.at("model"), 24) : "",
                    d.contains("tenant") ? shown(d.at("tenant"), 16) : "");
  }
  if (!decisions.empty()) out += "\n" + decisions;
  return out;
}

} // namespace

std::string frame_of(const std::string& snapshot) {
  try {
    return frame_of(json::parse(snapshot));
  } catch (const json::exception&) {
    throw common::run_error(gsched::errc::io,
                            "an event that is none of gsched_server's, expected a snapshot");
  }
}

} // namespace gsched_top
