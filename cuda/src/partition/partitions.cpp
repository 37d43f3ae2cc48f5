// SPDX-License-Identifier: Apache-2.0
#include "hung_streams.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

/// The split of a GPU, and the use of its groups.
struct split {
  explicit split(int gpu) {
    const driver_functions& cu = driver_of_partitions();
    CUdevResource all{};
    check(cu.cuDeviceGetDevResource(static_cast<CUdevice>(gpu), &all, CU_DEV_RESOURCE_TYPE_SM),
          "SMs of the GPU");
    const unsigned unit = all.sm.minSmPartitionSize > 0 ? all.sm.minSmPartitionSize : 8;
    unsigned n = 0;
    check(cu.cuDevSmResourceSplitByCount(nullptr, &n, &all, nullptr, 0, unit), "split of the SMs");
    groups.resize(n);
    CUdevResource rest{};
    check(cu.cuDevSmResourceSplitByCount(groups.data(), &n, &all, &rest, 0, unit),
          "split of the SMs");
    groups.resize(n);
    if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount > 0) groups.push_back(rest);
    for (const CUdevResource& g : groups) sizes.push_back(g.sm.smCount);
    taken.assign(sizes.size(), false);
    shared.assign(sizes.size(), 0);
  }
  /// Makes a green context of some groups.
  [[nodiscard]] CUgreenCtx make(int gpu, std::span<const std::uint32_t> which) const {
    const driver_functions& cu = driver_of_partitions();
    expect_no_hang(gpu, "partition");
    std::vector<CUdevResource> chosen;
    chosen.reserve(which.size());
    for (const std::uint32_t g : which) chosen.push_back(groups[g]);
    CUdevResourceDesc description{};
    check(cu.cuDevResourceGenerateDesc(&description, chosen.data(),
                                       static_cast<unsigned>(chosen.size())),
          "description of a partition");
    CUgreenCtx made = nullptr;
    check(cu.cuGreenCtxCreate(&made, description, static_cast<CUdevice>(gpu),
                              CU_GREEN_CTX_DEFAULT_STREAM),
          "green context");
    return made;
  }
  [[nodiscard]] sm_count sms_of(std::span<const std::uint32_t> which) const noexcept {
    std::uint32_t sum = 0;
    for (const std::uint32_t g : which) sum += sizes[g];
    return sm_count{sum};
  }

  std::vector<CUdevResource> groups;
  std::vector<std::uint32_t> sizes;
  std::vector<bool> taken;           ///< groups of exclusive partitions
  std::vector<std::uint32_t> shared; ///< number of all_but partitions of each group
};

struct all_splits {
  std::mutex guard;
  std::map<int, split> by_gpu;

  /// The caller holds the guard.
  [[nodiscard]] split& of(int gpu) {
    auto at = by_gpu.find(gpu);
    if (at == by_gpu.end()) at = by_gpu.emplace(gpu, split(gpu)).first;
    return at->second;
  }
};
all_splits& splits() {
  static all_splits* const kept = new all_splits; // never destroyed: devices may be static objects
  return *kept;
}

} // namespace

std::vector<std::uint32_t> fewest_groups(const std::vector<std::uint32_t>& sizes,
                                         const std::vector<bool>& taken, std::uint32_t wanted) {
  std::size_t from = 0;
  std::size_t until = 0;
  std::uint32_t least = 0;
  for (std::size_t first = 0; first < sizes.size(); ++first) {
    std::uint32_t sum = 0;
    for (std::size_t last = first; last < sizes.size() && !taken[last]; ++last) {
      sum += sizes[last];
      if (sum < wanted) continue;
      if (until == 0 || sum < least) {
        from = first;
        until = last + 1;
        least = sum;
      }
      break;
    }
  }
  std::vector<std::uint32_t> run(until - from);
  std::iota(run.begin(), run.end(), static_cast<std::uint32_t>(from));
  return run;
}

std::vector<std::uint32_t> groups_but(const std::vector<std::uint32_t>& sizes,
                                      const std::vector<bool>& taken, std::uint32_t left) {
  std::vector<std::uint32_t> rest;
  std::uint32_t before = 0;
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    if (before >= left && !taken[g]) rest.push_back(static_cast<std::uint32_t>(g));
    before += sizes[g];
  }
  return rest;
}

