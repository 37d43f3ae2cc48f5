// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Requests to serve: laws of arrival, mixes of models, traces, apps, and the loop that submits
/// them.

#include <gsched/workload/app.hpp>
#include <gsched/workload/app_demands.hpp>
#include <gsched/workload/arrivals.hpp>
#include <gsched/workload/mix.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/rate_curve.hpp>
#include <gsched/workload/serve.hpp>
#include <gsched/workload/trace_file.hpp>
