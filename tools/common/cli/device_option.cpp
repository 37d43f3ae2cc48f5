// SPDX-License-Identifier: Apache-2.0
#include "common/cli/device_option.hpp"

#include "common/cli/option_values.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace common {

void device_option::declare(command_line& line, bool queues, const char* chosen) {
  device_ = chosen;
  std::string help;
  const auto add = [&](const char* text) {
    help += (help.empty() ? "" : ";\n") + std::string(text);
  };
  if (allowed_.host) add("host, the CPU");
  if (allowed_.simulated) add("sim:h200 (or sim), a simulated NVIDIA H200");
  if (allowed_.preset) add("FILE.json, the preset of a simulated GPU");
  if (allowed_.gpu) add("cuda:N (cuda is cuda:0), a GPU of this machine");
  line.option("--device", device_, "NAME", help.c_str());
  if (queues)
    line.option("--queues", queues_, "N", "Hardware queues; default: as many as the device has");
}

std::string device_option::expected() const {
  std::vector<std::string_view> names;
  if (allowed_.host) names.push_back("host");
  if (allowed_.simulated) names.push_back("sim:h200");
  if (allowed_.gpu) names.insert(names.end(), {"cuda", "cuda:N"});
  if (allowed_.preset) names.push_back("a preset's file (.json)");
  return joined_by_or(names);
}

void device_option::read(device_choice& into) const {
  constexpr std::string_view option = "--device";
  const std::string_view text = device_;
  const auto allow = [&](bool allowed) {
    if (!allowed)
      refuse(option, in_quotes(text) + " cannot be used here", expected(),
             gsched::errc::unknown_name);
  };
  into.device = device_;
  if (text == "host") {
    allow(allowed_.host);
    into.host = true;
  } else if (text == "cuda" || text.starts_with("cuda:")) {
    allow(allowed_.gpu);
    into.gpu = text == "cuda" ? 0 : static_cast<int>(to_count(option, text.substr(5), 0, 1023));
  } else if (text.ends_with(".json")) {
    allow(allowed_.preset);
    into.preset = to_file(option, device_, "a preset's file");
  } else if (text == "sim" || text == "sim:h200") {
    allow(allowed_.simulated);
    into.device = "sim:h200";
  } else {
    refuse(option, "unknown device " + in_quotes(text), expected(), gsched::errc::unknown_name);
  }
  if (!queues_.empty()) into.queues = to_small_count("--queues", queues_, 1, 1024);
}

void no_cuda(const device_choice& which) {
  refuse("--device", which.device + ", but this build has no CUDA", "one made with a CUDA compiler",
         gsched::errc::no_device);
}

void threads_option::declare(command_line& line, const char* help) {
  line.option("--threads", threads_, "N", help);
}

std::size_t threads_option::read(const device_choice& on, const outputs& to) const {
  const bool alone = on.gpu.has_value() || !to.trace.empty();
  if (threads_.empty()) return alone ? 1 : std::max(std::thread::hardware_concurrency(), 1u);
  const std::uint64_t threads = to_count("--threads", threads_, 1, 1024);
  if (threads > 1 && on.gpu)
    refuse("--threads", "more than one on a GPU", "1, or a simulated device");
  if (threads > 1 && !to.trace.empty())
    refuse("--threads", "more than one beside --trace", "1, or no --trace");
  return threads;
}

} // namespace common
