// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/device/device.hpp>

#include <concepts>

namespace gsched {

/// A device that can stop a lane whose work has started. A model also keeps, for lanes opened with
/// lane_options::yields:
///  Y1 yielding  after yield(lane), running work continues to its next preemption point, and
///               nothing starts beyond it. When no work of the lane runs any more, lane_yielded is
///               polled, once; immediately if nothing ran. A device that cannot observe the end of
///               the last kernel polls lane_yielded after the time that this kernel takes alone.
/// Y2 preempted a segment that has not ended by then, and whose operations are all preemptible
/// (operation::preemptible), is polled as segment_preempted instead of its end, and so is each
/// segment behind it on its lane: in lane order, before lane_yielded. A segment that has not
/// started is preempted with 0 operations ended, whatever its operations are, or stays on the lane
/// if the device cannot withdraw it.
///  Y3 progress  `operation` of segment_preempted is the number of its operations that have ended.
///               The next one may have run in part: a segment of the same program that starts with
///               it, on any lane, runs the remaining blocks, and no ended block runs again.
///  Y4 holding   a segment with other operations stays on the lane: operations that have started
///               end, the rest starts when the lane resumes. A device may let the rest run earlier,
///               up to the end of the segment, if it documents the conditions and counts the cases.
///  Y5 resuming  resume(lane) continues the work that stayed on the lane; lane_resumed is polled,
///               once, when work of the lane runs again; immediately if nothing stayed.
///  Y6 others    the other lanes are not affected.
///  Y7 hot path  yield and resume neither allocate, lock nor throw.
/// The caller alternates yield and resume for each lane, resumes only after lane_yielded was
/// polled, and submits nothing to the lane in between. It runs the rest of a preempted program
/// before it runs that program again.
///
/// Source   Han et al., "Real-time, Work-conserving GPU Scheduling for Concurrent DNN Inference",
///          ACM TOCS 44(1), 2025, section 4, doi:10.1145/3768622.
/// Differs  no block is killed at an unknown position, so none runs twice; kernels without
///          preemption support are held between two kernels, in place.
template <class D>
concept preemptive_device = device<D> && requires(D d, lane_id lane) {
  { d.yield(lane) } noexcept -> std::same_as<void>;
  { d.resume(lane) } noexcept -> std::same_as<void>;
};

} // namespace gsched
