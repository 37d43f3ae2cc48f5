// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/requests/service.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace gsched_server {

/// What both protocols say of the server and its models.
inline constexpr const char* server_name = "gsched_server";
inline constexpr const char* server_version = "0.1.0";
inline constexpr std::array<const char*, 2> server_extensions{"binary_tensor_data",
                                                              "model_repository"};
/// A profile has the time of a model, and none of its numbers.
[[nodiscard]] inline const char* platform_of(const served& m) noexcept {
  return m.plan.adaptor.library ? "gsched_adaptor" : "gsched_simulated_profile";
}

[[nodiscard]] inline std::vector<std::pair<std::string, std::string>>
properties_of(const served& m) {
  std::string devices;
  for (const served::place& at : m.places)
    devices += (devices.empty() ? "" : ",") + std::to_string(at.device);
  std::vector<std::pair<std::string, std::string>> all;
  if (m.plan.adaptor.library)
    all = {{"adaptor", m.plan.adaptor.library->type()}, {"outputs", "computed"}};
  else
    all = {{"profile", m.plan.profile.full_name()},
           {"measured_on", m.plan.profile.device},
           {"outputs", "zeros: only its time is known"}};
  all.insert(all.end(),
             {{"alone_us", std::to_string(static_cast<long long>(gsched::to_us(m.alone)))},
              {"instances", std::to_string(m.plan.instances)},
              {"devices", devices}});
  return all;
}

} // namespace gsched_server
