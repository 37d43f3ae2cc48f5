// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How much work slows other work beside it: metrics, laws, and what they predict.

#include <gsched/interference/chain_pair.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/interference/error_summary.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/linear_law.hpp>
#include <gsched/interference/sharing_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/stand_in_chain.hpp>
