// SPDX-License-Identifier: Apache-2.0
#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partitions.hpp>

#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

namespace gsched::cuda {

namespace {

/// The one split of a GPU, and who has which group.
struct split {
  explicit split(int gpu) {
    const driver_functions& cu = driver();
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
  }
  /// Groups that a plan's partitions have.
  [[nodiscard]] std::vector<bool>& taken(std::uint32_t plan) {
    return by_plan.try_emplace(plan, groups.size(), false).first->second;
  }

  std::vector<CUdevResource> groups;
  std::vector<std::uint32_t> sizes;
  std::map<std::uint32_t, std::vector<bool>> by_plan;
};

struct all_splits {
  std::mutex guard;
  std::map<int, split> of;
};
all_splits& splits() {
  static all_splits* const kept = new all_splits; // devices may outlive static objects
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

partition::partition(int gpu, sm_count wanted, std::uint32_t plan) : gpu_(gpu), plan_(plan) {
  const driver_functions& cu = driver();
  const current_gpu here(gpu);
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  auto at = all.of.find(gpu);
  if (at == all.of.end()) at = all.of.emplace(gpu, split(gpu)).first;
  split& s = at->second;
  std::vector<bool>& taken = s.taken(plan);
  groups_ = fewest_groups(s.sizes, taken, wanted.count());
  if (groups_.empty() || wanted.count() == 0) {
    std::uint32_t left = 0;
    for (std::size_t i = 0; i < s.sizes.size(); ++i)
      if (!taken[i]) left += s.sizes[i];
    throw error(errc::too_small, "GPU " + std::to_string(gpu) + ": partition of " +
                                     std::to_string(wanted.count()) +
                                     " SMs, expected at most what is left side by side of " +
                                     std::to_string(left) + " free ones, in groups of " +
                                     std::to_string(s.sizes.empty() ? 0 : s.sizes.front()));
  }
  std::vector<CUdevResource> chosen;
  std::uint32_t sum = 0;
  for (const std::uint32_t g : groups_) {
    chosen.push_back(s.groups[g]);
    sum += s.sizes[g];
  }
  sms_ = sm_count{sum};
  CUdevResourceDesc description{};
  check(cu.cuDevResourceGenerateDesc(&description, chosen.data(),
                                     static_cast<unsigned>(chosen.size())),
        "description of a partition");
  check(cu.cuGreenCtxCreate(&context_, description, static_cast<CUdevice>(gpu),
                            CU_GREEN_CTX_DEFAULT_STREAM),
        "green context");
  for (const std::uint32_t g : groups_) taken[g] = true;
}

partition::partition(partition&& other) noexcept
    : gpu_(other.gpu_), plan_(other.plan_), sms_(other.sms_),
      context_(std::exchange(other.context_, nullptr)), groups_(std::move(other.groups_)) {}

partition::~partition() {
  if (context_ == nullptr) return;
  driver().cuGreenCtxDestroy(context_);
  all_splits& all = splits();
  const std::lock_guard lock(all.guard);
  for (const std::uint32_t g : groups_) all.of.at(gpu_).taken(plan_)[g] = false;
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
