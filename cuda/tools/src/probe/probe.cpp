// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/probe.hpp>

#include "graph/measure/replay.hpp"
#include "probe/probe_kernels.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

constexpr std::array descriptions{
    probe_description{probe_kind::sleep, "sleep", "places on the SMs", "always 1", 1, 1, 128},
    probe_description{probe_kind::copy, "copy", "L2 and DRAM: reads and writes",
                      "MiB of each of two arrays", 4096, 16384, 1024},
    probe_description{probe_kind::read, "read", "L2 (and DRAM beyond its size): reads",
                      "MiB of the array", 16, 32768, 1024},
    probe_description{probe_kind::write, "write", "L2 and DRAM: writes", "MiB of the array", 1024,
                      32768, 1024},
    probe_description{probe_kind::atomics, "atomics", "atomic units of L2", "MiB of the array", 1,
                      32768, 1024},
    probe_description{probe_kind::chase, "chase", "latency of L2 and DRAM: dependent loads",
                      "MiB of the array, rounded down to a power of two", 16, 32768, 128},
    probe_description{probe_kind::l1, "l1", "L1", "KiB that each block reads", 16, 4096, 256},
    probe_description{probe_kind::shared, "shared", "banks of shared memory",
                      "ways of the conflicts", 32, 32, 128},
    probe_description{probe_kind::fp32, "fp32", "instruction issue", "independent chains", 4, 4,
                      128},
    probe_description{probe_kind::fp64, "fp64", "FP64 pipe", "independent chains", 4, 4, 128},
    probe_description{probe_kind::fp16, "fp16", "fp16 products", "independent chains", 4, 4, 128},
    probe_description{probe_kind::integer, "integer", "ALU pipe", "independent chains", 4, 4, 128},
    probe_description{probe_kind::sfu, "sfu", "special functions", "independent chains", 4, 4, 128},
    probe_description{probe_kind::tensor, "tensor", "tensor cores", "independent chains", 4, 4,
                      128},
    probe_description{probe_kind::instructions, "instructions", "instruction cache", "always 1", 1,
                      1, 128},
    probe_description{probe_kind::upload, "upload", "copies from the host", "MiB of a copy", 16,
                      4096, 32},
    probe_description{probe_kind::download, "download", "copies to the host", "MiB of a copy", 16,
                      4096, 32},
};

const probe_description& described(probe_kind kind) {
  return *std::find_if(descriptions.begin(), descriptions.end(),
                       [&](const probe_description& d) { return d.kind == kind; });
}

std::uint32_t level_of(const probe_options& o) {
  const probe_description& d = described(o.kind);
  const std::uint32_t level = o.level == 0 ? d.usual_level : o.level;
  if (level > d.most)
    throw error(errc::bad_option, "probe " + std::string(d.name) + ": level " +
                                      std::to_string(level) + ", expected 1 to " +
                                      std::to_string(d.most) + " (" + std::string(d.level) + ")");
  if (o.kind == probe_kind::shared && !std::has_single_bit(level))
    throw error(errc::bad_option, "probe shared: level " + std::to_string(level) +
                                      ", expected 1, 2, 4, 8, 16 or 32 (" + std::string(d.level) +
                                      ")");
  return level;
}

std::uint32_t threads_of(const probe_options& o) {
  const std::uint32_t threads = o.threads == 0 ? described(o.kind).usual_threads : o.threads;
  if (threads % 32 != 0 || threads > 1024)
    throw error(errc::bad_option, "probe " + std::string(described(o.kind).name) + ": " +
                                      std::to_string(threads) +
                                      " threads, expected a multiple of 32 up to 1024");
  return threads;
}

bool copies_with_host(probe_kind kind) {
  return kind == probe_kind::upload || kind == probe_kind::download;
}

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

std::span<const probe_description> probe_kinds() noexcept { return descriptions; }

