// SPDX-License-Identifier: Apache-2.0
#include "profile/range_counters.hpp"

#include "profile/cupti_library.hpp"
#include "profile/unseen.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#if __has_include(<cupti_range_profiler.h>)

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace gsched::cuda {

namespace {

#define GSCHED_PROFILER_FUNCTIONS(X)                                                               \
  X(cuptiDeviceGetChipName)                                                                        \
  X(cuptiProfilerGetCounterAvailability)                                                           \
  X(cuptiProfilerHostConfigAddMetrics)                                                             \
  X(cuptiProfilerHostDeinitialize)                                                                 \
  X(cuptiProfilerHostEvaluateToGpuValues)                                                          \
  X(cuptiProfilerHostGetConfigImage)                                                               \
  X(cuptiProfilerHostGetConfigImageSize)                                                           \
  X(cuptiProfilerHostInitialize)                                                                   \
  X(cuptiProfilerInitialize)                                                                       \
  X(cuptiRangeProfilerCounterDataImageInitialize)                                                  \
  X(cuptiRangeProfilerDecodeData)                                                                  \
  X(cuptiRangeProfilerDisable)                                                                     \
  X(cuptiRangeProfilerEnable)                                                                      \
  X(cuptiRangeProfilerGetCounterDataInfo)                                                          \
  X(cuptiRangeProfilerGetCounterDataSize)                                                          \
  X(cuptiRangeProfilerPopRange)                                                                    \
  X(cuptiRangeProfilerPushRange)                                                                   \
  X(cuptiRangeProfilerSetConfig)                                                                   \
  X(cuptiRangeProfilerStart)                                                                       \
  X(cuptiRangeProfilerStop)

struct profiler_functions {
#define GSCHED_PROFILER_DECLARE(name) decltype(&::name) name = nullptr;
  GSCHED_PROFILER_FUNCTIONS(GSCHED_PROFILER_DECLARE)
#undef GSCHED_PROFILER_DECLARE
};

profiler_functions profiler(const std::string& library) {
  load_cupti(library);
  profiler_functions f;
#define GSCHED_PROFILER_FIND(name) find_cupti(#name, f.name);
  GSCHED_PROFILER_FUNCTIONS(GSCHED_PROFILER_FIND)
#undef GSCHED_PROFILER_FIND
  return f;
}

/// check_cupti, with the way out where the driver does not permit counters.
void check_counters(CUptiResult r, const char* doing) {
  if (r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
    throw error(errc::no_device,
                "counters: the driver permits them to administrators only; run as root, or load "
                "the driver's module with NVreg_RestrictProfilingToAdminUsers=0");
  if (r == CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED)
    throw error(errc::no_device, "counters: not available on this virtual GPU, expected a GPU that "
                                 "the profiler may use");
  check_cupti(r, doing);
}

/// A parameter structure of CUPTI, with its size.
template <class P>
P sized(std::size_t size) {
  P p{};
  p.structSize = size;
  return p;
}

/// CUPTI's host side: which metrics there are, how they are collected, and their values.
class metrics_host {
public:
  metrics_host(const profiler_functions& f, const char* chip,
               const std::vector<std::uint8_t>& available)
      : f_(f) {
    auto p = sized<CUpti_Profiler_Host_Initialize_Params>(
        CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
    p.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    p.pChipName = chip;
    p.pCounterAvailabilityImage = available.data();
    check_counters(f.cuptiProfilerHostInitialize(&p), "counters of this GPU");
    host_ = p.pHostObject;
  }
  ~metrics_host() {
    auto p = sized<CUpti_Profiler_Host_Deinitialize_Params>(
        CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
    p.pHostObject = host_;
    static_cast<void>(f_.cuptiProfilerHostDeinitialize(&p));
  }
  metrics_host(const metrics_host&) = delete;
  metrics_host& operator=(const metrics_host&) = delete;

  [[nodiscard]] CUptiResult add(std::vector<const char*>& names) const {
    auto p = sized<CUpti_Profiler_Host_ConfigAddMetrics_Params>(
        CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
    p.pHostObject = host_;
    p.ppMetricNames = names.data();
    p.numMetrics = names.size();
    return f_.cuptiProfilerHostConfigAddMetrics(&p);
  }

  [[nodiscard]] std::vector<std::uint8_t> config() const {
    auto size = sized<CUpti_Profiler_Host_GetConfigImageSize_Params>(
        CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
    size.pHostObject = host_;
    check_counters(f_.cuptiProfilerHostGetConfigImageSize(&size), "size of the counters' set-up");
    std::vector<std::uint8_t> image(size.configImageSize);
    auto p = sized<CUpti_Profiler_Host_GetConfigImage_Params>(
        CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
    p.pHostObject = host_;
    p.configImageSize = image.size();
    p.pConfigImage = image.data();
    check_counters(f_.cuptiProfilerHostGetConfigImage(&p), "set-up of the counters");
    return image;
  }

  void values(const std::vector<std::uint8_t>& data, std::size_t range,
              std::vector<const char*>& names, double* into) const {
    auto p = sized<CUpti_Profiler_Host_EvaluateToGpuValues_Params>(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
    p.pHostObject = host_;
    p.pCounterDataImage = data.data();
    p.counterDataImageSize = data.size();
    p.rangeIndex = range;
    p.ppMetricNames = names.data();
    p.numMetrics = names.size();
    p.pMetricValues = into;
    check_counters(f_.cuptiProfilerHostEvaluateToGpuValues(&p), "values of the counters");
  }

private:
  const profiler_functions& f_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
};

/// CUPTI's side on the GPU, enabled for the current context while it lives.
class range_session {
public:
  explicit range_session(const profiler_functions& f) : f_(f) {
    auto p =
        sized<CUpti_RangeProfiler_Enable_Params>(CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
    check_counters(f.cuptiRangeProfilerEnable(&p), "range profiler");
    profiler_ = p.pRangeProfilerObject;
  }
  ~range_session() {
    auto p =
        sized<CUpti_RangeProfiler_Disable_Params>(CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler_;
    static_cast<void>(f_.cuptiRangeProfilerDisable(&p));
  }
  range_session(const range_session&) = delete;
  range_session& operator=(const range_session&) = delete;

  /// The data of all ranges, from as many passes as the counters need.
  [[nodiscard]] std::vector<std::uint8_t> collect(const std::vector<std::uint8_t>& config,
                                                  std::vector<const char*>& names,
                                                  std::size_t ranges, const ranged_work& work) {
    std::vector<std::uint8_t> data = room_for(names, ranges);
    auto set = sized<CUpti_RangeProfiler_SetConfig_Params>(
        CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
    set.pRangeProfilerObject = profiler_;
    set.configSize = config.size();
    set.pConfig = config.data();
    set.counterDataImageSize = data.size();
    set.pCounterDataImage = data.data();
    set.range = CUPTI_UserRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = ranges;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    check_counters(f_.cuptiRangeProfilerSetConfig(&set), "set-up of a pass");
    constexpr int most_passes = 500;
    for (int pass = 0;; ++pass) {
      if (pass == most_passes)
        throw error(errc::device_failed, "CUPTI: not done after 500 passes, expected fewer");
      if (one_pass(ranges, work)) break;
    }
    auto decode = sized<CUpti_RangeProfiler_DecodeData_Params>(
        CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
    decode.pRangeProfilerObject = profiler_;
    check_counters(f_.cuptiRangeProfilerDecodeData(&decode), "values of a pass");
    auto info = sized<CUpti_RangeProfiler_GetCounterDataInfo_Params>(
        CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
    info.pCounterDataImage = data.data();
    info.counterDataImageSize = data.size();
    check_counters(f_.cuptiRangeProfilerGetCounterDataInfo(&info), "number of values");
    if (info.numTotalRanges != ranges)
      throw unseen(work.what, std::to_string(info.numTotalRanges) + " of " +
                                  std::to_string(ranges) +
                                  " ranges have values from CUPTI, expected all");
    return data;
  }

private:
  [[nodiscard]] std::vector<std::uint8_t> room_for(std::vector<const char*>& names,
                                                   std::size_t ranges) const {
    auto size = sized<CUpti_RangeProfiler_GetCounterDataSize_Params>(
        CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
    size.pRangeProfilerObject = profiler_;
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = ranges;
    size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(ranges);
    check_counters(f_.cuptiRangeProfilerGetCounterDataSize(&size), "room for the counters");
    std::vector<std::uint8_t> data(size.counterDataSize);
    auto p = sized<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>(
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    p.pRangeProfilerObject = profiler_;
    p.counterDataSize = data.size();
    p.pCounterData = data.data();
    check_counters(f_.cuptiRangeProfilerCounterDataImageInitialize(&p), "room for the counters");
    return data;
  }

  /// Whether that was the last pass.
  [[nodiscard]] bool one_pass(std::size_t ranges, const ranged_work& work) {
    auto start =
        sized<CUpti_RangeProfiler_Start_Params>(CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
    start.pRangeProfilerObject = profiler_;
    check_counters(f_.cuptiRangeProfilerStart(&start), "start of a pass");
    for (std::size_t i = 0; i < ranges; ++i) {
      work.before(i);
      const std::string name = std::to_string(i);
      auto push = sized<CUpti_RangeProfiler_PushRange_Params>(
          CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
      push.pRangeProfilerObject = profiler_;
      push.pRangeName = name.c_str();
      check_counters(f_.cuptiRangeProfilerPushRange(&push), "start of a range");
      work.run(i);
      auto pop = sized<CUpti_RangeProfiler_PopRange_Params>(
          CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
      pop.pRangeProfilerObject = profiler_;
      check_counters(f_.cuptiRangeProfilerPopRange(&pop), "end of a range");
    }
    auto stop = sized<CUpti_RangeProfiler_Stop_Params>(CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
    stop.pRangeProfilerObject = profiler_;
    check_counters(f_.cuptiRangeProfilerStop(&stop), "end of a pass");
    return stop.isAllPassSubmitted != 0;
  }

  const profiler_functions& f_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
};

std::vector<std::uint8_t> available_counters(const profiler_functions& f) {
  auto p = sized<CUpti_Profiler_GetCounterAvailability_Params>(
      CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
  check_counters(f.cuptiProfilerGetCounterAvailability(&p), "available counters");
  std::vector<std::uint8_t> image(p.counterAvailabilityImageSize);
  p.pCounterAvailabilityImage = image.data();
  check_counters(f.cuptiProfilerGetCounterAvailability(&p), "available counters");
  return image;
}

std::string chip_name(const profiler_functions& f) {
  int device = 0;
  check(cudaGetDevice(&device), "counters");
  auto p = sized<CUpti_Device_GetChipName_Params>(CUpti_Device_GetChipName_Params_STRUCT_SIZE);
  p.deviceIndex = static_cast<std::size_t>(device);
  check_counters(f.cuptiDeviceGetChipName(&p), "name of the chip");
  return p.pChipName;
}

} // namespace

range_values count_ranges(std::span<const counter_name> counters, std::size_t ranges,
                          const ranged_work& work, const std::string& cupti_library) {
  const profiler_functions f = profiler(cupti_library);
  auto init = sized<CUpti_Profiler_Initialize_Params>(CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  check_counters(f.cuptiProfilerInitialize(&init), "profiler");
  const std::string chip = chip_name(f);
  const std::vector<std::uint8_t> available = available_counters(f);

  range_values all;
  std::vector<const char*> names;  // of those that this GPU has
  std::vector<std::size_t> column; // of each counter among them; ranges of 0 for none
  constexpr auto none = static_cast<std::size_t>(-1);
  for (const counter_name& c : counters) {
    const auto known = std::find_if(c.names.begin(), c.names.end(), [&](const char* name) {
      const metrics_host trial(f, chip.c_str(), available);
      std::vector<const char*> one{name};
      return trial.add(one) == CUPTI_SUCCESS;
    });
    if (known == c.names.end() && !c.optional)
      throw error(errc::no_device, "counters: " + chip + " has no " + c.names.front() +
                                       ", expected a GPU and a CUPTI that have it");
    column.push_back(known == c.names.end() ? none : names.size());
    if (known != c.names.end())
      names.push_back(*known);
    else
      all.missing.emplace_back(c.names.front());
  }

  const metrics_host host(f, chip.c_str(), available);
  check_counters(host.add(names), "choice of counters");
  const std::vector<std::uint8_t> config = host.config();

  constexpr std::size_t most_ranges = 512; // CUPTI refuses some thousands
  for (std::size_t first = 0; first < ranges; first += most_ranges) {
    const std::size_t some = std::min(most_ranges, ranges - first);
    range_session session(f);
    const std::vector<std::uint8_t> data =
        session.collect(config, names, some,
                        {[&](std::size_t i) { work.before(first + i); },
                         [&](std::size_t i) { work.run(first + i); }, work.what});
    std::vector<double> values(names.size());
    for (std::size_t i = 0; i < some; ++i) {
      host.values(data, i, names, values.data());
      std::vector<double>& row = all.values.emplace_back();
      for (const std::size_t at : column) row.push_back(at == none ? 0 : values[at]);
    }
  }
  return all;
}

} // namespace gsched::cuda

#else // a toolkit without the range profiler

namespace gsched::cuda {

range_values count_ranges(std::span<const counter_name>, std::size_t, const ranged_work&,
                          const std::string&) {
  throw error(errc::no_device, "counters: this build was made without CUPTI's range profiler, "
                               "expected a toolkit with cupti_range_profiler.h");
}

} // namespace gsched::cuda

#endif
