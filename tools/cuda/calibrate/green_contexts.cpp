// SPDX-License-Identifier: Apache-2.0
#include "calibrate/experiments.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace calibrate {

namespace {

using gsched::cuda::check;
using gsched::cuda::driver;
using gsched::cuda::driver_of_partitions;

constexpr int launches = 50;

/// A green context on some SMs, with a stream.
class green {
public:
  green(CUdevResource sms, int gpu) {
    CUdevResourceDesc what = nullptr;
    check(driver_of_partitions().cuDevResourceGenerateDesc(&what, &sms, 1), "describing SMs");
    check(driver().cuGreenCtxCreate(&context_, what, gpu, CU_GREEN_CTX_DEFAULT_STREAM),
          "making a green context");
    const CUresult made =
        driver().cuGreenCtxStreamCreate(&stream_, context_, CU_STREAM_NON_BLOCKING, 0);
    if (made != CUDA_SUCCESS) driver().cuGreenCtxDestroy(context_);
    check(made, "a stream of a green context");
  }
  ~green() {
    if (context_ == nullptr) return;
    driver().cuStreamDestroy(stream_);
    driver().cuGreenCtxDestroy(context_);
  }
  green(green&& o) noexcept : context_(o.context_), stream_(o.stream_) { o.context_ = nullptr; }
  green& operator=(green&&) = delete;
  [[nodiscard]] CUstream stream() const noexcept { return stream_; }

private:
  CUgreenCtx context_ = nullptr;
  CUstream stream_ = nullptr;
};

class green_experiment final : public experiment {
public:
  explicit green_experiment(const rig& on) : rig_(on), plain_(chain_of(1)), partial_(chain_of(1)) {
    CUdevResource all{};
    check(driver_of_partitions().cuDeviceGetDevResource(on.gpu().ordinal, &all,
                                                        CU_DEV_RESOURCE_TYPE_SM),
          "the SMs of the GPU");
    unsigned n = 0;
    check(driver().cuDevSmResourceSplitByCount(nullptr, &n, &all, nullptr, 0, 1),
          "splitting the SMs");
    groups_.resize(n);
    check(driver().cuDevSmResourceSplitByCount(groups_.data(), &n, &all, &rest_, 0, 1),
          "splitting the SMs"); // one split: two would overlap
    groups_.resize(n);
    if (groups_.empty())
      gsched::cuda::fail(gsched::cuda::code_of(CUDA_ERROR_NOT_SUPPORTED), "splitting the SMs");
    greens_.emplace_back(groups_.back(),
                         rig_.gpu().ordinal); // kept; the first group's is recreated
    for (int i = 0; i < 3; ++i) {
      plain_.launch(rig_.stream());
      partial_.launch(greens_.front().stream());
    }
    settle();
  }

  [[nodiscard]] const char* name() const noexcept override { return "green contexts"; }

  void round(samples& into) override {
    into.add("group", groups_.front().sm.smCount);
    into.add("groups", static_cast<double>(groups_.size()));
    into.add("rest", rest_.sm.smCount);
    const double begin = now_us();
    double made = begin;
    {
      const green g(groups_.front(), rig_.gpu().ordinal);
      made = now_us();
    }
    into.add("create", made - begin);
    into.add("destroy", now_us() - made);
    into.add("launch on all", launch(plain_, rig_.stream()));
    into.add("launch on some", launch(partial_, greens_.front().stream()));
  }

private:
  double launch(const executable& what, CUstream on) {
    const double begin = now_us();
    for (int i = 0; i < launches; ++i) what.launch(on);
    const double took = now_us() - begin;
    settle();
    return took / launches;
  }
  void settle() const {
    rig_.synchronize();
    check(cudaStreamSynchronize(greens_.front().stream()), "waiting for a green context");
  }

  const rig& rig_;
  executable plain_, partial_; ///< a graph's first launch fixes its SMs: one graph for each
  std::vector<CUdevResource> groups_;
  CUdevResource rest_{};
  std::vector<green> greens_;
};

} // namespace

std::unique_ptr<experiment> green_contexts(const rig& on) {
  return std::make_unique<green_experiment>(on);
}

} // namespace calibrate