const probe_description& probe_kind_of(std::string_view name) {
  for (const probe_description& d : descriptions)
    if (d.name == name) return d;
  std::string known;
  for (const probe_description& d : descriptions)
    known += (known.empty() ? "" : ", ") + std::string(d.name);
  throw error(errc::unknown_name, "probe \"" + std::string(name) + "\", expected one of " + known);
}

std::string probe_options::name() const {
  const probe_description& d = described(kind);
  std::string made =
      "probe_" + std::string(d.name) + "_" + std::to_string(level == 0 ? d.usual_level : level);
  if (blocks != 0) made += "_blocks" + std::to_string(blocks);
  if (threads != 0 && threads != d.usual_threads) made += "_threads" + std::to_string(threads);
  if (registers != 0) made += "_registers" + std::to_string(registers);
  if (shared_bytes != 0) made += "_shared" + std::to_string(shared_bytes);
  return made;
}

void check_probe(const probe_options& how) {
  static_cast<void>(level_of(how));
  static_cast<void>(threads_of(how));
  const auto refuse = [&](const std::string& wrong, const std::string& expected) {
    throw error(errc::bad_option, "probe " + std::string(described(how.kind).name) + ": " + wrong +
                                      ", expected " + expected);
  };
  if (copies_with_host(how.kind) &&
      (how.blocks != 0 || how.threads != 0 || how.registers != 0 || how.shared_bytes != 0))
    refuse("with blocks, threads, registers or shared memory", "none of them, as it is no kernel");
  if (how.registers == 0) return;
  const std::string registers = std::to_string(how.registers) + " registers";
  if (how.kind != probe_kind::sleep) refuse(registers, "those as compiled; sleep alone has others");
  if (std::find(sleep_registers.begin(), sleep_registers.end(), how.registers) ==
      sleep_registers.end())
    refuse(registers, "16, 24, 32, 64, 96, 128, 192 or 255");
}

probe_options parse_probe(std::string_view text) {
  constexpr std::uint32_t most_blocks = 1'000'000;
  const auto refuse = [&](const std::string& expected) {
    throw error(errc::bad_option, "probe \"" + std::string(text) + "\", expected " + expected);
  };
  std::size_t end = std::min(text.find(':'), text.size());
  probe_options o;
  o.kind = probe_kind_of(text.substr(0, end)).kind;
  const std::array placed{&o.level, &o.blocks, &o.threads};
  const std::array named{std::pair(std::string_view("registers="), &o.registers),
                         std::pair(std::string_view("shared="), &o.shared_bytes)};
  std::size_t place = 0;
  while (end != text.size()) {
    const std::size_t begin = end + 1;
    end = std::min(text.find(':', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    std::uint32_t* field = place < placed.size() ? placed[place] : nullptr;
    if (place++ < placed.size() && part.empty()) continue;
    for (const auto& [name, its] : named)
      if (part.starts_with(name)) {
        part.remove_prefix(name.size());
        field = its;
        place = placed.size(); // those by place come before
      }
    if (field == nullptr || *field != 0) refuse(probe_form);
    const auto [stop, ec] = std::from_chars(part.data(), part.data() + part.size(), *field);
    if (ec != std::errc{} || stop != part.data() + part.size())
      refuse(std::string(probe_form) + ", in whole numbers");
  }
  if (o.blocks > most_blocks) refuse("at most " + std::to_string(most_blocks) + " blocks");
  check_probe(o);
  return o;
}

namespace {

/// That a block may ask for on the current GPU.
std::uint64_t most_shared_of_a_block(const std::string& what) {
  int gpu = 0;
  int bytes = 0;
  check(cudaGetDevice(&gpu), what.c_str());
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), what.c_str());
  return static_cast<std::uint64_t>(bytes);
}

} // namespace

std::uint32_t sms_of_blocks(const probe_options& how, sm_count sms) noexcept {
  if (copies_with_host(how.kind)) return 0;
  return how.blocks == 0 ? sms.count() : std::min(how.blocks, sms.count());
}

struct probe::state {
  struct host_freer {
    void operator()(void* p) const noexcept { cudaFreeHost(p); }
  };

