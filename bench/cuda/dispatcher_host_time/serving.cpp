// SPDX-License-Identifier: Apache-2.0
#include "serving.hpp"

#include <chrono>
#include <stdexcept>

namespace host_time {

using namespace gsched;

namespace {

using wall = std::chrono::steady_clock;

double ns(wall::duration d) { return std::chrono::duration<double, std::nano>(d).count(); }

cuda::device_options device_for(const run_options& how) {
  cuda::device_options o;
  o.gpu = how.gpu;
  o.copies = how.copies;
  o.instrumented = how.instrumented;
  o.time_driver = true;
  return o;
}

dispatch_options dispatch_for(const run_options& how, unsigned jobs) {
  dispatch_options o;
  o.instrumented = how.instrumented;
  o.most_quantum = o.quantum; // segments of constant length, whether or not jobs wait
  o.reserved_jobs = jobs + 1;
  o.reserved_entries = 4 * (std::size_t{jobs} + 1);
  return o;
}

} // namespace

serving::serving(const profile& model, const run_options& how, unsigned jobs)
    : jobs_(jobs), program_(cuda::make_stand_in(model)), device_(device_for(how)),
      account_(device_.limits().sm, device_.limits().sms),
      dispatch_(device_, order_, account_, hears_, dispatch_for(how, jobs)) {
  body_.graph = &program_.host();
  dispatch_.load(program_.host());
  model_ = dispatch_.add_model(model.full_name(), body_, body_.graph);
  for (int i = 0; i < 8; ++i) clients_.push_back(&dispatch_.add_client());
}

void serving::refill() {
  while (dispatch_.statistics().active < jobs_) {
    job_request r;
    r.model = model_;
    r.owner = clients_[turn_++ % clients_.size()];
    r.arrival = device_.now();
    static_cast<void>(dispatch_.submit(r));
  }
}

figures serving::run(std::uint64_t segments) {
  const dispatch_statistics before = dispatch_.statistics();
  const std::uint64_t driver_before = device_.statistics().driver_ns;
  double busy = 0;
  double fruitless = 0;
  const wall::time_point began = wall::now();
  while (dispatch_.statistics().segments < before.segments + segments) {
    const wall::time_point from = wall::now();
    refill();
    const bool moved = dispatch_.step();
    const double took = ns(wall::now() - from);
    busy += took;
    if (moved) continue;
    fruitless += took;
    device_.wait(device_.now() + std::chrono::seconds{1});
  }
  const double all = ns(wall::now() - began);
  const auto n = static_cast<double>(dispatch_.statistics().segments - before.segments);
  const auto jobs = static_cast<double>(dispatch_.statistics().finished - before.finished);
  figures f;
  f.busy_ns = busy / n;
  f.driver_ns = static_cast<double>(device_.statistics().driver_ns - driver_before) / n;
  f.fruitless_ns = fruitless / n;
  f.segments_per_job = jobs > 0 ? n / jobs : 0;
  f.segments_per_second = n / all * 1e9;
  return f;
}

void serving::stop() {
  dispatch_.cancel_all();
  while (!dispatch_.idle())
    if (!dispatch_.step()) device_.wait(device_.now() + std::chrono::seconds{1});
  const dispatch_statistics& s = dispatch_.statistics();
  if (device_.failure()) throw std::runtime_error(*device_.failure());
  if (s.submitted != s.ended() || s.failed != 0 || account_.outstanding() != 0 ||
      device_.statistics().lost_words != 0)
    throw std::runtime_error("jobs, segments or words were lost");
}

} // namespace host_time
