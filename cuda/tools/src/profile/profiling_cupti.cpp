// SPDX-License-Identifier: Apache-2.0
#include "profile/profiling_cupti.hpp"

#include <gsched/core/error.hpp>

#if __has_include(<cupti.h>)

#include <cupti.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
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
  X(cuptiActivityRegisterCallbacks)                                                                \
  X(cuptiGetResultString)                                                                          \
  X(cuptiGetVersion)

struct cupti_functions {
#define GSCHED_CUPTI_DECLARE(name) decltype(&::name) name = nullptr;
  GSCHED_CUPTI_FUNCTIONS(GSCHED_CUPTI_DECLARE)
#undef GSCHED_CUPTI_DECLARE
};

constexpr std::array kinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                           CUPTI_ACTIVITY_KIND_MEMSET};
constexpr int major = CUPTI_API_VERSION / 10000;

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

void* open_library(const std::string& named) {
  if (!named.empty()) return dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string file = "libcupti.so." + std::to_string(major);
  std::vector<std::string> places{file}; // by the loader's search, or already loaded
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable); root != nullptr) {
      places.push_back(std::string(root) + "/lib64/" + file);
      places.push_back(std::string(root) + "/extras/CUPTI/lib64/" + file);
    }
  for (const char* root : {"/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/",
                           "/usr/local/cuda/targets/x86_64-linux/lib/"})
    places.push_back(root + file);
  for (const std::string& place : places)
    if (void* found = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL); found != nullptr) return found;
  return nullptr;
}

void check_cupti(const cupti_functions& f, CUptiResult r) {
  if (r == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  if (f.cuptiGetResultString(r, &words) != CUPTI_SUCCESS || words == nullptr) words = "unknown";
  throw error(errc::device_failed,
              "CUPTI: " + std::string(words) + " (" + std::to_string(static_cast<int>(r)) + ")");
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
  void* const library = open_library(named);
  if (library == nullptr)
    throw error(named.empty() ? errc::no_device : errc::bad_option,
                named.empty() ? "CUPTI: libcupti.so." + std::to_string(major) +
                                    " not found, expected it in the toolkit or on LD_LIBRARY_PATH"
                              : "CUPTI: '" + named + "' cannot be loaded, expected libcupti.so." +
                                    std::to_string(major));
  auto f = std::make_unique<cupti_functions>();
  const auto find = [&](const char* name, auto& into) {
    void* const at = dlsym(library, name);
    if (at == nullptr)
      throw error(errc::no_device,
                  std::string("CUPTI: no ") + name + " in it, expected that of the toolkit");
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(at);
  };
#define GSCHED_CUPTI_FIND(name) find(#name, f->name);
  GSCHED_CUPTI_FUNCTIONS(GSCHED_CUPTI_FIND)
#undef GSCHED_CUPTI_FIND
  std::uint32_t version = 0;
  check_cupti(*f, f->cuptiGetVersion(&version));
  if (version / 10000 != major)
    throw error(errc::no_device, "CUPTI: version " + std::to_string(version) + ", expected " +
                                     std::to_string(major) + "xxxx");
  all_records().cupti = f.get();
  check_cupti(*f, f->cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  loaded = std::move(f);
  return *loaded;
}

} // namespace

cupti_records::cupti_records(const std::string& library) {
  const cupti_functions& f = cupti(library);
  for (const CUpti_ActivityKind k : kinds) check_cupti(f, f.cuptiActivityEnable(k));
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
    check_cupti(*all.cupti, all.cupti->cuptiActivityFlushAll(0));
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
