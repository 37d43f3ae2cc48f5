// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Co-location by padding: which best-effort work runs within real-time work, by rules, by
/// prediction, by trials.

#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/capacity.hpp>
#include <gsched/preempt/colocate/dominance.hpp>
#include <gsched/preempt/colocate/exploration.hpp>
#include <gsched/preempt/colocate/one_corunner.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/padded_programs.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/preempt/colocate/program.hpp>
#include <gsched/preempt/colocate/quiet.hpp>
#include <gsched/preempt/colocate/rules.hpp>
#include <gsched/preempt/colocate/selection.hpp>
#include <gsched/preempt/colocate/side_speed.hpp>
#include <gsched/preempt/colocate/stretches.hpp>
#include <gsched/preempt/colocate/trials.hpp>
