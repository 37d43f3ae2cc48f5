// SPDX-License-Identifier: Apache-2.0
#include "calibrate/experiments.hpp"

#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace calibrate {

namespace {

using gsched::cuda::check;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::array<std::size_t, 2> small{588 * 1024, mib}; ///< the first: a network's input image
constexpr int small_repeats = 20;
constexpr std::size_t large = 256 * mib; ///< more than a GPU's caches hold

class transfer_experiment final : public experiment {
public:
  explicit transfer_experiment(rig& on) : rig_(on) {
    check(cudaHostAlloc(&pinned_, large, cudaHostAllocDefault), "pinned memory for copies");
    check(cudaMalloc(&device_, large), "device memory for copies");
    check(cudaMalloc(&other_, large), "device memory for copies");
    std::memset(pinned_, 1, large);
    pageable_.assign(64 * mib, 1);
    samples ignored;
    round(ignored);
  }
  ~transfer_experiment() override {
    cudaFree(other_);
    cudaFree(device_);
    cudaFreeHost(pinned_);
  }
  transfer_experiment(const transfer_experiment&) = delete;
  transfer_experiment& operator=(const transfer_experiment&) = delete;

  [[nodiscard]] const char* name() const noexcept override { return "copies and sets"; }

  void round(samples& into) override {
    both("h2d", into, [&](std::size_t n) {
      return cudaMemcpyAsync(device_, pinned_, n, cudaMemcpyHostToDevice, rig_.stream());
    });
    both("d2h", into, [&](std::size_t n) {
      return cudaMemcpyAsync(pinned_, device_, n, cudaMemcpyDeviceToHost, rig_.stream());
    });
    both("d2d", into, [&](std::size_t n) {
      return cudaMemcpyAsync(other_, device_, n, cudaMemcpyDeviceToDevice, rig_.stream());
    });
    both("set", into, [&](std::size_t n) { return cudaMemsetAsync(device_, 0, n, rig_.stream()); });
    pageable("h2d pageable", into, cudaMemcpyHostToDevice);
    pageable("d2h pageable", into, cudaMemcpyDeviceToHost);
  }

private:
  /// The rate of large copies, and the start cost of small ones beyond their bytes.
  template <class Enqueue>
  void both(const std::string& what, samples& into, Enqueue enqueue) {
    const auto per = [&](std::size_t bytes, int n) {
      return rig_.device_us([&] {
        for (int i = 0; i < n; ++i) check(enqueue(bytes), "a copy");
      }) / n;
    };
    const double rate = static_cast<double>(large) / (1e3 * per(large, 2)); // bytes per ns
    double start = 0;
    for (const std::size_t bytes : small)
      start += per(bytes, small_repeats) - static_cast<double>(bytes) / rate / 1e3;
    into.add(what + " rate", rate);
    into.add(what + " start", std::max(0.0, start / small.size()));
  }

  void pageable(const char* what, samples& into, cudaMemcpyKind kind) {
    rig_.synchronize();
    const double begin = now_us();
    check(kind == cudaMemcpyHostToDevice
              ? cudaMemcpyAsync(device_, pageable_.data(), pageable_.size(), kind, rig_.stream())
              : cudaMemcpyAsync(pageable_.data(), device_, pageable_.size(), kind, rig_.stream()),
          "a copy of pageable memory");
    rig_.synchronize();
    into.add(what, static_cast<double>(pageable_.size()) / (1e3 * (now_us() - begin)));
  }

  rig& rig_;
  void* pinned_ = nullptr;
  void* device_ = nullptr;
  void* other_ = nullptr;
  std::vector<char> pageable_;
};

} // namespace

std::unique_ptr<experiment> transfers(rig& on) { return std::make_unique<transfer_experiment>(on); }

} // namespace calibrate
