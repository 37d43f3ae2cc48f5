// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Serving with partition plans: the frontend, batches, replanning, and a service on any
/// batch_runner.

#include <gsched/serving/active_plan.hpp>
#include <gsched/serving/batch_runner.hpp>
#include <gsched/serving/copy_times.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/graph_batches.hpp>
#include <gsched/serving/group_assignment.hpp>
#include <gsched/serving/learning/corun_learning.hpp>
#include <gsched/serving/learning/interference_learning.hpp>
#include <gsched/serving/learning/learned_factor.hpp>
#include <gsched/serving/learning/rate_estimate.hpp>
#include <gsched/serving/learning/time_corrections.hpp>
#include <gsched/serving/learning/violation_margins.hpp>
#include <gsched/serving/paced_batches.hpp>
#include <gsched/serving/plan_loop.hpp>
#include <gsched/serving/plan_service.hpp>
#include <gsched/serving/plan_service_options.hpp>
#include <gsched/serving/replanning.hpp>
#include <gsched/serving/served_partition.hpp>
#include <gsched/serving/service_outcome.hpp>
#include <gsched/serving/simulated_batches.hpp>
#include <gsched/serving/waiting_request.hpp>
