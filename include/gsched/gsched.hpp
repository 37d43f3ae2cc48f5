// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of gsched but what needs more than the standard library and Boost.Intrusive: profiles as
/// JSON are in <gsched/job/profile_json.hpp>, over nlohmann-json.

#include <gsched/core/error.hpp>
#include <gsched/core/id.hpp>
#include <gsched/core/inline_vector.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/sync.hpp>
#include <gsched/core/time.hpp>

#include <gsched/job/context.hpp>
#include <gsched/job/estimate.hpp>
#include <gsched/job/frame_pool.hpp>
#include <gsched/job/job.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/job/program.hpp>
#include <gsched/job/stream.hpp>
#include <gsched/job/task.hpp>
#include <gsched/job/waitlist.hpp>

#include <gsched/notify/flow_control.hpp>
#include <gsched/notify/grouping.hpp>
#include <gsched/notify/ring.hpp>
#include <gsched/notify/word.hpp>

#include <gsched/trace/chrome.hpp>
#include <gsched/trace/histogram.hpp>
#include <gsched/trace/recorder.hpp>

#include <gsched/policy/deficit.hpp>
#include <gsched/policy/deficit_over.hpp>
#include <gsched/policy/edf.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/name.hpp>
#include <gsched/policy/names.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/round_robin.hpp>
#include <gsched/policy/sjf.hpp>
#include <gsched/policy/srpt.hpp>

#include <gsched/occupancy/accountant.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/footprint.hpp>
#include <gsched/occupancy/limits.hpp>
#include <gsched/occupancy/per_sm_accountant.hpp>
#include <gsched/occupancy/program_footprint.hpp>
#include <gsched/occupancy/segment_table.hpp>

#include <gsched/device/device.hpp>
#include <gsched/device/null_device.hpp>

#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/dispatch/inbox.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/dispatch/options.hpp>
#include <gsched/dispatch/request.hpp>
#include <gsched/dispatch/statistics.hpp>

#include <gsched/sim/arrivals.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/mix.hpp>
#include <gsched/sim/preset.hpp>
#include <gsched/sim/random.hpp>
#include <gsched/sim/serve.hpp>
#include <gsched/sim/trace_file.hpp>
