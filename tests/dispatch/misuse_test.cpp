// SPDX-License-Identifier: Apache-2.0
#include "dispatch/rig.hpp"

#include <gsched/policy/fifo.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include <unistd.h>

using namespace gsched;

namespace {

/// The message with which a mistake is refused; empty if it is accepted.
std::string refusal(const std::function<void()>& mistake, errc code) {
  try {
    mistake();
  } catch (const error& e) {
    const std::string line = e.what();
    CHECK(e.code() == code);
    CHECK(line.find(", expected ") != line.npos);
    CHECK(line.find('\n') == line.npos);
    return line;
  }
  return {};
}

bool has(const std::string& line, const char* text) { return line.find(text) != line.npos; }

/// The text written to stderr meanwhile.
std::string printed(const std::function<void()>& during) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("gsched_misuse_" + std::to_string(::getpid()) + ".txt");
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  REQUIRE(std::freopen(file.c_str(), "w", stderr) != nullptr);
  during();
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return text;
}

struct arrival_listener : silent_listener {
  void on_arrival(const job& j, void*, time_point) noexcept { arrival = j.arrival; }
  std::optional<time_point> arrival;
};

} // namespace

TEST_CASE("dispatcher: a request without an owner, or with another dispatcher's, is refused") {
  rig<fifo> r, other;
  auto body = [](job_context&) -> task { co_return; };
  const model_id m = r.dispatch.add_model("m", body);
  job_request q;
  q.model = m;
  CHECK(has(refusal([&] { r.dispatch.submit(q); }, errc::bad_option), "owner: none"));
  q.owner = &other.dispatch.add_client();
  CHECK(has(refusal([&] { r.dispatch.submit(q); }, errc::bad_option), "of another dispatcher"));
  static_cast<void>(r.dispatch.add_client());
  CHECK(has(refusal([&] { r.dispatch.submit(q); }, errc::bad_option), "of another dispatcher"));
  CHECK(r.dispatch.idle());
  CHECK(r.dispatch.statistics().submitted == 0);
}

TEST_CASE("dispatcher: a model that was not added, or was removed, is refused") {
  rig<fifo> r;
  auto body = [](job_context&) -> task { co_return; };
  client& c = r.dispatch.add_client();
  job_request q = r.request(model_id{0}, c);
  CHECK(has(refusal([&] { r.dispatch.submit(q); }, errc::unknown_name), "model: 0"));
  const model_id m = r.dispatch.add_model("m", body);
  q.model = model_id{7};
  CHECK(has(refusal([&] { r.dispatch.submit(q); }, errc::unknown_name), "model: 7"));
  CHECK(has(refusal([&] { r.dispatch.exclude(m, model_id{7}); }, errc::unknown_name), "7"));
  q.model = m;
  r.dispatch.remove(m);
  CHECK(has(refusal([&] { r.dispatch.submit(q); }, errc::unknown_name), "model: 0"));
  CHECK(r.dispatch.idle());
}

TEST_CASE("dispatcher: a program that was not loaded is refused") {
  rig<fifo> r;
  operation op;
  op.expected = from_us(10);
  program loose("loose", {op});
  auto body = [](job_context& ctx) -> task {
    ctx.launch(*static_cast<program*>(ctx.user));
    co_return;
  };
  CHECK(has(refusal([&] { static_cast<void>(r.dispatch.add_model("m", body, &loose)); },
                    errc::bad_option),
            "model m: program loose is not loaded"));
  const model_id m = r.dispatch.add_model("m", body);
  program& loaded = r.make_program("loaded", 1, from_us(10));
  CHECK(has(refusal([&] { r.dispatch.add_replica(m, loose, loaded); }, errc::bad_option), "loose"));

  job_request q = r.request(m, r.dispatch.add_client());
  q.user = &loose;
  const std::string said = printed([&] {
    r.dispatch.submit(q);
    r.run();
  });
  CHECK(said == "gsched: job 0 failed: launch: program loose is not loaded, expected one that "
                "load() was given\n");
  REQUIRE(r.hears.ends.size() == 1);
  CHECK(r.hears.ends[0].how == job_state::failed);
}

TEST_CASE("dispatcher: a client's weight is a finite number above 0") {
  rig<fifo> r;
  for (const double w : {std::numeric_limits<double>::infinity(), std::nan(""), 0.0, -1.0})
    CHECK(has(refusal([&] { static_cast<void>(r.dispatch.add_client(w)); }, errc::bad_option),
              "client weight: "));
  CHECK(refusal([&] { static_cast<void>(r.dispatch.add_client(-1e300)); }, errc::bad_option) ==
        "client weight: -1e+300, expected a finite number above 0"); // not 301 digits
}

TEST_CASE("dispatcher: a request without an arrival arrives when it is submitted") {
  rig<fifo, arrival_listener> r;
  auto body = [](job_context&) -> task { co_return; };
  const model_id m = r.dispatch.add_model("m", body);
  program& p = r.make_program("p", 1, from_us(500));
  auto longer = [](job_context& ctx) -> task {
    ctx.launch(*static_cast<program*>(ctx.user));
    co_return;
  };
  job_request first = r.request(r.dispatch.add_model("longer", longer), r.dispatch.add_client());
  first.user = &p;
  r.dispatch.submit(first);
  r.run(); // time has passed
  REQUIRE(r.device.now() > time_point{});
  job_request q;
  q.model = m;
  q.owner = first.owner;
  r.dispatch.submit(q);
  CHECK(r.hears.arrival == r.device.now());
  q.arrival = time_point{from_us(3)};
  r.dispatch.submit(q);
  CHECK(r.hears.arrival == time_point{from_us(3)});
}

TEST_CASE("silent_listener: a failure that no listener handles is printed") {
  rig<fifo, silent_listener> r;
  auto body = [](job_context&) -> task {
    throw error(errc::bad_option, "the body's own words");
    co_return;
  };
  auto odd = [](job_context&) -> task {
    throw 7;
    co_return;
  };
  client& c = r.dispatch.add_client();
  const model_id m = r.dispatch.add_model("m", body), n = r.dispatch.add_model("n", odd);
  const std::string said = printed([&] {
    r.dispatch.submit(r.request(m, c));
    r.dispatch.submit(r.request(n, c));
    r.run();
  });
  CHECK(said == "gsched: job 0 failed: the body's own words\n"
                "gsched: job 1 failed: its body threw no std::exception\n");
}
