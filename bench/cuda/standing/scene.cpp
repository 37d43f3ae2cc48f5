// SPDX-License-Identifier: Apache-2.0
#include "standing/scene.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

/// Relaxed: only the word itself passes between the host and the GPU.
std::uint32_t load(const std::uint32_t& word) noexcept {
  return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_relaxed);
}
void store(std::uint32_t& word, std::uint32_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

} // namespace

guard::guard(std::function<void()> release)
    : release_(std::move(release)), thread_([this] { watch(); }) {}

guard::~guard() {
  ended_.store(true, std::memory_order_relaxed); // -> watch
  thread_.join();
}

void guard::begin(std::string which) {
  const std::lock_guard hold(mutex_);
  case_ = std::move(which);
  released_in_.reset();
}

void guard::step(std::string what, double seconds) {
  const std::lock_guard hold(mutex_);
  what_ = std::move(what);
  until_ = experiment::seconds_now() + seconds;
  releasing_ = false;
}

void guard::rest() {
  const std::lock_guard hold(mutex_);
  until_ = -1;
}

std::optional<std::string> guard::released_in() const {
  const std::lock_guard hold(mutex_);
  return released_in_;
}

void guard::watch() {
  constexpr double seconds_after_release = 2;
  while (!ended_.load(std::memory_order_relaxed)) { // <- ~guard
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    const std::lock_guard hold(mutex_);
    if (until_ < 0 || experiment::seconds_now() < until_) continue;
    if (!releasing_) {
      releasing_ = true;
      if (!released_in_) released_in_ = what_;
      release_();
      until_ = experiment::seconds_now() + seconds_after_release;
      continue;
    }
    const nlohmann::ordered_json line{{"case", case_}, {"hangs", what_}};
    std::puts(line.dump().c_str());
    std::fflush(nullptr);
    std::_Exit(3);
  }
}

scene::scene(int ordinal) : gpu_(gsched::cuda::find_gpu(ordinal)) {
  check(cudaSetDevice(ordinal), "GPU");
  void* at = nullptr;
  check(cudaMalloc(&at, node_memory::bytes), "memory");
  memory_.device = reinterpret_cast<CUdeviceptr>(at);
  constexpr std::size_t words = most_graphs * most_waits * sizeof(std::uint32_t);
  check(cudaMalloc(&at, words), "memory");
  device_waits_ = reinterpret_cast<CUdeviceptr>(at);
  check(cudaMemset(at, 0, words), "memory");
  check(cudaHostAlloc(&memory_.pinned, node_memory::pinned_bytes, cudaHostAllocMapped), "memory");
  check(cudaHostAlloc(&at, sizeof(pinned_words), cudaHostAllocMapped), "memory");
  std::memset(at, 0, sizeof(pinned_words));
  pinned_ = static_cast<pinned_words*>(at);
  check(cudaHostGetDevicePointer(&at, pinned_, 0), "memory");
  pinned_at_ = reinterpret_cast<CUdeviceptr>(at);
  int least = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &highest_), "priorities");
  release_stream_ = new_stream(true);
  check(cudaEventCreateWithFlags(&memory_.event, cudaEventDisableTiming), "event");
  check(cudaEventRecord(memory_.event, release_stream_), "event");
  make_.emplace(ordinal, memory_);
  const graph g = new_graph();
  add_kernel(g.get(), {}, kernel_of(all_kernels().release), 1, 1, 0, this->at(&pinned_->release),
             device_waits_, static_cast<std::uint32_t>(most_graphs * most_waits));
  release_graph_ = instantiate(g);
  check(driver().cuGraphUpload(release_graph_.get(), release_stream_), "upload");
  check(cudaDeviceSynchronize(), "GPU");
  guard_.emplace([this] { release(); });
}

CUdeviceptr scene::at(const void* word) const noexcept {
  return pinned_at_ + static_cast<CUdeviceptr>(reinterpret_cast<const char*>(word) -
                                               reinterpret_cast<const char*>(pinned_));
}

graph_words scene::words(std::size_t i) const {
  return {at(&pinned_->lines[i].line), at(&pinned_->waits[i * most_waits]),
          device_waits_ + i * most_waits * sizeof(std::uint32_t)};
}