  probe_options how;
  CUcontext place = nullptr;
  launch_shape launch{};
  const void* kernel = nullptr;
  probe_arguments arguments{};

  device_memory<char> from, to;
  device_memory<std::uint32_t> stop_word;
  device_memory<probe_record> records;
  std::uint32_t* running = nullptr;       ///< in host memory
  std::unique_ptr<char, host_freer> host; ///< of copies with the host
  std::thread copier;                     ///< submits them
  std::atomic<bool> leave{false};         ///< ends it
  probe::result copied{};                 ///< what it did
  std::string failure{};                  ///< why it ended early
  stream_owner stopping;                  ///< of a high priority, for the stop word
  graph_owner endless, bounded;           ///< the present ones
  exec_owner endless_exec;
  double endless_limit_us = 0; ///< of the endless graph
  std::unique_ptr<program> endless_program, bounded_program;
  CUstream on = nullptr;
  double round_us = 0;

  ~state() {
    leave.store(true, std::memory_order_relaxed);
    if (copier.joinable()) copier.join();
    if (running != nullptr) cudaFreeHost(running);
  }

  /// A graph of the kernel on the probe's SMs.
  [[nodiscard]] std::pair<std::unique_ptr<program>, graph_owner>
  graph_with(std::uint64_t rounds, std::uint64_t limit_ns, std::uint32_t* flag) {
    cudaGraph_t raw = nullptr;
    check(cudaGraphCreate(&raw, 0), "graph of the probe");
    const graph_owner plain(raw);
    probe_arguments a = arguments;
    a.rounds = rounds;
    a.limit_ns = limit_ns;
    a.running = flag;
    void* pointers[] = {&a};
    cudaKernelNodeParams node{};
    node.func = const_cast<void*>(kernel);
    node.gridDim = dim3(launch.grid.x);
    node.blockDim = dim3(launch.block.x);
    node.sharedMemBytes = launch.dynamic_shared_bytes;
    node.kernelParams = pointers;
    cudaGraphNode_t made = nullptr;
    check(cudaGraphAddKernelNode(&made, raw, nullptr, 0, &node), "kernel of the probe");
    program_options plainly;
    plainly.name = how.name();
    plainly.measure = false;
    auto p = std::make_unique<program>(raw, plainly);
    graph_owner placed(p->make_range(0, 1, {.place = place}));
    return {std::move(p), std::move(placed)};
  }

  [[nodiscard]] cudaMemcpyKind direction() const noexcept {
    return how.kind == probe_kind::upload ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  }
  [[nodiscard]] const void* source() const noexcept {
    return how.kind == probe_kind::upload ? static_cast<void*>(host.get()) : from.get();
  }
  [[nodiscard]] void* target() const noexcept {
    return how.kind == probe_kind::upload ? static_cast<void*>(from.get()) : host.get();
  }

  /// A chain of copies.
  [[nodiscard]] graph_owner graph_of_copies(std::uint64_t rounds) const {
    cudaGraph_t raw = nullptr;
    check(cudaGraphCreate(&raw, 0), "graph of the probe");
    graph_owner chain(raw);
    cudaGraphNode_t last = nullptr;
    constexpr std::uint64_t most = 4096;
    for (std::uint64_t i = 0; i < std::min(rounds, most); ++i) {
      cudaGraphNode_t made = nullptr;
      check(cudaGraphAddMemcpyNode1D(&made, raw, i == 0 ? nullptr : &last, i == 0 ? 0 : 1, target(),
                                     source(), arguments.bytes, direction()),
            "copy of the probe");
      last = made;
    }
    return chain;
  }

