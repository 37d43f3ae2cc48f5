// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Interference: solo metrics of models, laws fitted on measured pairs, and the slow-downs that
/// they predict.

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/error_summary.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/linear_law.hpp>
#include <gsched/interference/sharing_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>
