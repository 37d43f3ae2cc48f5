// SPDX-License-Identifier: Apache-2.0
#include "mps_sms/part.hpp"

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <utility>

namespace mps_sms {

namespace cuda = gsched::cuda;

namespace {

cuda::probe_options arithmetic(std::uint32_t blocks, std::uint32_t threads) {
  cuda::probe_options o;
  o.kind = cuda::probe_kind::fp32;
  o.level = 4;
  o.blocks = blocks;
  o.threads = threads;
  return o;
}

} // namespace

part::stream::stream(const cuda::partition* where) {
  if (where != nullptr)
    s = where->make_stream(0);
  else
    cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
}
part::stream::~stream() { cudaStreamDestroy(s); }

part::part(const cuda::gpu& on, std::shared_ptr<const cuda::partition> where, unsigned blocks,
           double victim_us)
    : where_(std::move(where)), stream_(where_.get()) {
  constexpr std::uint32_t small = 64; // threads of a held block
  const gsched::sm_count all = where_ ? where_->sms() : on.sms;
  CUcontext const context = where_ ? where_->context() : nullptr;
  {
    cuda::probe first(arithmetic(4 * all.count(), small), all, context);
    start(first, 0.02);
    first.wait();
    first.stop();
    sms_ = first.sms_used();
  }
  const auto mine = static_cast<std::uint32_t>(sms_.size());
  load_.emplace(arithmetic(blocks * mine, small), all, context);
  victim_.emplace(arithmetic(mine, 128), all, context);
  CUgraph const graph = victim_->finite(victim_->rounds_for(victim_us));
  program_.emplace(graph, cuda::program_options{.name = "victim", .measure = false});
  graph_.emplace(*program_, where_);
}

part::~part() {
  try {
    if (holds_) load_->stop();
  } catch (const gsched::error& wrong) {
    std::fprintf(stderr, "gsched.gpu.mps_sms: %s\n", wrong.what());
  }
}

void part::start(cuda::probe& p, double seconds) const {
  p.start(stream_.s, 1e6 * seconds);
  if (!p.wait_running(10e6))
    throw gsched::error(gsched::errc::device_failed, "no block started, expected one");
}

void part::hold(double seconds) {
  holds_ = true;
  start(*load_, seconds);
}

part::held part::release() {
  load_->stop();
  holds_ = false;
  const cuda::probe::result r = load_->last();
  return {load_->sms_used(), 1e-6 * r.us, r.stopped};
}

part::replayed part::replay(double ms) {
  std::vector<double> us;
  cuda::replayer({.alone = gsched::from_us(1e3 * ms)}).alone(*graph_, us, stream_.s);
  return {cuda::summarize(std::move(us)), victim_->sms_used()};
}

} // namespace mps_sms
