// SPDX-License-Identifier: Apache-2.0
#include "profile/cupti_library.hpp"

#include <gsched/core/error.hpp>

#if __has_include(<cupti.h>)

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace gsched::cuda {

namespace {

constexpr int major = CUPTI_API_VERSION / 10000;

void*& loaded_library() {
  static void* library = nullptr;
  return library;
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

} // namespace

void load_cupti(const std::string& named) {
  if (loaded_library() != nullptr) return;
  void* const library = open_library(named);
  if (library == nullptr)
    throw error(named.empty() ? errc::no_device : errc::bad_option,
                named.empty() ? "CUPTI: libcupti.so." + std::to_string(major) +
                                    " not found, expected it in the toolkit or on LD_LIBRARY_PATH"
                              : "CUPTI: '" + named + "' cannot be loaded, expected libcupti.so." +
                                    std::to_string(major));
  loaded_library() = library;
  try {
    decltype(&::cuptiGetVersion) version_of = nullptr;
    find_cupti("cuptiGetVersion", version_of);
    std::uint32_t version = 0;
    check_cupti(version_of(&version), "version");
    if (version / 10000 != major)
      throw error(errc::no_device, "CUPTI: version " + std::to_string(version) + ", expected " +
                                       std::to_string(major) + "xxxx");
  } catch (...) {
    loaded_library() = nullptr;
    throw;
  }
}

void* cupti_symbol(const char* name) {
  void* const at = dlsym(loaded_library(), name);
  if (at == nullptr)
    throw error(errc::no_device,
                std::string("CUPTI: no ") + name + " in it, expected that of the toolkit");
  return at;
}

void check_cupti(CUptiResult r, const char* doing) {
  if (r == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  decltype(&::cuptiGetResultString) text = nullptr;
  find_cupti("cuptiGetResultString", text);
  if (text(r, &words) != CUPTI_SUCCESS || words == nullptr) words = "unknown";
  throw error(errc::device_failed, "CUPTI: " + std::string(doing) + ": " + words + " (" +
                                       std::to_string(static_cast<int>(r)) + ")");
}

} // namespace gsched::cuda

#endif
