// SPDX-License-Identifier: Apache-2.0
// Jobs through a dispatcher. A job owns an instance of its model, a captured graph, from start to
// end; there are as many instances as lanes.

#include "head_of_line/kernels.hpp"
#include "head_of_line/way.hpp"

#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/dispatch/dispatcher.hpp>
#include <gsched/job/task.hpp>
#include <gsched/occupancy/aggregate_accountant.hpp>
#include <gsched/policy/fifo.hpp>

namespace head_of_line {

using namespace gsched;
using gsched::cuda::check;

namespace {

/// A CUDA device that opens its lanes with alternating priorities: streams of different priorities
/// have separate hardware queues.
class in_turn {
public:
  in_turn(const cuda::device_options& o, unsigned priorities)
      : device_(o), priorities_(priorities) {}

  lane_id open_lane(const lane_options& how) {
    lane_options next = how;
    next.priority = static_cast<int>(opened_++ % priorities_);
    return device_.open_lane(next);
  }
  void load(gsched::program& p) { device_.load(p); }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept { return device_.submit(s); }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept { return device_.poll(out); }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept { return device_.evict(lane); }
  void wait(time_point t) noexcept { device_.wait(t); }
  [[nodiscard]] time_point now() const noexcept { return device_.now(); }
  [[nodiscard]] const device_limits& limits() const noexcept { return device_.limits(); }

private:
  cuda::device device_;
  unsigned priorities_;
  unsigned opened_ = 0;
};
static_assert(device<in_turn>);

cuda::program make_program(const job_shape& job, long long cycles) {
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "graph");
  cudaGraphNode_t last = nullptr;
  for (unsigned i = 0; i < job.kernels; ++i) {
    hold_arguments a{cycles, nullptr, nullptr};
    void* arguments[] = {&a.cycles, &a.ended, &a.word};
    cudaKernelNodeParams how{};
    how.func = const_cast<void*>(hold_kernel());
    how.gridDim = dim3(1);
    how.blockDim = dim3(block_threads);
    how.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &how), "graph kernel");
    last = node;
  }
  cuda::program_options how;
  how.name = "job";
  how.durations.assign(job.kernels, from_us(job.kernel_us));
  cuda::program made(graph, how);
  check(cudaGraphDestroy(graph), "graph");
  return made;
}

struct hears_ends : silent_listener {
  std::vector<std::uint32_t> ended;
  std::string failure;

  void on_failure(const job&, std::exception_ptr why, time_point) noexcept {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& e) {
      failure = e.what();
    } catch (...) {
      failure = "a job failed";
    }
  }
  void on_end(const job&, void* user, time_point) noexcept {
    ended.push_back(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(user)));
  }
};

class gsched_server final : public server {
public:
  gsched_server(const way& w, const job_shape& job, long long cycles, int gpu)
      : device_(device_how(w, job, gpu), w.priorities),
        account_(device_.limits().sm, device_.limits().sms, account_how(w)),
        scheduler_(device_, order_, account_, hears_, dispatch_how(w, job)) {
    hears_.ended.reserve(1 << 16);
    for (unsigned i = 0; i < lanes_of(w); ++i) programs_.push_back(make_program(job, cycles));
    for (cuda::program& p : programs_) scheduler_.load(p.host());
    model_ = scheduler_.add_model("job", body_, &programs_.front().host(), lanes_of(w));
    client_ = &scheduler_.add_client();
  }

  void submit(std::uint32_t job) override {
    job_request r;
    r.model = model_;
    r.owner = client_;
    r.arrival = device_.now();
    r.user = reinterpret_cast<void*>(static_cast<std::uintptr_t>(job));
    scheduler_.submit(r);
  }

  void poll(std::vector<std::uint32_t>& ended) override {
    scheduler_.step();
    if (!hears_.failure.empty()) throw error(errc::device_failed, hears_.failure);
    ended.insert(ended.end(), hears_.ended.begin(), hears_.ended.end());
    hears_.ended.clear();
  }

  std::uint64_t submissions() const override { return scheduler_.statistics().segments; }

private:
  struct run_instance {
    std::vector<cuda::program>* programs;
    task operator()(job_context& ctx) const {
      ctx.launch((*programs)[ctx.instance].host());
      co_return;
    }
  };

  static unsigned lanes_of(const way& w) { return w.streams + w.spares; }
  static duration segment_of(const way& w, const job_shape& job) {
    return from_us(job.kernel_us * (w.segment == 0 ? job.kernels : w.segment));
  }
  static cuda::device_options device_how(const way& w, const job_shape& job, int gpu) {
    cuda::device_options o;
    o.gpu = gpu;
    o.grain = segment_of(w, job);
    o.levels = 1;
    return o;
  }
  static accountant_options account_how(const way& w) {
    accountant_options o;
    o.max_outstanding = 2 * lanes_of(w);
    return o;
  }
  static dispatch_options dispatch_how(const way& w, const job_shape& job) {
    dispatch_options o;
    o.quantum = o.most_quantum = segment_of(w, job);
    o.low_mark = o.high_mark = from_us(1); // one segment a lane: jobs never wait for one another
    o.lanes = w.streams;
    o.spare_lanes = w.spares;
    o.segments_per_job = 1;
    return o;
  }

  in_turn device_;
  aggregate_accountant account_;
  fifo order_;
  hears_ends hears_;
  std::vector<cuda::program> programs_;
  run_instance body_{&programs_};
  dispatcher<fifo, in_turn, aggregate_accountant, hears_ends> scheduler_;
  model_id model_{};
  client* client_ = nullptr;
};

} // namespace

std::unique_ptr<server> make_gsched_server(const way& w, const job_shape& job, long long cycles,
                                           int gpu) {
  return std::make_unique<gsched_server>(w, job, cycles, gpu);
}

} // namespace head_of_line
