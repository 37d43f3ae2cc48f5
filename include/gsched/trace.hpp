// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Timelines for ui.perfetto.dev, and histograms.

#include <gsched/trace/chrome.hpp>
#include <gsched/trace/histogram.hpp>
#include <gsched/trace/json_text.hpp>
#include <gsched/trace/recorder.hpp>
