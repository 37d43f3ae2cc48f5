// SPDX-License-Identifier: Apache-2.0
#include "profile/profiling_cupti.hpp"

#include "profile/cupti_library.hpp"

#include <gsched/core/error.hpp>

#if __has_include(<cupti.h>)

#include <cupti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

namespace gsched::cuda {

namespace {

#define GSCHED_CUPTI_FUNCTIONS(X)                                                                  \
  X(cuptiActivityDisable)                                                                          \
  X(cuptiActivityEnable)                                                                           \
  X(cuptiActivityFlushAll)                                                                         \
  X(cuptiActivityGetNextRecord)                                                                    \
  X(cuptiActivityRegisterCallbacks)

struct cupti_functions {
#define GSCHED_CUPTI_DECLARE(name) decltype(&::name) name = nullptr;
  GSCHED_CUPTI_FUNCTIONS(GSCHED_CUPTI_DECLARE)
#undef GSCHED_CUPTI_DECLARE
};

constexpr std::array kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                           CUPTI_ACTIVITY_KIND_MEMSET};

/// Global, because CUPTI's callbacks have no user argument and run on any thread.
struct records {
  const cupti_functions* cupti = nullptr;
  std::mutex lock;
  std::vector<cupti_records::span> spans;
};
records& all_records() {
  static auto& r = *new records; // never destroyed: callbacks may run while the process exits
  return r;
}

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer =
      static_cast<std::uint8_t*>(::operator new(buffer_bytes, std::align_val_t{64}, std::nothrow));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most = 0;
}

/// These fields are stable since CUPTI 11; later versions append fields.
template <class Record>
cupti_records::span span_of(const CUpti_Activity* r) noexcept {
  const auto* record = reinterpret_cast<const Record*>(r);
  return {record->start, record->end};
}

/// Skips records without times.
void keep(std::vector<cupti_records::span>& in, cupti_records::span s) {
  if (s.start != 0 && s.end != 0) in.push_back(s);
}

void take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                 std::size_t valid) noexcept {
  records& all = all_records();
  const std::lock_guard hold(all.lock);
  CUpti_Activity* r = nullptr;
  while (valid > 0 && all.cupti->cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) {
    switch (r->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      keep(all.spans, span_of<CUpti_ActivityKernel10>(r));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: keep(all.spans, span_of<CUpti_ActivityMemcpy6>(r)); break;
    case CUPTI_ACTIVITY_KIND_MEMSET: keep(all.spans, span_of<CUpti_ActivityMemset4>(r)); break;
    default: break;
    }
  }
  ::operator delete(buffer, std::align_val_t{64});
}

/// Loads CUPTI once. After a failure, the next call tries again with its own name.
const cupti_functions& cupti(const std::string& named) {
  static std::unique_ptr<const cupti_functions> loaded;
  if (loaded) return *loaded;
  load_cupti(named);
  auto f = std::make_unique<cupti_functions>();
#define GSCHED_CUPTI_FIND(name) find_cupti(#name, f->name);
  GSCHED_CUPTI_FUNCTIONS(GSCHED_CUPTI_FIND)
#undef GSCHED_CUPTI_FIND
  all_records().cupti = f.get();
  check_cupti(f->cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "activity callbacks");
  loaded = std::move(f);
  return *loaded;
}

} // namespace

cupti_records::cupti_records(const std::string& library) {
  const cupti_functions& f = cupti(library);
  for (const CUpti_ActivityKind k : kinds)
    check_cupti(f.cuptiActivityEnable(k), "activity records");
}

cupti_records::~cupti_records() {
  const cupti_functions& f = *all_records().cupti;
  for (const CUpti_ActivityKind k : kinds) static_cast<void>(f.cuptiActivityDisable(k));
  static_cast<void>(f.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  const std::lock_guard hold(all_records().lock);
  all_records().spans.clear();
}

std::vector<cupti_records::span> cupti_records::take(std::size_t at_least) {
  records& all = all_records();
  std::vector<span> taken;
  for (int tries = 0; tries < 50; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds{10});
    check_cupti(all.cupti->cuptiActivityFlushAll(0), "activity records");
    const std::lock_guard hold(all.lock);
    taken.insert(taken.end(), all.spans.begin(), all.spans.end());
    all.spans.clear();
    if (taken.size() >= at_least) break;
  }
  std::sort(taken.begin(), taken.end(),
            [](const span& a, const span& b) { return a.start < b.start; });
  return taken;
}

} // namespace gsched::cuda

#else // a toolkit without CUPTI

namespace gsched::cuda {

cupti_records::cupti_records(const std::string&) {
  throw error(errc::no_device, "CUPTI: this build was made without it, expected a toolkit with "
                               "cupti.h");
}
cupti_records::~cupti_records() = default;
std::vector<cupti_records::span> cupti_records::take(std::size_t) { return {}; }

} // namespace gsched::cuda

#endif