  /// Copies until it is stopped; on the probe's thread.
  void copy_on(cudaStream_t stream, int gpu, double limit_us) noexcept {
    const double begun = now_us();
    double now = begun;
    std::uint64_t rounds = 0;
    cudaError_t e = cudaSetDevice(gpu);
    while (e == cudaSuccess && now < begun + limit_us && !leave.load(std::memory_order_relaxed)) {
      e = cudaMemcpyAsync(target(), source(), arguments.bytes, direction(), stream);
      if (e == cudaSuccess && rounds == 0) *static_cast<volatile std::uint32_t*>(running) = 1;
      if (e == cudaSuccess) e = cudaStreamSynchronize(stream);
      now = now_us();
      ++rounds;
    }
    copied = {.rounds = static_cast<double>(rounds),
              .us = now - begun,
              .sms = 0,
              .clock_mhz = 0,
              .stopped = leave.load(std::memory_order_relaxed)};
    if (e != cudaSuccess) failure = cudaGetErrorString(e);
  }

  void set_stop(std::uint32_t value, cudaStream_t stream) const {
    check(driver().cuStreamWriteValue32(stream, reinterpret_cast<CUdeviceptr>(stop_word.get()),
                                        value, 0),
          "stop word of the probe");
  }
};

probe::probe(const probe_options& how, sm_count sms, CUcontext place)
    : state_(std::make_unique<state>()) {
  static_cast<void>(driver());
  state& s = *state_;
  s.how = how;
  s.place = place;
  check_probe(how);
  s.how.level = level_of(how);
  const std::uint32_t threads = threads_of(how);
  const std::string what = s.how.name();
  if (copies_with_host(how.kind)) {
    s.arguments.bytes = std::uint64_t{s.how.level} << 20;
    s.from = make_device_memory<char>(s.arguments.bytes, what);
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, s.arguments.bytes, cudaHostAllocDefault), what.c_str());
    s.host.reset(static_cast<char*>(pinned));
    std::fill_n(s.host.get(), s.arguments.bytes, char{0});
    check(cudaHostAlloc(reinterpret_cast<void**>(&s.running), sizeof(std::uint32_t),
                        cudaHostAllocMapped),
          what.c_str());
    return;
  }
  s.kernel = probe_kernel(how.kind, s.how.level, how.registers);
  s.launch.grid.x = how.blocks == 0 ? sms.count() : how.blocks;
  s.launch.block.x = threads;
  cudaFuncAttributes facts{};
  check(cudaFuncGetAttributes(&facts, s.kernel), what.c_str());
  s.launch.registers_per_thread = static_cast<std::uint32_t>(facts.numRegs);
  s.launch.static_shared_bytes = static_cast<std::uint32_t>(facts.sharedSizeBytes);
  const std::uint64_t shared =
      std::uint64_t{how.shared_bytes} + (how.kind == probe_kind::shared ? probe_shared_bytes : 0);
  const auto fits_on_none = [&] {
    return error(errc::too_small,
                 what + ": a block of " + std::to_string(threads) + " threads, " +
                     std::to_string(facts.numRegs) + " registers and " + std::to_string(shared) +
                     " bytes of shared memory fits on no SM, expected one that fits");
  };
  // First, as calls beyond the limits fail with a line that does not say what is too large.
  if (static_cast<int>(threads) > facts.maxThreadsPerBlock ||
      shared + facts.sharedSizeBytes > most_shared_of_a_block(what))
    throw fits_on_none();
  s.launch.dynamic_shared_bytes = static_cast<std::uint32_t>(shared);
  if (s.launch.dynamic_shared_bytes > 48 * 1024)
    check(cudaFuncSetAttribute(s.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(s.launch.dynamic_shared_bytes)),
          what.c_str());
  // A kernel that needs more shared memory than the split of an SM's memory has waits until the SM
  // is empty. The largest split lets any neighbour in.
  check(cudaFuncSetAttribute(s.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        what.c_str());
  int fit = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, s.kernel, static_cast<int>(threads),
                                                      s.launch.dynamic_shared_bytes),
        what.c_str());
  if (fit < 1) throw fits_on_none();

  std::uint64_t bytes = 0;
  constexpr std::uint64_t mib = 1 << 20;
  switch (how.kind) {
  case probe_kind::copy:
  case probe_kind::read:
  case probe_kind::write:
  case probe_kind::atomics: bytes = s.how.level * mib; break;
  case probe_kind::chase:
    for (bytes = mib; bytes * 2 <= s.how.level * mib;) bytes *= 2;
    break;
  case probe_kind::l1: bytes = std::uint64_t{s.how.level} * 1024 * s.launch.grid.x; break;
  default: break;
  }
  const auto memory = [&] {
    device_memory<char> m = make_device_memory<char>(bytes, what);
    check(cudaMemset(m.get(), 0, bytes), what.c_str());
    return m;
  };
  if (bytes > 0 && how.kind != probe_kind::write && how.kind != probe_kind::atomics)
    s.from = memory();
  if (how.kind == probe_kind::copy || how.kind == probe_kind::write ||
      how.kind == probe_kind::atomics)
    s.to = memory();
  if (how.kind == probe_kind::chase) write_chain(s.from.get(), bytes);

  s.stop_word = make_device_memory<std::uint32_t>(1, what);
  s.records = make_device_memory<probe_record>(s.launch.grid.x, what);
  check(cudaMemset(s.stop_word.get(), 0, sizeof(std::uint32_t)), what.c_str());
  check(cudaMemset(s.records.get(), 0, s.launch.grid.x * sizeof(probe_record)), what.c_str());
  check(cudaHostAlloc(reinterpret_cast<void**>(&s.running), sizeof(std::uint32_t),
                      cudaHostAllocMapped),
        what.c_str());
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), what.c_str());
  s.stopping = make_stream(what, greatest);
  s.arguments.stop = s.stop_word.get();
  s.arguments.records = s.records.get();
  s.arguments.from = s.from.get();
  s.arguments.to = s.to.get();
  s.arguments.bytes = bytes;
  s.arguments.level = s.how.level;
  check(cudaDeviceSynchronize(), what.c_str());
}

