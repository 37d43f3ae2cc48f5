// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gsched_server {

/// A model that is served. What holds a pointer to it can submit to it: a model that is replaced or
/// removed leaves its devices when the last pointer is gone.
struct served {
  /// The model on one device.
  struct place {
    std::uint32_t device = 0; ///< settings::devices
    gsched::model_id id{};    ///< of its server
    gsched::duration alone{}; ///< time of a request that has the device for itself
  };

  model_plan plan;
  std::vector<place> places;      ///< by rising device; one or more
  gsched::duration alone{};       ///< the shortest of the places
  std::vector<std::string> zeros; ///< the bytes of each output
};
using served_ptr = std::shared_ptr<const served>;

} // namespace gsched_server
