// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/device/device.hpp>

#include <concepts>

namespace gsched {

/// A device whose lanes make way when told to, with work on them that has started. A model also
/// keeps, for lanes opened with lane_options::yields:
///  Y1 yielding  after yield(lane), what runs of it goes on to the next point where it can stop,
///               and nothing starts beyond. When nothing of the lane runs any more, lane_yielded is
///               polled, once; at once if nothing ran. A device that does not hear of the last
///               kernel's end polls it when the time is over that this kernel takes alone.
///  Y2 leaving   a segment that has not ended then, and all of whose operations leave
///               (operation::leaves), is polled as segment_preempted instead of its end, and so is
///               each segment behind it on its lane: in lane order, before lane_yielded. One that
///               has not started is preempted with 0 operations ended, whatever it is made of, or
///               stays, if the device cannot take it back.
///  Y3 progress  `operation` of segment_preempted says how many of its operations have ended. The
///               next one may have run in part: a segment of the same program that begins with it,
///               on any lane, runs what is left of it, and no block that has ended again.
///  Y4 holding   a segment with other operations stays on the lane: those that have started end,
///               the rest starts when the lane resumes; or earlier, up to its end, where a device
///               says under which conditions, and counts them.
///  Y5 resuming  resume(lane) lets what stayed go on where it stood; lane_resumed is polled, once,
///               when work of it runs again; at once if nothing stayed.
///  Y6 others    the other lanes take no notice.
///  Y7 hot path  yield and resume neither allocate, lock nor throw.
/// The caller owes: yield and resume in turn for each lane, resume only after lane_yielded was
/// polled; no submit to a lane in between; what is left of a preempted program is run before the
/// program is run again.
///
/// Source   Han et al., "Real-time, Work-conserving GPU Scheduling for Concurrent DNN Inference",
///          ACM TOCS 44(1), 2025, section 4, doi:10.1145/3768622.
/// Differs  nothing is killed whose place is not known, so nothing runs twice; kernels that know
///          nothing of it are held between two of them, in place.
template <class D>
concept preemptive_device = device<D> && requires(D d, lane_id lane) {
  { d.yield(lane) }
  noexcept->std::same_as<void>;
  { d.resume(lane) }
  noexcept->std::same_as<void>;
};

} // namespace gsched
