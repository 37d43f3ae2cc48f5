// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"
#include "feed.hpp"

#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>

namespace soak {

namespace {

namespace cuda = gsched::cuda;
using experiment::seconds_now;
using nlohmann::json;

constexpr double step_seconds = 30; ///< a tenth of a second without words means a hang

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// The conditions at the end, when nothing is in flight.
json judge(feed& f, unsigned kernels) {
  const gsched::ring_counts counts = f.ring().reader().counts();
  const books& b = f.booked();
  const tally& t = f.counted();
  const std::uint64_t launches = t.graph_launches * kernels + t.direct_launches;
  const bool good = counts.intact() && b.words() == f.ring().flow().total() &&
                    b.launches() == launches && b.strays() == 0 && b.disorder() == 0 &&
                    b.bad_sms() == 0 && f.ring().flow().violations() == 0 &&
                    f.ring().flow().reserved() == 0;
  return {{"good", good},
          {"words", b.words()},
          {"words_expected", f.ring().flow().total()},
          {"lost", counts.lost},
          {"overwritten", counts.overwritten},
          {"invalid", counts.invalid},
          {"of_no_running_launch", b.strays()},
          {"out_of_order", b.disorder()},
          {"bad_sms", b.bad_sms()},
          {"launches", b.launches()},
          {"launches_expected", launches},
          {"graph_launches", t.graph_launches},
          {"direct_launches", t.direct_launches},
          {"launches_held_back", t.held},
          {"most_words_outstanding", t.most_reserved},
          {"empty_looks", t.empty_looks},
          {"flow_violations", f.ring().flow().violations()}};
}

json feed_until(const char* part, const cuda::gpu& gpu, const feed::shape& how, double words,
                double seconds, std::uint64_t seed, experiment::watchdog& dog) {
  dog.step(fmt::format("{}: set-up", part), step_seconds);
  feed f(gpu, how, seed);
  print(fmt::format("{}: ring of {} slots, {} graphs of {} kernels", part, how.slots, how.graphs,
                    how.kernels));
  const double start = seconds_now();
  double told = start;
  std::uint64_t told_words = 0;
  const auto progress = [&](double now) {
    const std::uint64_t at = f.booked().words();
    print(fmt::format("{}: {:>13} words {:>7.1f} s {:>7.1f} M words/s, {} launches held back", part,
                      at, now - start, static_cast<double>(at - told_words) / (now - told) * 1e-6,
                      f.counted().held));
    if (at != told_words) dog.step(fmt::format("{}: after {} words", part, at), step_seconds);
    told = now;
    told_words = at;
  };
  dog.step(fmt::format("{}: first words", part), step_seconds);
  for (unsigned turn = 0;; ++turn) {
    f.launch();
    static_cast<void>(f.read());
    if (static_cast<double>(f.booked().words()) >= words) break;
    if (turn % 64 != 0) continue;
    const double now = seconds_now();
    if (now - start > seconds) break;
    if (now - told > 1) progress(now);
  }
  while (!f.idle()) { // otherwise the watchdog reports a lost word
    const double now = seconds_now();
    if (f.read() == 0 && now - told > 5) progress(now);
  }
  const double end = seconds_now();
  cuda::check(cudaDeviceSynchronize(), part);
  dog.rest();
  progress(end);
  f.finalise();
  json row = judge(f, how.kernels);
  row["part"] = part;
  row["seconds"] = end - start;
  row["words_per_second"] = static_cast<double>(f.booked().words()) / (end - start);
  row["slots"] = how.slots;
  print(fmt::format(
      "{}: {} words in {:.1f} s, {:.1f} M words/s; lost {}, overwritten {}, of no "
      "running launch {}, out of order {}; held back {} of {} launches, {} empty looks: {}",
      part, f.booked().words(), end - start, row["words_per_second"].get<double>() * 1e-6,
      row["lost"].get<std::uint64_t>(), row["overwritten"].get<std::uint64_t>(),
      f.booked().strays(), f.booked().disorder(), f.counted().held,
      f.counted().graph_launches + f.counted().direct_launches, f.counted().empty_looks,
      row["good"].get<bool>() ? "good" : "FAILED"));
  return row;
}

/// Without flow control, and without a reader until the end: lost words must be counted.
json unguarded(const cuda::gpu& gpu, experiment::watchdog& dog) {
  dog.step("no flow control", step_seconds);
  constexpr std::uint32_t slots = 1024;
  constexpr std::uint32_t blocks = 5000;
  cuda::notification_ring ring(gpu.ordinal, slots);
  const cuda::launch_slot slot = ring.take_slot(1);
  cuda::check(launch({body::nothing, blocks, 32, 1}, nullptr, ring.report_of(slot)), "launch");
  cuda::check(cudaDeviceSynchronize(), "launch");
  dog.rest();
  std::uint64_t read = 0;
  ring.reader().finalise(2 * blocks, [&](const gsched::notification&) { ++read; });
  const gsched::ring_counts& c = ring.reader().counts();
  const bool good = c.tickets() == 2 * blocks && c.read == read && read <= slots && !c.intact();
  print(fmt::format("no flow control: {} words into {} slots, read {}, overwritten {}, lost {}: {}",
                    2 * blocks, slots, read, c.overwritten, c.lost, good ? "counted" : "FAILED"));
  return {{"part", "no flow control"},
          {"good", good},
          {"words", 2 * blocks},
          {"slots", slots},
          {"read", read},
          {"lost", c.lost},
          {"overwritten", c.overwritten},
          {"invalid", c.invalid}};
}

} // namespace

bool run(const options& o) {
  const cuda::gpu gpu = cuda::find_gpu(o.gpu);
  cuda::check(cudaSetDevice(o.gpu), "GPU");
  experiment::watchdog dog("gsched.gpu.notification_soak");
  json result{{"experiment", "notification_soak"},
              {"gpu", gpu.name},
              {"sms", gpu.sms.count()},
              {"driver", gpu.driver_version},
              {"seed", o.seed},
              {"reader_rest_ns", o.rest.count()},
              {"utc", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"parts", json::array()}};
  bool good = true;
  const auto keep = [&](json row) {
    good = good && row["good"].get<bool>();
    result["parts"].push_back(std::move(row));
    if (o.json.empty()) return;
    std::ofstream file(o.json);
    file << result.dump(1) << '\n';
    if (!file.flush())
      throw gsched::error(gsched::errc::io, o.json + ": cannot be written, expected a new file");
  };
  feed::shape wide;
  wide.slots = o.slots;
  wide.rest = o.rest;
  wide.graph_words = o.slots / 32; // some of the launches in flight always have free words
  wide.direct_blocks = static_cast<unsigned>(o.slots / 512);
  keep(feed_until("soak", gpu, wide, o.words, o.seconds, o.seed, dog));
  feed::shape narrow;
  narrow.slots = o.overload_slots;
  narrow.rest = o.rest;
  narrow.graph_words = o.overload_slots / 3; // many times the free words
  narrow.direct_blocks = static_cast<unsigned>(o.overload_slots / 8);
  narrow.in_flight = 4;
  json overload = feed_until("overload", gpu, narrow, o.overload_words, 30, o.seed + 1, dog);
  // otherwise the test shows nothing
  if (overload["launches_held_back"] == 0) overload["good"] = false;
  keep(std::move(overload));
  keep(unguarded(gpu, dog));
  return good;
}

} // namespace soak
