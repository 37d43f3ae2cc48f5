// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Workloads: arrival processes, request mixes, traces, apps, and the loop that submits requests to
/// a dispatcher.

#include <gsched/workload/app.hpp>
#include <gsched/workload/app_demands.hpp>
#include <gsched/workload/arrival.hpp>
#include <gsched/workload/arrivals.hpp>
#include <gsched/workload/random.hpp>
#include <gsched/workload/rate_curve.hpp>
#include <gsched/workload/request_mix.hpp>
#include <gsched/workload/serve_workload.hpp>
#include <gsched/workload/trace_arrivals.hpp>
#include <gsched/workload/varying_poisson.hpp>
