// SPDX-License-Identifier: Apache-2.0
// Where the time of a request goes, whose inputs and outputs are in host memory: by CUDA alone, by
// a ticket of the process that owns the GPU, and by a client in another process that polls, sleeps
// until its request is almost finished, or sleeps until it has ended. All ways are interleaved.

#include "channel/requester.hpp"
#include "channel/served.hpp"
#include "experiment.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using channel_bench::times;
using json = nlohmann::ordered_json;

struct options {
  channel_bench::shape what;
  std::uint32_t requests = 300, rounds = 5;
  int gpu = 0;
  std::string json;
};

/// The quantile over all requests of a way.
json figures(const std::vector<times>& all) {
  json out;
  const auto add = [&](const char* name, double times::*part) {
    std::vector<double> us;
    for (const times& t : all) us.push_back(t.*part);
    out[name] = {{"p50_us", experiment::median(us)}, {"p99_us", experiment::quantile(us, 0.99)}};
  };
  add("total", &times::total);
  add("there_and_back", &times::there_and_back);
  add("scheduling", &times::scheduling);
  add("device", &times::device);
  return out;
}

void print(const std::string& way, const json& f) {
  const auto one = [&](const char* part) {
    return fmt::format("{:9.1f} {:9.1f}", f[part]["p50_us"].get<double>(),
                       f[part]["p99_us"].get<double>());
  };
  fmt::print("{:<18} {} {} {} {}\n", way, one("total"), one("there_and_back"), one("scheduling"),
             one("device"));
}

void run(const options& o, channel_bench::requester& client, const std::string& socket) {
  experiment::watchdog dog("gsched.gpu.channel");
  dog.step("set-up", 60);
  channel_bench::served served(o.gpu, o.what, socket);
  client.connect(socket);
  struct way {
    std::string name;
    std::vector<times> all{};
  };
  std::vector<way> ways{{"CUDA alone"}, {"ticket"}};
  for (const char* each : channel_bench::requester::ways)
    ways.push_back({fmt::format("channel, {}", each)});
  for (std::uint32_t round = 0; round < o.rounds; ++round)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      dog.step(ways[w].name, 60);
      const std::vector<times> now = w == 0   ? served.by_cuda(o.requests)
                                     : w == 1 ? served.by_ticket(o.requests)
                                              : client.request(w - 2, o.requests);
      ways[w].all.insert(ways[w].all.end(), now.begin(), now.end());
    }
  dog.rest();
  const channel_bench::parts alone = served.alone();
  fmt::print("{} requests each, {} bytes in, {} out; alone, the graph takes {:.1f} us and the "
             "copies {:.1f} us\n",
             o.requests * o.rounds, o.what.in_bytes, o.what.out_bytes, alone.graph, alone.copies);
  fmt::print("{:<18} {:>19} {:>19} {:>19} {:>19}\n{:<18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} "
             "{:>9}\n",
             "us", "total", "there and back", "scheduling", "copies and graph", "", "p50", "p99",
             "p50", "p99", "p50", "p99", "p50", "p99");
  json out{{"requests", o.requests * o.rounds}, {"in_bytes", o.what.in_bytes},
           {"out_bytes", o.what.out_bytes},     {"sets", o.what.sets},
           {"graph_us", alone.graph},           {"copies_us", alone.copies}};
  for (const way& w : ways) {
    const json f = figures(w.all);
    print(w.name, f);
    out["ways"][w.name] = f;
  }
  if (o.json.empty()) return;
  std::ofstream file(o.json);
  file << out.dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error(o.json + ": cannot be written");
}

} // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app("Where the time of a request goes, in this process and from another, on a GPU.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--in-bytes", o.what.in_bytes, 4u, 1u << 28, "of a request's input");
  add("--out-bytes", o.what.out_bytes, 4u, 1u << 28, "of its output");
  add("--sets", o.what.sets, 1u, 10000u, "kernels of the model, which set 1 MiB each");
  add("--requests", o.requests, 10u, 1000000u, "of each way in a round");
  add("--rounds", o.rounds, 1u, 1000u, "of all ways in turn");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--json", o.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.channel: {}\n", wrong.what());
    return 2;
  }
  try {
    channel_bench::requester client; // a process of its own, from before CUDA starts
    run(o, client, "@gsched-gpu-channel-" + std::to_string(::getpid()));
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.channel: {}\n", wrong.what());
    return 1;
  }
}
