// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <gsched/cuda/driver.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;
using gsched::cuda::driver_of_partitions;

namespace {

constexpr std::size_t device_bytes = std::size_t{32} << 20;
constexpr std::size_t host_bytes = std::size_t{1} << 20;
/// a call that takes longer is counted as waiting for the graph
constexpr double waiting_seconds = 10e-3;

/// The objects that the calls use; created before the graph is held, freed after it continued.
struct things {
  scene& s;
  cudaStream_t stream = nullptr; ///< no held work
  void* device = nullptr;
  void* host = nullptr;
  graph source{};
  executable made{};
  cudaStream_t new_stream = nullptr;
  cudaEvent_t new_event = nullptr;
  CUdevResourceDesc description = nullptr;
  CUgreenCtx context = nullptr;
  int turn = 0; ///< 0: no graph is held; 1: a graph is
};

struct call_kind {
  std::string name;
  void (*prepare)(things&);
  void (*call)(things&);
  void (*clean_up)(things&);
};

void nothing(things&) {}
void allocate(things& t) { check(cudaMalloc(&t.device, device_bytes), "cudaMalloc"); }
void free_memory(things& t) { check(cudaFree(t.device), "cudaFree"); }
void allocate_pinned(things& t) { check(cudaHostAlloc(&t.host, host_bytes, 0), "cudaHostAlloc"); }
void free_pinned(things& t) { check(cudaFreeHost(t.host), "cudaFreeHost"); }
void allocate_async(things& t) {
  check(cudaMallocAsync(&t.device, device_bytes, t.stream), "cudaMallocAsync");
}
void free_async(things& t) {
  check(cudaFreeAsync(t.device, t.stream), "cudaFreeAsync");
  check(cudaStreamSynchronize(t.stream), "stream");
}
cudaMemPool_t pool_of(const things& t) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, t.s.gpu().ordinal), "memory pool");
  return pool;
}
/// The pool keeps unused memory.
void fill_pool(things& t) {
  std::uint64_t all = ~std::uint64_t{0};
  check(cudaMemPoolSetAttribute(pool_of(t), cudaMemPoolAttrReleaseThreshold, &all), "memory pool");
  allocate_async(t);
  free_async(t);
}
void trim_pool(things& t) { check(cudaMemPoolTrimTo(pool_of(t), 0), "cudaMemPoolTrimTo"); }
template <unsigned Nodes>
void build(things& t) {
  t.source = t.s.make().chain(Nodes, small_kernels);
}
void make(things& t) { t.made = instantiate(t.source); }
void make_and_run(things& t) {
  make(t);
  check(driver().cuGraphLaunch(t.made.get(), t.stream), "launch");
  check(cudaStreamSynchronize(t.stream), "stream");
}
void upload(things& t) { check(driver().cuGraphUpload(t.made.get(), t.stream), "upload"); }
void forget(things& t) { t.made.reset(); }
void create_stream(things& t) {
  check(cudaStreamCreateWithFlags(&t.new_stream, cudaStreamNonBlocking), "stream");
}
void destroy_stream(things& t) { check(cudaStreamDestroy(t.new_stream), "stream"); }
void create_event(things& t) { check(cudaEventCreate(&t.new_event), "event"); }
void destroy_event(things& t) { check(cudaEventDestroy(t.new_event), "event"); }
void allocate_pageable(things& t) {
  t.host = std::aligned_alloc(4096, host_bytes);
  if (t.host == nullptr) throw std::bad_alloc();
  std::fill_n(static_cast<char*>(t.host), host_bytes, '\0');
}
void free_pageable(things& t) { std::free(t.host); }
void copy_pageable(things& t) {
  check(cudaMemcpy(reinterpret_cast<void*>(t.s.memory().device), t.host, host_bytes,
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
}
void pin(things& t) { check(cudaHostRegister(t.host, host_bytes, 0), "cudaHostRegister"); }
void unpin(things& t) { check(cudaHostUnregister(t.host), "cudaHostUnregister"); }
void set_function(things& t) {
  check(cudaFuncSetAttribute(all_kernels().timed_mark, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (t.turn + 1) * 16384),
        "cudaFuncSetAttribute");
}
void load_function(things& t) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, all_kernels().unused[t.turn]), "cudaFuncGetAttributes");
}
void synchronize(things&) { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
void describe_context(things& t) {
  const auto& cu = driver_of_partitions();
  CUdevice gpu{};
  check(cudaGetDevice(&gpu), "device");
  CUdevResource all{};
  CUdevResource some{};
  unsigned groups = 1;
  check(cu.cuDeviceGetDevResource(gpu, &all, CU_DEV_RESOURCE_TYPE_SM), "SMs");
  check(cu.cuDevSmResourceSplitByCount(&some, &groups, &all, nullptr, 0, 8), "split of the SMs");
  check(cu.cuDevResourceGenerateDesc(&t.description, &some, 1), "SMs");
}
void open_context(things& t) {
  CUdevice gpu{};
  check(cudaGetDevice(&gpu), "device");
  check(driver_of_partitions().cuGreenCtxCreate(&t.context, t.description, gpu,
                                                CU_GREEN_CTX_DEFAULT_STREAM),
        "cuGreenCtxCreate");
}
void make_context(things& t) {
  describe_context(t);
  open_context(t);
}
void destroy_context(things& t) {
  check(driver_of_partitions().cuGreenCtxDestroy(t.context), "cuGreenCtxDestroy");
}

std::vector<call_kind> all_calls() {
  return {
      {"(nothing)", nothing, nothing, nothing},
      {"cudaMalloc", nothing, allocate, free_memory},
      {"cudaFree", allocate, free_memory, nothing},
      {"cudaHostAlloc", nothing, allocate_pinned, free_pinned},
      {"cudaFreeHost", allocate_pinned, free_pinned, nothing},
      {"cudaMallocAsync", nothing, allocate_async, free_async},
      {"cudaFreeAsync; its stream's end", allocate_async, free_async, nothing},
      {"cudaMemPoolTrimTo", fill_pool, trim_pool, nothing},
      {"cudaMemcpy; pageable", allocate_pageable, copy_pageable, free_pageable},
      {"cudaHostRegister", allocate_pageable, pin,
       [](things& t) {
         unpin(t);
         free_pageable(t);
       }},
      {"cudaHostUnregister",
       [](things& t) {
         allocate_pageable(t);
         pin(t);
       },
       unpin, free_pageable},
      {"instantiation of 50 nodes", build<50>, make, forget},
      {"instantiation of 500 nodes", build<500>, make, forget},
      {"upload of 500 nodes",
       [](things& t) {
         build<500>(t);
         make(t);
       },
       upload, forget},
      {"destruction of 500 nodes",
       [](things& t) {
         build<500>(t);
         make_and_run(t);
       },
       forget, nothing},
      {"stream creation", nothing, create_stream, destroy_stream},
      {"stream destruction", create_stream, destroy_stream, nothing},
      {"event creation", nothing, create_event, destroy_event},
      {"event destruction", create_event, destroy_event, nothing},
      {"cudaFuncSetAttribute", nothing, set_function, nothing},
      {"first use of a kernel", nothing, load_function, nothing},
      {"green context: creation", describe_context, open_context, destroy_context},
      {"green context: destruction", make_context, destroy_context, nothing},
      {"cudaDeviceSynchronize", nothing, synchronize, nothing},
  };
}

std::vector<std::string> cases(const run_options&) {
  std::vector<std::string> names;
  for (const call_kind& c : all_calls()) names.push_back(c.name);
  return names;
}

/// The result of a worker's call while a graph was held.
struct observed {
  bool waits;
  double us; ///< until it returned, possibly after the graph continued
};

ordered_json as_json(const observed& o) { return {{"waits", o.waits}, {"us", o.us}}; }

ordered_json measure(scene& s, const std::string& which, const run_options& o) {
  const std::vector<call_kind> all = all_calls();
  const call_kind& kind = *std::ranges::find(all, which, &call_kind::name);
  s.watch().step("set-up", 10);
  const standing_pair pair(s);
  things t{s, s.new_stream(false)};
  worker caller(o.gpu);
  worker launcher(o.gpu);
  worker asker(o.gpu);
  worker event_asker(o.gpu);
  cudaEvent_t held_end = nullptr; // behind the held graph
  check(cudaEventCreateWithFlags(&held_end, cudaEventDisableTiming), "event");
  const auto query_event = [&] {
    const cudaError_t e = cudaEventQuery(held_end);
    if (e != cudaErrorNotReady) check(e, "cudaEventQuery");
  };

  ordered_json out;
  {
    s.watch().step("call with nothing on the GPU", 5);
    kind.prepare(t);
    caller.post([&] { kind.call(t); });
    while (!caller.returned()) {
    }
    out["idle_us"] = caller.us();
    kind.clean_up(t);
    s.drain();
  }
  t.turn = 1;
  s.watch().step("preparation", 5);
  kind.prepare(t);
  s.clear_marks();
  s.drain();
  s.watch().step("call while a graph stands");
  pair.hold_and_launch(s);
  check(cudaEventRecord(held_end, pair.held_on), "event");
  const bool stood = holds_within(0.1, [&] { return s.stands(0); });
  pass(300e-6);
  const auto observe = [&](worker& by, std::function<void()> f) {
    by.post(std::move(f));
    return !holds_within(waiting_seconds, [&] { return by.returned(); });
  };
  const bool call_waits = observe(caller, [&] { kind.call(t); });
  const bool launch_waits = observe(launcher, [&] { pair.beside.launch(); });
  const bool runs = holds_within(waiting_seconds, [&] { return s.marked(0); });
  const bool query_waits = observe(asker, [&] { pair.beside.query(); });
  const bool event_waits = observe(event_asker, query_event);
  s.release();
  s.watch().step("return of the calls");
  for (const worker* w : {&caller, &launcher, &asker, &event_asker})
    while (!w->returned()) {
    }
  s.drain();
  if (!stood) throw gsched::error(gsched::errc::device_failed, "the graph does not stand");
  out["call"] = as_json({call_waits, caller.us()});
  out["launch"] = as_json({launch_waits, launcher.us()});
  out["launch"]["runs"] = runs;
  out["query"] = as_json({query_waits, asker.us()});
  out["event_query"] = as_json({event_waits, event_asker.us()});
  s.watch().step("cleaning up", 5);
  kind.clean_up(t);
  check(cudaEventDestroy(held_end), "event");
  s.drain();
  return out;
}

constexpr int name_width = 34;

void print_head(const run_options&) {
  fmt::print(
      "calls: of another thread while a graph stands, and what two more threads do meanwhile; "
      "us, or \"waits\"\n{:<{}} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
      "call", name_width, "idle", "standing", "launch", "it runs", "query", "event");
}

std::string text_of(const ordered_json& one) {
  return one["waits"].get<bool>() ? "waits" : fmt::format("{:.1f}", one["us"].get<double>());
}

void print(const ordered_json& figures, const run_options&) {
  const ordered_json& f = figures[0];
  fmt::print("{:<{}}", f["case"].get<std::string>(), name_width);
  if (f.contains("call"))
    fmt::print(" {:>10.1f} {:>10} {:>10} {:>10} {:>10} {:>10}\n", f["idle_us"].get<double>(),
               text_of(f["call"]), text_of(f["launch"]),
               f["launch"]["runs"].get<bool>() ? "yes" : "no", text_of(f["query"]),
               text_of(f["event_query"]));
  else
    fmt::print(" {:>10}\n", f.contains("hangs") ? "hangs" : "error");
}

} // namespace

part calls_part() { return {"calls", false, cases, measure, print_head, print}; }

} // namespace standing
