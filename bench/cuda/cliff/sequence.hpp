// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cliff/experiments.hpp"

#include <string>

namespace cliff {

/// A sequence of operations, as text: parts joined by '_', each a count and the operations that are
/// repeated that often. "7AB_1C" is A, B seven times, then C. An operation is the letter of a
/// stream, after a lower-case letter if it is not a plain kernel launch:
///   (none) kernel <<<>>> x cudaLaunchKernelExC l cooperative launch k kernel of 100 us c copy on
///   the device t memset h copy from the host e, w event, wait for it g graph of 10 kernels j graph
///   of one kernel r graph of 500 y synchronise stream n destroys and recreates the stream
/// and a lone s synchronises the device. Streams: M the one on which graphs are replayed; L and P
/// the legacy and the per-thread default stream; G, H of green contexts; N, O of high priority; the
/// others are non-blocking streams, created before the sequence starts (only these can be
/// recreated).
///
/// Errors   gsched::error: invalid text.
[[nodiscard]] experiment_case sequence_case(const std::string& text);

[[nodiscard]] bool is_sequence(const std::string& text);

/// The same, as a function of a scene; it does not synchronise at its end.
void play(scene& s, const std::string& text);

} // namespace cliff
