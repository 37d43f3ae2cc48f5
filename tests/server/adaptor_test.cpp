// SPDX-License-Identifier: Apache-2.0
#include <gsched/server.hpp>

#include <gsched/core/error.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/sim/paced_device.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>

using namespace gsched;

namespace {

const std::string adaptors = GSCHED_ADAPTORS;

std::string refusal_of(const std::string& file, errc code) {
  try {
    const adaptor_library none(file);
  } catch (const error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "nothing was refused";
}

/// A server with the adaptor that does what `how` says.
struct adapting {
  explicit adapting(const std::string& how) {
    static const adaptor_library library(adaptors + "faulty.so");
    adaptor_context context;
    context.device = "sim:h200";
    context.instances = 2;
    context.parameters = how;
    model = it.add_model({}, [&] {
      return std::make_unique<adapted_model>("faulty", library.make(), std::move(context));
    });
  }
  request_result run(std::span<std::byte> payload) {
    return it.submit({.model = model, .client = it.add_client(), .payload = payload}).wait();
  }

  server it{[] { return sim::paced_device(sim::h200()); }, [] { return fifo(); }};
  model_id model{};
};

/// Flags, x, y and n, one behind the other; x is aligned.
struct payload {
  alignas(8) std::array<std::byte, 48> around{};
  std::span<std::byte> bytes = std::span(around).subspan(5, 3 + 16 + 16 + 2);

  payload() {
    bytes[0] = bytes[2] = std::byte{1};
    const double x[2] = {1.5, -4};
    std::memcpy(&bytes[3], x, sizeof x);
  }
};

} // namespace

TEST_CASE("an adaptor computes, with tensors in the payload") {
  adapting on("");
  payload p;
  const request_result r = on.run(p.bytes);
  CHECK_MESSAGE(r.status == request_status::finished, r.error);
  double y[2];
  std::memcpy(y, &p.bytes[19], sizeof y);
  CHECK(y[0] == 3);
  CHECK(y[1] == -8);
  CHECK(p.bytes[35] == std::byte{2}); // flags that are set
  CHECK(on.run(std::span(p.around).subspan(4, 37)).error ==
        "tensor x: not aligned, expected a multiple of 8 bytes");
  CHECK(on.run(p.bytes.first(5)).error == "faulty: a payload of 5 bytes, expected 37");
  CHECK(on.it.model(on.model).facts.expected == from_us(10));
  on.it.remove_model(on.model);
}

TEST_CASE("what an adaptor throws ends its request, or refuses the model, in one line") {
  payload p;
  const auto fails = [&](const char* how, const std::string& line) {
    adapting on(how);
    for (int i = 0; i < 3; ++i) { // its instance is free again
      const request_result r = on.run(p.bytes);
      CHECK(r.status == request_status::failed);
      CHECK(r.error == line);
    }
  };
  fails("run", "at once");
  fails("later", "later, expected no such thing");
  fails("tensor", "input 2, expected one of 2");
  fails("type", "tensor x: elements of 4 bytes, expected FP64");
  const auto refuses = [](const char* how) {
    try {
      adapting on(how);
    } catch (const error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refuses("init") == "init: no weights here");
  CHECK(refuses("programs") == "init: has added 0 programs, expected one for each of 2 instances");
  CHECK(refuses("sizes").starts_with("init: has added programs of different operations"));
}

TEST_CASE("a library that is no adaptor of this version is refused in one line") {
  for (const auto& [file, code, text] :
       {std::tuple<std::string, errc, const char*>{"wrong0.so", errc::io, "no function"},
        {"wrong1.so", errc::io, "something else"},
        {"wrong2.so", errc::bad_option, "interface 999, not 1, expected"},
        {"wrong3.so", errc::bad_option, "built by another compiler, not "},
        {"wrong4.so", errc::bad_option, "built with other headers, expected"},
        {"none.so", errc::io, "No such file"},
        {"../../CMakeCache.txt", errc::io, "adaptor "}}) {
    const std::string line = refusal_of(adaptors + file, code);
    CHECK_MESSAGE(line.find(text) != line.npos, line);
    CHECK_MESSAGE(line.find(", expected a shared library with GSCHED_ADAPTOR") != line.npos, line);
    CHECK(line.find('\n') == line.npos);
  }
  CHECK(refusal_of("libm.so.6", errc::io).find("./libm.so.6") != std::string::npos); // not there
}

TEST_CASE("tensors of an adaptor") {
  CHECK(adaptor_tensor{"x", "FP16", {2, 3}}.bytes() == 12);
  CHECK(adaptor_tensor{"x", "INT64", {}}.bytes() == 8);
  CHECK_THROWS_WITH(static_cast<void>(adaptor_tensor{"x", "BYTES", {1}}.bytes()),
                    "tensor x: datatype BYTES, expected BOOL, UINT8, ... or FP64");
  CHECK_THROWS(static_cast<void>(adaptor_tensor{"x", "INT8", {0}}.bytes()));
  CHECK_THROWS(static_cast<void>(adaptor_tensor{"x", "INT8", {1 << 30, 1 << 30}}.bytes()));
  const adaptor_signature two{{{"a", "FP32", {2}}, {"b", "UINT8", {4}}}, {{"y", "FP32", {1}}}};
  alignas(4) std::array<std::byte, 16> bytes{};
  const adaptor_request r(two, bytes);
  CHECK(r.input(1).data() == bytes.data() + 8);
  CHECK(r.output<float>(0).size() == 1);
  CHECK(static_cast<const void*>(r.output(0).data()) == bytes.data() + 12);
  CHECK_THROWS_WITH(static_cast<void>(r.input(2)), "input 2, expected one of 2");
  CHECK_THROWS_WITH(static_cast<void>(r.input<double>(0)),
                    "tensor a: elements of 8 bytes, expected FP32");
}