probe::~probe() = default;
probe::probe(probe&&) noexcept = default;
probe& probe::operator=(probe&&) noexcept = default;

CUgraph probe::finite(std::uint64_t rounds) {
  state& s = *state_;
  if (copies_with_host(s.how.kind)) {
    s.bounded = s.graph_of_copies(std::max<std::uint64_t>(1, rounds));
    return s.bounded.get();
  }
  constexpr std::uint64_t at_most_ns = 2'000'000'000;
  auto [p, graph] = s.graph_with(std::max<std::uint64_t>(1, rounds), at_most_ns, nullptr);
  s.bounded_program = std::move(p);
  s.bounded = std::move(graph);
  return s.bounded.get();
}

std::uint64_t probe::rounds_for(double us) {
  state& s = *state_;
  if (!(s.round_us > 0) && copies_with_host(s.how.kind)) {
    constexpr int some = 5;
    const stream_owner stream = make_stream(s.how.name());
    const exec_owner one = instantiate(s.graph_of_copies(1).get());
    s.round_us = std::max(0.05, median_replay_ns(one.get(), stream.get(), some) * 1e-3);
  }
  if (!(s.round_us > 0)) {
    constexpr std::uint64_t some = 20;
    const stream_owner stream = make_stream(s.how.name());
    for (int warm = 0; warm < 2; ++warm) { // the second time counts
      const exec_owner exec =
          instantiate(graph_owner(s.graph_with(some, 2'000'000'000, nullptr).second).get());
      check(cudaGraphLaunch(exec.get(), stream.get()), "probe");
      check(cudaStreamSynchronize(stream.get()), "probe");
    }
    s.round_us = std::max(0.05, last().us / static_cast<double>(some));
  }
  return static_cast<std::uint64_t>(std::max(1.0, std::round(us / s.round_us)));
}

void probe::start(CUstream stream, double limit_us) {
  state& s = *state_;
  if (copies_with_host(s.how.kind)) {
    int gpu = 0;
    check(cudaGetDevice(&gpu), "probe");
    *static_cast<volatile std::uint32_t*>(s.running) = 0;
    s.leave.store(false, std::memory_order_relaxed); // before the thread starts
    s.copier = std::thread([&s, stream, gpu, limit_us] { s.copy_on(stream, gpu, limit_us); });
    return;
  }
  s.set_stop(0, s.stopping.get());
  // By a copy: sets on the streams of several probes would make all graphs of the process slower.
  const std::vector<probe_record> none(s.launch.grid.x);
  check(cudaMemcpyAsync(s.records.get(), none.data(), none.size() * sizeof(probe_record),
                        cudaMemcpyHostToDevice, s.stopping.get()),
        "records of the probe");
  check(cudaStreamSynchronize(s.stopping.get()), "probe");
  *static_cast<volatile std::uint32_t*>(s.running) = 0;
  if (s.endless_limit_us != limit_us) {
    auto [p, graph] = s.graph_with(0, static_cast<std::uint64_t>(limit_us * 1e3), s.running);
    s.endless_program = std::move(p);
    s.endless = std::move(graph);
    s.endless_exec = instantiate(s.endless.get());
    s.endless_limit_us = limit_us;
  }
  s.on = stream;
  check(driver().cuGraphLaunch(s.endless_exec.get(), stream), "probe");
}

bool probe::wait_running(double limit_us) const {
  const double until = now_us() + limit_us;
  while (*static_cast<volatile std::uint32_t*>(state_->running) == 0) {
    if (now_us() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

void probe::wait() {
  state& s = *state_;
  if (s.copier.joinable()) s.copier.join();
  if (!s.failure.empty()) throw error(errc::device_failed, s.how.name() + ": " + s.failure);
  if (s.on != nullptr) check(cudaStreamSynchronize(s.on), "probe");
}

void probe::stop() {
  state& s = *state_;
  if (copies_with_host(s.how.kind)) {
    s.leave.store(true, std::memory_order_relaxed); // seen after the copy in flight
    wait();
    return;
  }
  if (s.on == nullptr) return;
  s.set_stop(1, s.stopping.get());
  check(cudaStreamSynchronize(s.on), "probe");
  s.on = nullptr;
  s.set_stop(0, s.stopping.get()); // for finite graphs
  check(cudaStreamSynchronize(s.stopping.get()), "probe");
}

namespace {

std::vector<probe_record> read_records(const probe_record* from, std::size_t n) {
  std::vector<probe_record> all(n);
  check(cudaMemcpy(all.data(), from, n * sizeof(probe_record), cudaMemcpyDeviceToHost),
        "records of the probe");
  return all;
}

} // namespace

probe::result probe::last() const {
  const state& s = *state_;
  if (copies_with_host(s.how.kind)) return s.copied;
  result r;
  std::set<std::uint32_t> sms;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t end = 0;
  double cycles = 0;
  double ns = 0;
  for (const probe_record& b : read_records(s.records.get(), s.launch.grid.x)) {
    if (b.end_ns == 0) continue; // the block has not run
    r.rounds += static_cast<double>(b.rounds);
    sms.insert(b.sm);
    first = std::min(first, b.start_ns);
    end = std::max(end, b.end_ns);
    cycles += static_cast<double>(b.cycles);
    ns += static_cast<double>(b.end_ns - b.start_ns);
    r.stopped = r.stopped || b.stopped != 0;
  }
  r.sms = static_cast<std::uint32_t>(sms.size());
  if (end > first) r.us = static_cast<double>(end - first) * 1e-3;
  if (ns > 0) r.clock_mhz = cycles / ns * 1e3;
  return r;
}

std::vector<std::uint32_t> probe::sms_used() const {
  if (copies_with_host(state_->how.kind)) return {};
  std::set<std::uint32_t> sms;
  for (const probe_record& b : read_records(state_->records.get(), state_->launch.grid.x))
    if (b.end_ns != 0) sms.insert(b.sm);
  return {sms.begin(), sms.end()};
}

const launch_shape& probe::launch() const noexcept { return state_->launch; }
std::string probe::name() const { return state_->how.name(); }

} // namespace gsched::cuda
