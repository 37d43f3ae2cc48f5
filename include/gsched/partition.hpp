// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Planning: which partitions of which GPUs serve which models, and the verifier of such plans.

#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/every_cut.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/feasibility.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/idle_gpus.hpp>
#include <gsched/partition/idle_groups.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/partition/planner.hpp>
#include <gsched/partition/shared_sm_slowdowns.hpp>
#include <gsched/partition/sharing.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>
