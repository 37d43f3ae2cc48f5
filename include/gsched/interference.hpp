// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Interference: solo metrics of models, the law of contention with coefficients fitted on
/// measured pairs, and the slow-downs that it predicts.

#include <gsched/interference/beyond_fit.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/common_work.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/corunner.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/error_summary.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/mean_pressure.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/interference/surroundings.hpp>
