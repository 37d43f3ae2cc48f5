// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched_client.h>

#include "refusal.hpp"
#include "structs.hpp"

#include <gsched/channel/client.hpp>
#include <gsched/channel/layout.hpp>
#include <gsched/channel/shared_client.hpp>
#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace channel = gsched::channel;
using gsched::errc;
using gsched::abi::read_struct;
using gsched::abi::refusal;
using gsched::abi::write_struct;

struct gsched_client : channel::shared_client {
  using shared_client::shared_client;
};

namespace {

thread_local std::string last_error;

static_assert(sizeof(gsched_client_options) == 48 && sizeof(gsched_client_model) == 216);
static_assert(sizeof(gsched_client_request) == 16 && sizeof(gsched_client_result) == 232);

// The numbers of the protocol are those of the header, and codes those of gsched_c.h.
template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<std::uint32_t>(a) == static_cast<std::uint32_t>(b);
}
static_assert(same(channel::outcome::finished, GSCHED_CLIENT_FINISHED) &&
              same(channel::outcome::failed, GSCHED_CLIENT_FAILED) &&
              same(channel::outcome::rejected, GSCHED_CLIENT_REJECTED) &&
              same(channel::outcome::cancelled, GSCHED_CLIENT_CANCELLED) &&
              same(channel::outcome::refused, GSCHED_CLIENT_REFUSED));
static_assert(same(channel::reason::unknown_model, GSCHED_CLIENT_UNKNOWN_MODEL) &&
              same(channel::reason::bad_range, GSCHED_CLIENT_BAD_RANGE) &&
              same(channel::reason::wrong_size, GSCHED_CLIENT_WRONG_SIZE) &&
              same(channel::reason::overlap, GSCHED_CLIENT_OVERLAP) &&
              same(channel::reason::over_in_flight, GSCHED_CLIENT_OVER_IN_FLIGHT) &&
              same(channel::reason::over_bytes, GSCHED_CLIENT_OVER_BYTES) &&
              same(channel::reason::over_rate, GSCHED_CLIENT_OVER_RATE) &&
              same(channel::reason::bad_option, GSCHED_CLIENT_BAD_OPTION) &&
              same(channel::reason::server_closed, GSCHED_CLIENT_SERVER_CLOSED) &&
              same(channel::reason::device_failed, GSCHED_CLIENT_DEVICE_FAILED) &&
              same(channel::reason::job_failed, GSCHED_CLIENT_JOB_FAILED) &&
              same(channel::reason::out_of_memory, GSCHED_CLIENT_SERVER_OUT_OF_MEMORY) &&
              same(channel::reason::deadline, GSCHED_CLIENT_DEADLINE) &&
              same(channel::reason::by_client, GSCHED_CLIENT_BY_CLIENT) &&
              same(channel::reason::model_removed, GSCHED_CLIENT_MODEL_REMOVED));
static_assert(same(GSCHED_BAD_ARGUMENT, GSCHED_CLIENT_BAD_ARGUMENT) &&
              same(GSCHED_OUT_OF_MEMORY, GSCHED_CLIENT_OUT_OF_MEMORY) &&
              same(GSCHED_CLOSED, GSCHED_CLIENT_CLOSED) &&
              same(GSCHED_TIMED_OUT, GSCHED_CLIENT_TIMED_OUT) &&
              same(GSCHED_IO, GSCHED_CLIENT_IO) && same(GSCHED_INTERNAL, GSCHED_CLIENT_INTERNAL));
static_assert(same(channel::wait_by::hybrid, GSCHED_CLIENT_HYBRID) &&
              same(channel::wait_by::polling, GSCHED_CLIENT_POLLING) &&
              same(channel::wait_by::waiting, GSCHED_CLIENT_WAITING));

int failed(int code, const char* line) noexcept {
  try {
    last_error = line;
    std::replace(last_error.begin(), last_error.end(), '\n', ' ');
  } catch (...) {
    last_error.clear();
  }
  return code;
}

[[nodiscard]] int code_of(const std::error_code& e) noexcept {
  if (e.category() != gsched::category()) return GSCHED_CLIENT_IO; // of the system
  switch (static_cast<errc>(e.value())) {
  case errc::too_small: return GSCHED_CLIENT_FULL;
  case errc::closed: return GSCHED_CLIENT_CLOSED;
  case errc::timed_out: return GSCHED_CLIENT_TIMED_OUT;
  case errc::out_of_memory: return GSCHED_CLIENT_OUT_OF_MEMORY;
  case errc::io: return GSCHED_CLIENT_IO;
  default: return GSCHED_CLIENT_BAD_ARGUMENT;
  }
}

