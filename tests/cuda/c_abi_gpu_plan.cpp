// SPDX-License-Identifier: Apache-2.0
// Serving by plans through the C ABI, on a GPU: requests of several threads in batches, each with
// its own result, from memory of all kinds.
#include "cuda/c_abi_gpu_model.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/gsched_c.h>
#if __has_include(<gsched/gsched_measure.h>) // where the tools are built
#include <gsched/gsched_measure.h>
#endif

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

using namespace gsched::testing;

namespace {

constexpr std::uint32_t plan_words = 3000; // of a request

/// A model in batches of 1, 2, 4 and 8, several graphs of each on each of the first `gpus` GPUs.
struct batched_model {
  std::string name;
  std::vector<std::unique_ptr<captured_model>> batches{};
  std::vector<gsched_plan_graph> graphs{};
  gsched_plan_model it{};

  batched_model(std::string called, std::uint32_t steps, std::uint32_t spin, std::size_t copies,
                std::uint32_t gpus = 1)
      : name(std::move(called)) {
    for (std::uint32_t place = 0; place < gpus; ++place)
      for (std::uint32_t b = 1; b <= 8; b *= 2) {
        ok(cudaSetDevice(static_cast<int>(place)));
        const auto& m = batches.emplace_back(
            std::make_unique<captured_model>(plan_words * b, steps, spin, copies));
        ok(cudaSetDevice(0));
        for (std::size_t i = 0; i < copies; ++i) {
          gsched_plan_graph& g = graphs.emplace_back();
          g.size = sizeof g;
          g.batch = b;
          g.graph = m->graphs[i];
          g.inputs = &m->inputs[i];
          g.outputs = &m->outputs[i];
          g.gpu = place;
        }
      }
    it.size = sizeof it;
    it.name = name.c_str();
    it.graphs = graphs.data();
    it.graphs_count = static_cast<std::uint32_t>(graphs.size());
    it.inputs = it.outputs = 1;
    it.slo_us = 2e6;
    it.rate = 500;
  }
};

/// A table that says the models take long enough, and metrics of both; removed at the end.
struct table_file {
  std::string path = "/tmp/gsched_plan_" + std::to_string(getpid()) + ".csv";
  std::string solo = path + ".solo.csv";
  explicit table_file(int short_us = 1000, int long_us = 1000) {
    std::ofstream out(path), alone(solo);
    out << "model,batch,sms,latency_us\n";
    alone << "model,batch,solo_us,dram_bytes,l2_sectors,dram_pct,l2_pct,sm_pct,ipc,"
             "warps_active_pct,l1_pct,sm_active_pct\n";
    for (const auto& [name, us] : {std::pair("short", short_us), std::pair("long", long_us)})
      for (const int batch : {1, 2, 4, 8}) {
        for (const int sms : {8, 16, 32, 64, 120, 132})
          out << name << ',' << batch << ',' << sms << ',' << us + 4000 * batch / sms << '\n';
        alone << name << ',' << batch << ',' << us << ",1000000,100000,0.1,0.1,1,0.1,1,0.1,5\n";
      }
  }
  ~table_file() {
    std::remove(path.c_str());
    std::remove(solo.c_str());
  }
};

[[nodiscard]] gsched_plan_options options_with(const table_file& t) {
  gsched_plan_options o{};
  o.size = sizeof o;
  ok(gsched_default_plan_options(&o));
  o.table = t.path.c_str();
  o.sms = 64;
  return o;
}

/// Memory of one kind for `plan_words` numbers.
struct place {
  std::uint32_t* at = nullptr;
  int kind = 0;
  explicit place(int k) : kind(k) {
    const std::size_t bytes = plan_words * sizeof(std::uint32_t);
    if (kind == 0) at = new std::uint32_t[plan_words];
    if (kind == 1) ok(cudaHostAlloc(reinterpret_cast<void**>(&at), bytes, cudaHostAllocDefault));
    if (kind == 2) ok(cudaMalloc(reinterpret_cast<void**>(&at), bytes));
  }
  place(place&& other) noexcept : at(std::exchange(other.at, nullptr)), kind(other.kind) {}
  place& operator=(place&&) = delete;
  ~place() {
    if (kind == 0) delete[] at;
    if (kind == 1) cudaFreeHost(at);
    if (kind == 2) cudaFree(at);
  }
};

struct served {
  gsched_plan_report plan;
  gsched_plan_model_report brief;
  std::uint32_t rejected; ///< requests that could not be in time
};

/// Serves 240 requests of several threads, and checks the results of those that are not rejected.
[[nodiscard]] served serve(const gsched_plan_options& o, const batched_model& brief,
                           const batched_model& heavy) {
  const std::vector<gsched_plan_model> models{brief.it, heavy.it};
  gsched_server* server = nullptr;
  ok(gsched_plan_open(&o, models.data(), 2, &server));
  const batched_model* const all[] = {&brief, &heavy};
  std::atomic<std::size_t> wrong{0};
  std::atomic<std::uint32_t> others{0}, rejected{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<place> in, out;
      std::vector<gsched_ticket*> tickets;
      std::vector<std::uint32_t> host(plan_words);
      constexpr std::uint32_t each = 60;
      for (std::uint32_t i = 0; i < each; ++i) {
        in.emplace_back(static_cast<int>((i + t) % 3));
        out.emplace_back(static_cast<int>((i / 3 + t) % 3));
        for (std::uint32_t w = 0; w < plan_words; ++w) host[w] = t * 7919 + i * 104729 + w;
        ok(cudaMemcpy(in.back().at, host.data(), plan_words * 4, cudaMemcpyDefault));
      }
      for (std::uint32_t i = 0; i < each; ++i) {
        const void* from[] = {in[i].at};
        void* into[] = {out[i].at};
        gsched_request r{};
        r.size = sizeof r;
        r.model = i % 2;
        r.inputs = from;
        r.outputs = into;
        tickets.push_back(nullptr);
        if (gsched_submit(server, &r, &tickets.back()) != GSCHED_OK) ++others;
      }
      for (std::uint32_t i = 0; i < each; ++i) {
        if (tickets[i] == nullptr || gsched_wait(tickets[i], 60 * second_us) != GSCHED_OK) {
          ++others;
          continue;
        }
        const std::uint32_t state = report_of(tickets[i]).state;
        gsched_release(tickets[i]);
        if (state == GSCHED_REJECTED) {
          ++rejected;
          continue;
        }
        if (state != GSCHED_FINISHED) ++others;
        ok(cudaMemcpy(host.data(), out[i].at, plan_words * 4, cudaMemcpyDefault));
        const captured_model& m = *all[i % 2]->batches.front();
        for (std::uint32_t w = 0; w < plan_words; ++w)
          wrong += host[w] != m.expected(t * 7919 + i * 104729 + w);
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(others == 0);
  gsched_plan_report p{};
  p.size = sizeof p;
  ok(gsched_get_plan_report(server, &p));
  CHECK(p.batches < 4 * 60);
  CHECK(p.failed_plans == 0);
  gsched_plan_model_report m{};
  m.size = sizeof m;
  ok(gsched_get_plan_model_report(server, 0, &m));
  CHECK(m.in_time + m.late + m.dropped == 120);
  CHECK(m.slow_down > 0);
  ok(gsched_server_close(server, GSCHED_DRAIN, 20 * second_us));
  ok(gsched_server_release(server));
  return {p, m, rejected};
}

} // namespace

TEST_CASE("c abi plan: requests of several threads are served in batches, with their own results") {
  GSCHED_NEEDS_GPU();
  const table_file table;
  const batched_model brief("short", 3, 10, 6), heavy("long", 12, 200, 6);
  const served s = serve(options_with(table), brief, heavy);
  CHECK(s.plan.partitions >= 1);
  CHECK(s.plan.sms <= 64);
  CHECK(s.brief.in_time == 120);
  CHECK(s.rejected == 0);
}

TEST_CASE("c abi plan: models on the same SMs have their own results") {
  GSCHED_NEEDS_GPU();
  // One group of SMs, and a batch of one model takes longer than a request of the other may.
  const table_file table(1000, 100'000);
  batched_model brief("short", 3, 10, 6), heavy("long", 12, 200, 6);
  brief.it.slo_us = 90e3;
  brief.it.rate = 2;
  heavy.it.rate = 0.1;
  heavy.it.slo_us = 60e6;
  const std::string shipped = "tools/data/interference/h200.json";
  const std::string found = std::ifstream(shipped) ? shipped : GSCHED_SOURCE_DIR "/" + shipped;
  const std::string law = table.path + ".json"; // without machine.json beside it: used on any GPU
  std::ofstream(law) << std::ifstream(found).rdbuf();
  gsched_plan_options o = options_with(table);
  o.planner = "elastic+share";
  o.interference = law.c_str();
  o.solo = table.solo.c_str();
  o.sms = 8;
  o.replans = 0;
  const served s = serve(o, brief, heavy); // short requests that wait too long are rejected
  CHECK(s.plan.partitions == 2);
  CHECK(s.plan.sms == 8);
  CHECK(std::string(s.plan.warning) ==
        "table " + table.path + ": no machine.json beside it, so its GPU is unknown");
  CHECK(s.brief.in_time > 0);
  std::remove(law.c_str());
}

TEST_CASE("c abi plan: models on two GPUs have their own results") {
  GSCHED_NEEDS_GPUS(2);
  // In turn on one GPU they would be answered 4 times a second each: a batch of 8 takes a second.
  const table_file table(1'000'000, 1'000'000);
  batched_model brief("short", 3, 10, 6, 2), heavy("long", 12, 200, 6, 2);
  brief.it.rate = heavy.it.rate = 5;
  brief.it.slo_us = heavy.it.slo_us = 60e6;
  const std::int32_t both[] = {0, 1};
  gsched_plan_options o = options_with(table);
  o.gpus = both;
  o.gpus_count = 2;
  o.sms = 8;
  o.replans = 0;
  const served s = serve(o, brief, heavy);
  CHECK(s.plan.partitions == 2);
  CHECK(s.plan.sms == 16); // of which one GPU gives 8
  CHECK(s.rejected == 0);
}

#ifdef GSCHED_MEASURE_ABI
TEST_CASE("c abi plan: graphs are measured in this process, and served by that table") {
  GSCHED_NEEDS_GPU();
  const batched_model brief("short", 3, 10, 6), heavy("long", 12, 200, 6);
  std::string folder = "/tmp/gsched_measured_" + std::to_string(getpid());
  std::vector<gsched_measure_graph> graphs;
  for (const batched_model* m : {&brief, &heavy})
    for (const gsched_plan_graph& g : m->graphs)
      graphs.push_back({sizeof(gsched_measure_graph), g.batch, g.graph, m->name.c_str(), nullptr,
                        g.inputs->bytes, g.outputs->bytes});
  std::string texts[] = {"measure", "latency", "--out", folder, "--busy", "--quiet"};
  std::vector<char*> words;
  for (std::string& t : texts) words.push_back(t.data());
  REQUIRE(gsched_measure_check_machine(static_cast<int>(words.size()), words.data()) == 0);
  REQUIRE(gsched_measure_graphs(static_cast<int>(words.size()), words.data(), graphs.data(),
                                graphs.size()) == 0);
  const std::string table = folder + "/latency_batch_partition.csv";
  gsched_plan_options o{};
  o.size = sizeof o;
  ok(gsched_default_plan_options(&o));
  o.table = table.c_str();
  const served s = serve(o, brief, heavy);
  CHECK(std::string(s.plan.warning).empty()); // it was measured on this GPU
  CHECK(s.brief.in_time == 120);
  CHECK(s.rejected == 0);
  std::filesystem::remove_all(folder);
}
#endif

TEST_CASE("c abi plan: a graph's memory on another GPU than it says is refused in one line") {
  GSCHED_NEEDS_GPUS(2);
  const table_file table;
  batched_model brief("short", 3, 10, 6, 2);
  for (gsched_plan_graph& g : brief.graphs) g.gpu = 1 - g.gpu;
  const std::int32_t both[] = {0, 1};
  gsched_plan_options o = options_with(table);
  o.gpus = both;
  o.gpus_count = 2;
  gsched_server* server = nullptr;
  CHECK(gsched_plan_open(&o, &brief.it, 1, &server) == GSCHED_BAD_ARGUMENT);
  CHECK(std::string(gsched_last_error()) ==
        "short: graph 0.inputs[0]: memory of GPU 0, expected that of GPU 1, as "
        "gsched_plan_graph.gpu says");
}

TEST_CASE("c abi plan: a table of another GPU is refused in one line") {
  GSCHED_NEEDS_GPU();
  const table_file table;
  const std::string folder = table.path + ".folder", moved = folder + "/table.csv";
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(table.path, moved);
  std::ofstream(folder + "/machine.json")
      << R"({"gpu": "NVIDIA T4", "compute_capability": "7.5", "sms": 40, "sm_groups": [40]})";
  const batched_model brief("short", 3, 10, 6);
  gsched_plan_options o = options_with(table);
  o.table = moved.c_str();
  gsched_server* server = nullptr;
  CHECK(gsched_plan_open(&o, &brief.it, 1, &server) == GSCHED_BAD_ARGUMENT);
  const std::string line = gsched_last_error();
  CHECK_MESSAGE(line.find("table " + moved + ": measured on NVIDIA T4, not NVIDIA ") == 0, line);
  CHECK(server == nullptr);
  std::filesystem::remove_all(folder);
}
