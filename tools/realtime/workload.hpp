// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace realtime {

enum class arrival_law {
  uniform, ///< one a period
  poisson,
  closed, ///< a reply brings the next request, after a time to think
  trace   ///< as a file says
};

/// When one client asks.
struct arrival_spec {
  arrival_law law = arrival_law::closed;
  double load = 0; ///< uniform, poisson: requests as a part of what the model does alone ...
  double rate = 0; ///< ... or a second; one of the two is above 0
  std::uint32_t under_way = 1; ///< closed: requests at any time
  gsched::duration think{};    ///< closed: mean
  bool exponential = false;    ///< closed: the time to think
  std::string file;            ///< trace: beside the workload's
  double speedup = 1;          ///< trace: its times are divided by that
  gsched::duration repeat{};   ///< trace: begins again after that, in its own time; 0: never

  bool operator==(const arrival_spec&) const = default;
};

struct client_spec {
  std::string name;
  gsched::service_class service = gsched::service_class::best_effort;
  std::string model; ///< stem of a profile's file
  arrival_spec arrivals;

  [[nodiscard]] bool real_time() const noexcept {
    return service == gsched::service_class::real_time;
  }
  bool operator==(const client_spec&) const = default;
};

/// Who asks for what, and when: tools/data/README.md has the format of its files.
struct workload {
  std::string name;
  std::string about; ///< one line; may be empty
  std::vector<client_spec> clients;

  bool operator==(const workload&) const = default;
};

} // namespace realtime