std::vector<std::uint32_t> group_sizes(int gpu) {
  const current_gpu here(gpu);
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  return all.of(gpu).sizes;
}

partition::partition(int gpu, sm_count wanted) : gpu_(gpu) {
  const current_gpu here(gpu);
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  split& s = all.of(gpu);
  std::vector<bool> busy = s.taken;
  for (std::size_t i = 0; i < busy.size(); ++i) busy[i] = busy[i] || s.shared[i] > 0;
  groups_ = fewest_groups(s.sizes, busy, wanted.count());
  if (groups_.empty() || wanted.count() == 0) {
    std::uint32_t left = 0;
    for (std::size_t i = 0; i < s.sizes.size(); ++i)
      if (!busy[i]) left += s.sizes[i];
    throw error(errc::too_small, "GPU " + std::to_string(gpu) + ": partition of " +
                                     std::to_string(wanted.count()) +
                                     " SMs, expected at most what is left side by side of " +
                                     std::to_string(left) + " free ones, in groups of " +
                                     std::to_string(s.sizes.empty() ? 0 : s.sizes.front()));
  }
  context_ = s.make(gpu, groups_);
  sms_ = s.sms_of(groups_);
  for (const std::uint32_t g : groups_) s.taken[g] = true;
}

partition::partition(int gpu, std::span<const std::uint32_t> groups)
    : gpu_(gpu), kind_(kind::named), groups_(groups.begin(), groups.end()) {
  const current_gpu here(gpu);
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  const split& s = all.of(gpu);
  std::vector<bool> named(s.sizes.size(), false);
  const auto refuse = [&](const std::string& what) {
    throw error(errc::bad_option, "GPU " + std::to_string(gpu) + ": partition of " + what +
                                      ", expected some of its groups 0 to " +
                                      std::to_string(s.sizes.size() - 1) + ", each once");
  };
  if (groups.empty()) refuse("no groups");
  for (const std::uint32_t g : groups) {
    if (g >= named.size()) refuse("group " + std::to_string(g));
    if (named[g]) refuse("group " + std::to_string(g) + " twice");
    named[g] = true;
  }
  context_ = s.make(gpu, groups_);
  sms_ = s.sms_of(groups_);
}

partition partition::all_but(int gpu, sm_count left) {
  const current_gpu here(gpu);
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  split& s = all.of(gpu);
  partition made(gpu, kind::all_but);
  made.groups_ = groups_but(s.sizes, s.taken, left.count());
  if (made.groups_.empty())
    throw error(errc::too_small, "GPU " + std::to_string(gpu) + ": partition that reserves " +
                                     std::to_string(left.count()) + " SMs, expected some of " +
                                     std::to_string(s.sizes.size()) + " groups to remain for it");
  made.context_ = s.make(gpu, made.groups_);
  made.sms_ = s.sms_of(made.groups_);
  for (const std::uint32_t g : made.groups_) ++s.shared[g];
  return made;
}

partition::partition(partition&& other) noexcept
    : gpu_(other.gpu_), kind_(other.kind_), sms_(other.sms_),
      context_(std::exchange(other.context_, nullptr)), groups_(std::move(other.groups_)) {}

partition::~partition() {
  if (context_ == nullptr) return;
  driver().cuGreenCtxDestroy(context_);
  if (kind_ == kind::named) return;
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  split& s = all.of(gpu_);
  for (const std::uint32_t g : groups_) {
    if (kind_ == kind::all_but)
      --s.shared[g];
    else
      s.taken[g] = false;
  }
}

CUcontext partition::context() const {
  CUcontext c = nullptr;
  check(driver().cuCtxFromGreenCtx(&c, context_), "context of a partition");
  return c;
}

CUstream partition::make_stream(int priority) const {
  CUstream s = nullptr;
  check(driver().cuGreenCtxStreamCreate(&s, context_, CU_STREAM_NON_BLOCKING, priority),
        "stream of a partition");
  return s;
}

} // namespace gsched::cuda
