// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cliff/experiments.hpp"

#include <string>

namespace cliff {

/// A sequence of operations, as text: parts joined by '_', each a count and what is done that
/// often, one after the other. "7AB_1C" is A, B seven times, then C. An operation is a stream's
/// letter, with a small letter before it when it is not a plain kernel launch:
///   (none) kernel <<<>>>    x cudaLaunchKernelExC      l cooperative launch   k kernel of 100 us
///   c copy on the device    t memset                   h copy from the host   e, w event, wait for
///   it g graph of 10 kernels   j graph of one kernel      r graph of 500         y synchronise
///   stream n destroys the stream and makes another
/// and a lone s synchronises the device. Streams: M the one graphs are replayed on; L and P the
/// legacy and the per-thread default stream; G, H of green contexts; N, O of high priority; the
/// others non-blocking ones, made before the sequence starts (only these can be made again).
/// Errors: gsched::error where the text says something else.
[[nodiscard]] experiment_case sequence_case(const std::string& text);

[[nodiscard]] bool is_sequence(const std::string& text);

/// The same, as a function of a scene; does not synchronise at its end.
void play(scene& s, const std::string& text);

} // namespace cliff
