// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The simulated GPU: a device in virtual time, and its presets.

#include <gsched/sim/device.hpp>
#include <gsched/sim/observer.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/padded.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/program_padder.hpp>
