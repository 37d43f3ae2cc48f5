// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/occupancy/accountant.hpp>

/// Room for so much work in flight that an accountant holds none back.
inline gsched::accountant_options much_room() {
  gsched::accountant_options a;
  a.max_outstanding = 256;
  a.overshoot_fill = 1e6;
  return a;
}
