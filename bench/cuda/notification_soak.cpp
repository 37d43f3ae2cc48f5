// SPDX-License-Identifier: Apache-2.0
// Very many notifications of mixed kernels through the ring: none may be lost, duplicated or out of
// order. Then a ring that is far too small, with flow control delaying launches; then one without
// flow control, which must count the lost words.

#include "notification_soak/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  soak::options o;
  bool quick = false;
  auto rest_ns = static_cast<unsigned>(o.rest.count());
  CLI::App app("Very many notifications of mixed kernels, on a GPU.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--words", o.words, 1.0, 1e13, "notifications of the first part");
  add("--overload-words", o.overload_words, 1.0, 1e12, "notifications of the second part");
  add("--seconds", o.seconds, 1.0, 1e6, "end the first part after that time");
  add("--rest-ns", rest_ns, 0u, 1'000'000u, "leave the ring alone after an empty look");
  add("--seed", o.seed, std::uint64_t{0}, ~std::uint64_t{0}, "of the mix of kernels");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_flag("--quick", quick, "ten million notifications, one million under overload");
  app.add_option("--json", o.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.notification_soak: {}\n", wrong.what());
    return 2;
  }
  o.rest = std::chrono::nanoseconds{rest_ns};
  if (quick) {
    o.words = 1e7;
    o.overload_words = 1e6;
  }
  try {
    return soak::run(o) ? 0 : 1;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.notification_soak: {}\n", wrong.what());
    return 1;
  }
}
