// SPDX-License-Identifier: Apache-2.0
#include "two_gpu_tenants/tenant.hpp"

#include <gsched/cuda/driver.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

namespace two_gpu_tenants {

namespace {

using namespace gsched;
using steady = std::chrono::steady_clock;

struct destroyed {
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
  void operator()(cudaEvent_t e) const noexcept { cudaEventDestroy(e); }
  void operator()(cudaGraphExec_t e) const noexcept { cudaGraphExecDestroy(e); }
};
struct freed_on_host {
  void operator()(void* p) const noexcept { cudaFreeHost(p); }
};
template <class T>
using owned = std::unique_ptr<std::remove_pointer_t<T>, destroyed>;

/// A tenant's stream, its graphs, and its jobs in the order in which they end.
class lane {
public:
  explicit lane(tenant& of) : mine_(of) {
    cudaStream_t s = nullptr;
    cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    stream_.reset(s);
    for (instance& one : mine_.instances) {
      graphs_.emplace_back();
      for (cuda::program& p : one.programs) {
        cudaGraph_t g = p.make_range(0, p.host().size(), {});
        cudaGraphExec_t e = nullptr;
        const cudaError_t made =
            cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagUseNodePriority);
        cudaGraphDestroy(g);
        cuda::check(made, "graph");
        graphs_.back().emplace_back(e);
      }
    }
  }
  ~lane() { cudaStreamSynchronize(stream_.get()); }
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  void submit(steady::time_point arrival) {
    running& r = slot();
    r.arrival = arrival;
    const std::size_t i = submitted_++ % graphs_.size();
    for (const auto& e : graphs_[i]) cuda::check(cudaGraphLaunch(e.get(), stream_.get()), "launch");
    cuda::check(cudaMemcpyAsync(r.result.get(), mine_.instances[i].result, mine_.result_bytes(),
                                cudaMemcpyDeviceToHost, stream_.get()),
                "copy");
    cuda::check(cudaEventRecord(r.end.get(), stream_.get()), "event");
    in_flight_.push_back(&r);
  }

  void poll(trace::histogram& latency, std::uint64_t& wrong) {
    while (!in_flight_.empty()) {
      running& r = *in_flight_.front();
      const cudaError_t e = cudaEventQuery(r.end.get());
      if (e == cudaErrorNotReady) return;
      cuda::check(e, "job");
      latency.record(steady::now() - r.arrival);
      wrong += mine_.is_right(r.result.get()) ? 0u : 1u;
      free_.push_back(&r);
      in_flight_.pop_front();
    }
  }
  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_.size(); }

private:
  struct running {
    steady::time_point arrival{};
    owned<cudaEvent_t> end{};
    std::unique_ptr<void, freed_on_host> result{};
  };

  running& slot() {
    if (free_.empty()) {
      running& r = slots_.emplace_back();
      cudaEvent_t end = nullptr;
      cuda::check(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), "event");
      r.end.reset(end);
      void* result = nullptr;
      cuda::check(cudaMallocHost(&result, mine_.result_bytes()), "pinned memory");
      r.result.reset(result);
      free_.push_back(&r);
    }
    running& r = *free_.back();
    free_.pop_back();
    return r;
  }

  tenant& mine_;
  owned<cudaStream_t> stream_{};
  std::vector<std::vector<owned<cudaGraphExec_t>>> graphs_{}; ///< of each instance
  std::deque<running> slots_{};
  std::vector<running*> free_{};
  std::deque<running*> in_flight_{};
  std::size_t submitted_ = 0;
};

} // namespace

outcome run_unscheduled(std::array<tenant, 2>& tenants, const arrivals& when) {
  outcome result;
  lane first(tenants[0]);
  lane second(tenants[1]);
  const steady::time_point start = steady::now();
  for (std::size_t next = 0;
       next < when.first.size() || first.in_flight() > 0 || second.in_flight() > 0;) {
    for (; next < when.first.size() && start + when.first[next] <= steady::now(); ++next)
      first.submit(start + when.first[next]);
    while (next < when.first.size() && second.in_flight() < when.second_in_flight)
      second.submit(steady::now());
    first.poll(result.latency[0], result.wrong[0]);
    second.poll(result.latency[1], result.wrong[1]);
  }
  result.seconds = std::chrono::duration<double>(steady::now() - start).count();
  return result;
}

} // namespace two_gpu_tenants