void scene::hold(std::size_t i, gate_way how, unsigned gate) {
  const std::uint32_t one = 1;
  switch (how) {
  case gate_way::none: break;
  case gate_way::beside:
  case gate_way::in_line: store(pinned_->lines[i].line.hold, gate + 1); break;
  case gate_way::wait_on_host: store(pinned_->waits[i * most_waits + gate], 1); break;
  case gate_way::wait_on_device:
    check(cudaMemcpy(reinterpret_cast<void*>(words(i).device_waits + gate * sizeof one), &one,
                     sizeof one, cudaMemcpyHostToDevice),
          "word of a wait node");
    break;
  }
}

void scene::arm_release() {
  store(pinned_->release.open, 0);
  store(pinned_->release.ready, 0);
  check(driver().cuGraphLaunch(release_graph_.get(), release_stream_), "launch");
  while (load(pinned_->release.ready) == 0) {
  }
}

void scene::release() noexcept {
  for (auto& l : pinned_->lines) store(l.line.hold, 0);
  for (std::uint32_t& w : pinned_->waits) store(w, 0);
  store(pinned_->release.open, 1);
}

bool scene::stands(std::size_t i) const noexcept {
  const hold_line& l = pinned_->lines[i].line;
  return load(l.standing[0]) != 0 || load(l.standing[1]) != 0;
}

void scene::drain() {
  guard_->step("end of all work");
  check(cudaDeviceSynchronize(), "GPU");
  guard_->rest();
}

executable scene::make_marker(std::size_t i) {
  const graph g = new_graph();
  add_kernel(g.get(), {}, kernel_of(all_kernels().mark), 1, 1, 0, mark_at(i));
  executable made = instantiate(g);
  check(driver().cuGraphUpload(made.get(), release_stream_), "upload");
  check(cudaStreamSynchronize(release_stream_), "upload");
  return made;
}

CUdeviceptr scene::mark_at(std::size_t i) const noexcept { return at(&pinned_->marks[i]); }
bool scene::marked(std::size_t i) const noexcept { return load(pinned_->marks[i]) != 0; }
void scene::clear_marks() noexcept {
  for (std::uint32_t& m : pinned_->marks) store(m, 0);
}

cudaStream_t scene::new_stream(bool urgent) {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, urgent ? highest_ : 0),
        "stream");
  return made;
}

worker::worker(int gpu) : thread_([this, gpu] { work(gpu); }) {}

worker::~worker() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void worker::post(std::function<void()> f) {
  {
    const std::lock_guard hold(mutex_);
    returned_.store(false, std::memory_order_relaxed); // no partner: the same thread reads it
    function_ = std::move(f);
  }
  posted_.notify_one();
}

bool worker::returned() const noexcept {
  return returned_.load(std::memory_order_acquire); // <- work: us_ and failed_ are written
}

double worker::us() {
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  return us_;
}

void worker::work(int gpu) {
  const cudaError_t current = cudaSetDevice(gpu);
  std::unique_lock hold(mutex_);
  for (;;) {
    posted_.wait(hold, [&] { return ends_ || function_; });
    if (!function_) return;
    const std::function<void()> f = std::exchange(function_, nullptr);
    hold.unlock();
    const double from = experiment::seconds_now();
    try {
      check(current, "GPU");
      f();
    } catch (...) {
      failed_ = std::current_exception();
    }
    us_ = 1e6 * (experiment::seconds_now() - from);
    returned_.store(true, std::memory_order_release); // -> returned
    hold.lock();
  }
}

marked_launch::marked_launch(scene& s) : graph_(s.make_marker(0)), on_(s.new_stream(true)) {}
void marked_launch::launch() const { check(driver().cuGraphLaunch(graph_.get(), on_), "launch"); }
void marked_launch::query() const {
  const cudaError_t e = cudaStreamQuery(on_);
  if (e != cudaErrorNotReady) check(e, "cudaStreamQuery");
}

standing_pair::standing_pair(scene& s)
    : held(instantiate(s.make().make({"chain"}, small_kernels, s.words(0)).handle)),
      held_on(s.new_stream(false)), beside(s) {
  check(driver().cuGraphLaunch(held.get(), held_on), "launch");
  beside.launch();
  s.drain();
}
void standing_pair::hold_and_launch(scene& s) const {
  s.hold(0, gate_way::beside, 2);
  check(driver().cuGraphLaunch(held.get(), held_on), "launch");
}

} // namespace standing
