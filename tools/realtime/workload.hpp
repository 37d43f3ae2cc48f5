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
  closed, ///< the next request follows a reply, after a think time
  trace   ///< as a file says
};

/// When the requests of a client arrive.
struct arrival_spec {
  arrival_law law = arrival_law::closed;
  double load = 0; ///< uniform, poisson: requests as a part of what the model does alone ...
  double rate = 0; ///< ... or a second; one of the two is above 0
  std::uint32_t under_way = 1; ///< closed: requests in flight at any time
  gsched::duration think{};    ///< closed: mean
  bool exponential = false;    ///< closed: think time
  std::string file;            ///< trace: in the folder of the workload's file
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

/// The clients of a GPU; tools/data/README.md describes the format of its files.
struct workload {
  std::string name;
  std::string about; ///< one line; may be empty
  std::vector<client_spec> clients;

  bool operator==(const workload&) const = default;
};

} // namespace realtime
