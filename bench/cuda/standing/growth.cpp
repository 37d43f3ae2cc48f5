// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <gsched/cuda/driver.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>

namespace standing {

using gsched::cuda::check;

namespace {

constexpr unsigned most = 512; ///< created while one graph is held
constexpr unsigned phases = 3;
/// a call that takes longer is counted as waiting for the graph
constexpr double waiting_seconds = 10e-3;

/// An object that is created repeatedly, and kept unless stated.
struct kept_things {
  graph one;
  graph many;
  std::vector<executable> executables{};
};

struct thing_kind {
  std::string name;
  void (*make)(kept_things&);
};

void make_stream(kept_things&) {
  cudaStream_t made = nullptr; // never destroyed
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "stream");
}

std::vector<thing_kind> all_kinds() {
  return {
      {"graph executables of 1 kernel",
       [](kept_things& t) { t.executables.push_back(instantiate(t.one)); }},
      {"graph executables of 500 kernels",
       [](kept_things& t) { t.executables.push_back(instantiate(t.many)); }},
      {"the same of 1, each destroyed again",
       [](kept_things& t) { static_cast<void>(instantiate(t.one)); }},
      {"streams", make_stream},
      {"events",
       [](kept_things&) {
         cudaEvent_t made = nullptr; // never destroyed
         check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "event");
       }},
      {"blocks of 4 KB", // never freed, because that waits for the graph
       [](kept_things&) {
         void* made = nullptr;
         check(cudaMalloc(&made, 4096), "cudaMalloc");
       }},
  };
}

std::vector<std::string> cases(const run_options&) {
  std::vector<std::string> names;
  for (const thing_kind& k : all_kinds()) names.push_back(k.name);
  return names;
}

ordered_json measure(scene& s, const std::string& which, const run_options& o) {
  const std::vector<thing_kind> all = all_kinds();
  const thing_kind& kind = *std::ranges::find(all, which, &thing_kind::name);
  s.watch().step("set-up", 10);
  const standing_pair pair(s);
  kept_things t{s.make().chain(1, small_kernels), s.make().chain(500, small_kernels)};
  t.executables.reserve(std::size_t{phases} * most);

  ordered_json out{{"phases", ordered_json::array()}};
  for (unsigned phase = 0; phase < phases; ++phase) {
    worker maker(o.gpu);
    worker launcher(o.gpu);
    worker asker(o.gpu);
    s.clear_marks();
    s.watch().step("calls while a graph stands");
    pair.hold_and_launch(s);
    if (!holds_within(0.1, [&] { return s.stands(0); }))
      throw gsched::error(gsched::errc::device_failed, "the graph does not stand");
    std::atomic<unsigned> count{0};
    std::atomic<bool> stops{false};
    maker.post([&] {
      // Relaxed: only the counts pass between the threads.
      while (!stops.load(std::memory_order_relaxed) &&
             count.load(std::memory_order_relaxed) < most) {
        kind.make(t);
        count.fetch_add(1, std::memory_order_relaxed);
      }
    });
    unsigned seen = 0;
    bool waits = false;
    while (!waits && !maker.returned()) {
      seen = count.load(std::memory_order_relaxed);
      waits = !holds_within(waiting_seconds, [&] {
        return maker.returned() || count.load(std::memory_order_relaxed) != seen;
      });
    }
    const auto observe = [&](worker& by, std::function<void()> f) {
      by.post(std::move(f));
      return !holds_within(waiting_seconds, [&] { return by.returned(); });
    };
    const bool launch_waits = observe(launcher, [&] { pair.beside.launch(); });
    const bool runs = holds_within(waiting_seconds, [&] { return s.marked(0); });
    const bool query_waits = observe(asker, [&] { pair.beside.query(); });
    stops.store(true, std::memory_order_relaxed); // -> the maker
    s.release();
    s.watch().step("return of the calls");
    for (const worker* w : {&maker, &launcher, &asker})
      while (!w->returned()) {
      }
    s.drain();
    for (worker* w : {&maker, &launcher, &asker}) static_cast<void>(w->us()); // their exceptions
    out["phases"].push_back({{"made", waits ? seen : most},
                             {"waits", waits},
                             {"launch_waits", launch_waits},
                             {"runs", runs},
                             {"query_waits", query_waits}});
    if (!waits) break;
  }
  s.watch().step("cleaning up", 10);
  t.executables.clear();
  s.drain();
  return out;
}

constexpr int name_width = 36;

void print_head(const run_options&) {
  fmt::print("growth: how many another thread makes while a graph stands before a call waits for "
             "the graph, three times in turn; and what two more threads do while it waits\n"
             "{:<{}} {:>20} {:>10} {:>10} {:>10}\n",
             "made", name_width, "before a call waits", "launch", "it runs", "query");
}

void print(const ordered_json& figures, const run_options&) {
  const ordered_json& f = figures[0];
  fmt::print("{:<{}}", f["case"].get<std::string>(), name_width);
  if (!f.contains("phases")) {
    fmt::print(" {:>20}\n", f.contains("hangs") ? "hangs" : "error");
    return;
  }
  std::string counts;
  for (const ordered_json& p : f["phases"])
    counts += p["waits"].get<bool>() ? fmt::format(" {}", p["made"].get<unsigned>())
                                     : fmt::format(" none of {}", p["made"].get<unsigned>());
  const ordered_json& first = f["phases"][0];
  const auto answer = [&](const char* which) {
    return first[which].get<bool>() ? "waits" : "returns";
  };
  fmt::print(" {:>20} {:>10} {:>10} {:>10}\n", counts, answer("launch_waits"),
             first["runs"].get<bool>() ? "yes" : "no", answer("query_waits"));
}

} // namespace

part growth_part() { return {"growth", false, cases, measure, print_head, print}; }

} // namespace standing