/// Calls f, which gives a code with its line already kept, or throws.
template <class F>
int guarded(F f) noexcept {
  try {
    return f();
  } catch (const refusal& r) {
    return failed(r.code(), r.what());
  } catch (const std::system_error& e) {
    return failed(code_of(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(GSCHED_CLIENT_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& e) {
    return failed(GSCHED_CLIENT_INTERNAL, e.what());
  } catch (...) {
    return failed(GSCHED_CLIENT_INTERNAL, "an unknown exception");
  }
}

[[noreturn]] void refuse(const std::string& line) { throw refusal(GSCHED_BAD_ARGUMENT, line); }

template <class T>
T& expected(T* p, const char* what) {
  if (p == nullptr) refuse(std::string(what) + ": NULL");
  return *p;
}

/// Microseconds, at most so many that sums do not overflow.
[[nodiscard]] gsched::duration time_of(double us, const char* what) {
  if (!(us >= 0)) refuse(std::string(what) + ": expected a number from 0");
  return gsched::duration{static_cast<std::int64_t>(std::fmin(us, 1e14) * 1e3)};
}
[[nodiscard]] gsched::duration timeout_of(std::int64_t us) noexcept {
  if (us < 0) return gsched::duration::max();
  return gsched::duration{std::min<std::int64_t>(us, 100'000'000'000'000) * 1000};
}
[[nodiscard]] double us_of(gsched::duration d) noexcept {
  return static_cast<double>(d.count()) * 1e-3;
}
template <std::size_t Size>
void set_text(char (&to)[Size], std::string_view from) noexcept {
  const std::size_t n = std::min(from.size(), Size - 1);
  std::copy_n(from.begin(), n, to);
  to[n] = '\0';
}

[[nodiscard]] gsched_client_options default_options() noexcept {
  const channel::client_options d;
  gsched_client_options o{};
  o.size = sizeof o;
  o.slots = d.slots;
  o.arena_bytes = d.arena_bytes;
  o.wait = GSCHED_CLIENT_HYBRID;
  o.poll_before_us = us_of(d.poll_before);
  o.poll_for_us = us_of(d.poll_for);
  o.connect_within_us = us_of(d.connect_within);
  return o;
}
[[nodiscard]] channel::client_options options_of(const gsched_client_options* from) {
  channel::client_options how;
  if (from == nullptr) return how;
  const auto o = read_struct(from, "options", default_options());
  how.slots = o.slots;
  how.arena_bytes = o.arena_bytes;
  if (o.wait > GSCHED_CLIENT_WAITING) refuse("wait: expected a gsched_client_wait");
  if (o.reserved != 0) refuse("options.reserved: expected 0");
  how.wait = static_cast<channel::wait_by>(o.wait);
  how.poll_before = time_of(o.poll_before_us, "poll_before_us");
  how.poll_for = time_of(o.poll_for_us, "poll_for_us");
  how.connect_within = time_of(o.connect_within_us, "connect_within_us");
  return how;
}
[[nodiscard]] channel::predict_options request_of(const gsched_client_request* from) {
  if (from == nullptr) return {};
  const auto r = read_struct(from, "request");
  if (r.real_time > 1) refuse("real_time: expected 0 or 1");
  return {.deadline = time_of(r.deadline_us, "deadline_us"), .real_time = r.real_time == 1};
}

void write_model(gsched_client_model* to, const channel::model_entry& m) {
  gsched_client_model out{};
  out.id = m.id;
  out.input_bytes = m.input_bytes;
  out.output_bytes = m.output_bytes;
  set_text(out.name, m.name);
  write_struct(to, "model", out);
}

/// A piece of the arena.
[[nodiscard]] std::span<std::byte> piece_of(const gsched_client& c, void* at, std::uint64_t bytes,
                                            const char* what) {
  const std::span<std::byte> arena = c.arena();
  if (at == nullptr && bytes == 0) return arena.first(0);
  const auto offset =
      reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(arena.data());
  if (offset >= arena.size() || bytes > arena.size() - offset)
    refuse(std::string(what) + ": outside the arena, expected a piece of gsched_client_allocate");
  return arena.subspan(offset, bytes);
}

} // namespace

extern "C" {

const char* gsched_client_version(void) { return GSCHED_VERSION; }
uint32_t gsched_client_abi(void) { return GSCHED_CLIENT_ABI; }
const char* gsched_client_last_error(void) { return last_error.c_str(); }

int gsched_client_default_options(gsched_client_options* options) {
  return guarded([&] {
    write_struct(options, "options", default_options());
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_connect(const char* socket, const gsched_client_options* options,
                          gsched_client** client) {
  return guarded([&] {
    expected(client, "client") = nullptr;
    const char& path = expected(socket, "socket");
    *client = std::make_unique<gsched_client>(&path, options_of(options)).release();
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_close(gsched_client* client) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    c.refuse_child();
    c.close();
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_release(gsched_client* client) {
  return guarded([&] {
    if (client == nullptr) return GSCHED_CLIENT_OK;
    try {
      client->refuse_child();
    } catch (const gsched::error&) {
      return GSCHED_CLIENT_OK;
    }
    delete client;
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_models(gsched_client* client, gsched_client_model* models, uint32_t most,
                         uint32_t* count) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    uint32_t& out = expected(count, "count");
    if (most > 0) static_cast<void>(expected(models, "models"));
    const std::vector<channel::model_entry> all = c.models();
    const auto n = std::min<std::size_t>(most, all.size());
    const uint32_t stride = n > 0 ? models->size : 0;
    for (std::size_t i = 0; i < n; ++i) {
      auto* const to = reinterpret_cast<unsigned char*>(models) + i * stride;
      std::memcpy(to, &stride, sizeof stride);
      write_model(reinterpret_cast<gsched_client_model*>(to), all[i]);
    }
    out = static_cast<uint32_t>(all.size());
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_find_model(gsched_client* client, const char* name, gsched_client_model* model) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    const char& wanted = expected(name, "name");
    static_cast<void>(expected(model, "model"));
    write_model(model, c.model(&wanted));
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_allocate(gsched_client* client, uint64_t bytes, void** piece) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    void*& out = expected(piece, "piece");
    out = nullptr;
    out = c.allocate(bytes).data();
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_free(gsched_client* client, void* piece) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    if (piece != nullptr) c.release(piece_of(c, piece, 0, "piece"));
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_arena(gsched_client* client, void** start, uint64_t* bytes) {
  return guarded([&] {
    const gsched_client& c = expected(client, "client");
    void*& at = expected(start, "start");
    expected(bytes, "bytes") = c.arena().size();
    at = c.arena().data();
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_predict(gsched_client* client, uint32_t model, void* payload, uint64_t bytes,
                          const gsched_client_request* how, uint64_t* id) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    const std::span<std::byte> io = piece_of(c, payload, bytes, "payload");
    const uint64_t number = c.predict(model, io, request_of(how));
    if (id != nullptr) *id = number;
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_cancel(gsched_client* client, uint64_t id) {
  return guarded([&] {
    expected(client, "client").cancel(id);
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_read_result(gsched_client* client, gsched_client_result* result,
                              int64_t timeout_us) {
  return guarded([&]() -> int {
    gsched_client& c = expected(client, "client");
    static_cast<void>(read_struct(result, "result")); // before a reply is taken for it
    const std::optional<channel::reply> r = c.read_result_within(timeout_of(timeout_us));
    if (!r) return failed(GSCHED_CLIENT_TIMED_OUT, "read_result: no result in time");
    gsched_client_result out{};
    out.outcome = static_cast<uint32_t>(r->how);
    out.id = r->id;
    out.reason = static_cast<uint32_t>(r->why);
    out.segments = r->segments;
    out.waited_us = us_of(r->waited);
    out.latency_us = us_of(r->latency);
    set_text(out.error, r->text);
    write_struct(result, "result", out);
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_in_flight(gsched_client* client, uint64_t* in_flight, uint32_t* most_in_flight) {
  return guarded([&] {
    const gsched_client& c = expected(client, "client");
    uint32_t& most = expected(most_in_flight, "most_in_flight");
    expected(in_flight, "in_flight") = c.in_flight();
    most = c.most_in_flight();
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_file(gsched_client* client, int* file) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    expected(file, "file") = c.file();
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_arm(gsched_client* client, int* ready) {
  return guarded([&] {
    gsched_client& c = expected(client, "client");
    expected(ready, "ready") = c.arm() ? 0 : 1;
    return GSCHED_CLIENT_OK;
  });
}

int gsched_client_take_wake_ups(gsched_client* client) {
  return guarded([&]() -> int {
    if (expected(client, "client").take_wake_ups()) return GSCHED_CLIENT_OK;
    return failed(GSCHED_CLIENT_CLOSED, "channel: the connection has ended, expected an open one");
  });
}

} // extern "C"
