// SPDX-License-Identifier: Apache-2.0
#include <gsched/gsched_c.h>

#include "channel_options.hpp"
#include "cuda_events.hpp"
#include "ingest.hpp"
#include "model_check.hpp"
#include "plan_settings.hpp"
#include "profile.hpp"
#include "refusal.hpp"
#include "serve_on_gpu.hpp"
#include "serve_plan_on_gpu.hpp"
#include "server.hpp"
#include "settings.hpp"
#include "slow_downs.hpp"
#include "structs.hpp"
#include "ticket.hpp"

#include <gsched/channel/host.hpp>
#include <gsched/core/id.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/host_memory.hpp>
#include <gsched/cuda/memory_kind.hpp>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>

using gsched::abi::read_struct;
using gsched::abi::refusal;
using gsched::abi::server;
using gsched::abi::write_struct;

struct gsched_server : server {
  using server::server;
  int gpu = 0;
};

struct gsched_channel {
  gsched_server& of;
  std::unique_ptr<gsched::channel::host> host;
};

namespace {

thread_local std::string last_error;

/// What the first callers knew of the structs that have grown.
constexpr std::size_t first_options = offsetof(gsched_server_options, time_driver);
static_assert(first_options == 112);
constexpr std::size_t first_statistics = offsetof(gsched_statistics, preemptions);
static_assert(first_statistics == 120);
constexpr std::size_t first_model = offsetof(gsched_model, excludes);
static_assert(first_model == 48);
constexpr std::size_t first_request = offsetof(gsched_request, wait_event);
static_assert(first_request == 72);
constexpr std::size_t first_report = offsetof(gsched_report, code);
static_assert(first_report == 56);
constexpr std::size_t first_plan_options = offsetof(gsched_plan_options, profiles);
static_assert(first_plan_options == 120);
constexpr std::size_t first_plan_report = offsetof(gsched_plan_report, warning);
static_assert(first_plan_report == 304);
constexpr std::size_t first_plan_model_report = offsetof(gsched_plan_model_report, time_factor);
static_assert(first_plan_model_report == 152);

int failed(gsched_code code, const char* line) noexcept {
  gsched::detail::set_line(last_error, line);
  return code;
}

/// Calls f, which gives a code with its line already kept, or throws.
template <class F>
int guarded(F f) noexcept {
  try {
    return f();
  } catch (...) {
    try {
      const refusal r = gsched::abi::refusal_of_current_exception();
      return failed(r.code(), r.what());
    } catch (...) {
      last_error.clear();
      return GSCHED_OUT_OF_MEMORY;
    }
  }
}

template <class T>
T& expected(T* p, const char* what) {
  if (p == nullptr) throw refusal(GSCHED_BAD_ARGUMENT, std::string(what) + ": NULL");
  return *p;
}

} // namespace

extern "C" {

const char* gsched_version(void) { return GSCHED_VERSION; }
uint32_t gsched_abi(void) { return GSCHED_ABI; }
const char* gsched_last_error(void) { return last_error.c_str(); }
uint64_t gsched_now_ns(void) {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
const char* gsched_policy_names(void) {
  try {
    return gsched::abi::policy_names().c_str();
  } catch (...) {
    return "";
  }
}

int gsched_default_options(gsched_server_options* options) {
  return guarded([&] {
    write_struct(options, "options", gsched::abi::default_options(), first_options);
    return GSCHED_OK;
  });
}

int gsched_load_slow_downs(const char* pairs, gsched_slow_down** slow_downs, uint32_t* count) {
  return guarded([&] {
    expected(slow_downs, "slow_downs") = nullptr;
    uint32_t& rows = expected(count, "count");
    const gsched::named_slowdowns all = gsched::abi::measured_slow_downs(pairs);
    *slow_downs = gsched::abi::in_one_piece(all);
    rows = static_cast<uint32_t>(all.size());
    return GSCHED_OK;
  });
}

int gsched_predict_slow_downs(const char* profiles, const char* law, const char* models,
                              gsched_slow_down** slow_downs, uint32_t* count) {
  return guarded([&] {
    expected(slow_downs, "slow_downs") = nullptr;
    uint32_t& rows = expected(count, "count");
    const gsched::abi::predicted_slowdowns found =
        gsched::abi::predicted_slow_downs(profiles, law, models);
    *slow_downs = gsched::abi::in_one_piece(found.all, found.beyond_fit);
    rows = static_cast<uint32_t>(found.all.size());
    return GSCHED_OK;
  });
}

const char* gsched_slow_downs_beyond_fit(const gsched_slow_down* slow_downs) {
  return slow_downs == nullptr ? "" : gsched::abi::line_of(slow_downs);
}

void gsched_free_slow_downs(gsched_slow_down* slow_downs) { gsched::abi::free_rows(slow_downs); }

int gsched_server_open(const gsched_server_options* options, gsched_server** out) {
  return guarded([&] {
    expected(out, "server") = nullptr;
    const auto o = read_struct(options, "options", gsched::abi::default_options(), first_options);
    const gsched::abi::settings how = gsched::abi::settings_of(o);
    static_cast<void>(gsched::cuda::find_gpu(how.gpu)); // says in one line what is absent
    auto made = std::make_unique<gsched_server>(
        gsched::abi::serve_on_gpu(how), gsched::cuda::kind_of_memory,
        [gpu = how.gpu](void* stream) { return gsched::abi::mark_stream(gpu, stream); });
    made->gpu = how.gpu;
    *out = made.release();
    return GSCHED_OK;
  });
}

int gsched_server_close(gsched_server* s, gsched_close_how how, int64_t timeout_us) {
  return guarded([&] {
    if (how != GSCHED_DRAIN && how != GSCHED_CANCEL)
      throw refusal(GSCHED_BAD_ARGUMENT, "how: expected GSCHED_DRAIN or GSCHED_CANCEL");
    expected(s, "server").close(how, timeout_us);
    return GSCHED_OK;
  });
}

int gsched_server_release(gsched_server* s) {
  return guarded([&]() -> int {
    if (s == nullptr) return GSCHED_OK;
    int code = GSCHED_OK;
    try {
      s->close(GSCHED_CANCEL, 0);
    } catch (...) {
      const refusal r = gsched::abi::refusal_of_current_exception();
      if (r.code() == GSCHED_BAD_ARGUMENT) throw; // the wrong thread
      code = failed(r.code(), r.what());
    }
    delete s;
    return code;
  });
}

int gsched_add_client(gsched_server* s, double weight, uint32_t* client) {
  return guarded([&] {
    uint32_t& out = expected(client, "client");
    if (!(weight > 0 && weight <= 1e9))
      throw refusal(GSCHED_BAD_ARGUMENT, "weight: expected more than 0 and at most 1e9");
    out = expected(s, "server").add_client(weight);
    return GSCHED_OK;
  });
}

int gsched_add_model(gsched_server* s, const gsched_model* what, uint32_t* model) {
  return guarded([&] {
    uint32_t& out = expected(model, "model");
    gsched_server& to = expected(s, "server");
    const auto m = read_struct(what, "gsched_model", gsched_model{}, first_model);
    gsched::abi::check_model(m);
    out = to.add_model({m.excludes, m.excludes_count},
                       [&] { return gsched::abi::ingest(m, to.gpu); });
    return GSCHED_OK;
  });
}

int gsched_remove_model(gsched_server* s, uint32_t model, int64_t timeout_us) {
  return guarded([&] {
    expected(s, "server").remove_model(model, timeout_us);
    return GSCHED_OK;
  });
}

int gsched_get_model_facts(gsched_server* s, uint32_t model, gsched_model_facts* facts) {
  return guarded([&] {
    write_struct(facts, "facts", expected(s, "server").facts(model));
    return GSCHED_OK;
  });
}

int gsched_submit(gsched_server* s, const gsched_request* request, gsched_ticket** ticket) {
  return guarded([&] {
    if (ticket != nullptr) *ticket = nullptr;
    const auto r = read_struct(request, "request", gsched_request{}, first_request);
    expected(s, "server").submit(r, ticket);
    return GSCHED_OK;
  });
}

int gsched_wait(gsched_ticket* ticket, int64_t timeout_us) {
  return guarded([&] {
    if (server::wait(expected(ticket, "ticket"), timeout_us)) return GSCHED_OK;
    throw refusal(GSCHED_TIMED_OUT, "the request has not ended in time");
  });
}

int gsched_cancel(gsched_ticket* ticket) {
  return guarded([&] {
    if (server::cancel(expected(ticket, "ticket"))) return GSCHED_OK;
    throw refusal(GSCHED_ENDED, "the request has ended already");
  });
}

int gsched_status(const gsched_ticket* ticket, gsched_report* report) {
  return guarded([&] {
    write_struct(report, "report", server::status(expected(ticket, "ticket")), first_report);
    return GSCHED_OK;
  });
}

void gsched_release(gsched_ticket* ticket) {
  if (ticket != nullptr) server::release(*ticket);
}

int gsched_watch(gsched_ticket* ticket) {
  return guarded([&] {
    if (server::watch(expected(ticket, "ticket"))) return GSCHED_OK;
    throw refusal(GSCHED_ENDED, "the request has ended already");
  });
}

int gsched_collect(gsched_server* s, gsched_ticket** tickets, uint32_t most, uint32_t* written,
                   int64_t timeout_us) {
  return guarded([&] {
    expected(written, "written") = 0;
    expected(tickets, "tickets");
    if (most == 0) throw refusal(GSCHED_BAD_ARGUMENT, "most: expected at least 1");
    *written = expected(s, "server").collect(tickets, most, timeout_us);
    return GSCHED_OK;
  });
}

int gsched_get_statistics(gsched_server* s, gsched_statistics* statistics) {
  return guarded([&] {
    write_struct(statistics, "statistics", expected(s, "server").statistics(), first_statistics);
    return GSCHED_OK;
  });
}

int gsched_default_channel_options(gsched_channel_options* options) {
  return guarded([&] {
    write_struct(options, "options", gsched::abi::default_channel_options());
    return GSCHED_OK;
  });
}

int gsched_channel_open(gsched_server* s, const char* socket, const gsched_channel_options* options,
                        gsched_channel** out) {
  return guarded([&] {
    expected(out, "channel") = nullptr;
    gsched_server& to = expected(s, "server");
    const auto defaults = gsched::abi::default_channel_options();
    const auto o = options == nullptr ? defaults : read_struct(options, "options", defaults);
    gsched::channel::host_options how =
        gsched::abi::host_options_of(o, &expected(socket, "socket"));
    how.pin = [gpu = to.gpu](std::span<std::byte> m) { gsched::cuda::pin_memory(gpu, m); };
    how.unpin = [gpu = to.gpu](std::span<std::byte> m) { gsched::cuda::unpin_memory(gpu, m); };
    *out =
        std::make_unique<gsched_channel>(gsched_channel{to, to.listen(std::move(how))}).release();
    return GSCHED_OK;
  });
}

int gsched_channel_offer(gsched_channel* channel, uint32_t model, const char* name) {
  return guarded([&] {
    gsched_channel& c = expected(channel, "channel");
    c.of.offer(*c.host, model, name == nullptr ? "" : name);
    return GSCHED_OK;
  });
}

int gsched_channel_withdraw(gsched_channel* channel, uint32_t model) {
  return guarded([&] {
    expected(channel, "channel").host->withdraw(gsched::model_id{model});
    return GSCHED_OK;
  });
}

int gsched_channel_close(gsched_channel* channel) {
  return guarded([&] {
    delete channel;
    return GSCHED_OK;
  });
}

int gsched_profile_graph(void* graph, const gsched_profile_options* options, const char* path) {
  return guarded([&] {
    gsched_profile_options defaults{};
    defaults.batch = 1;
    gsched::abi::write_profile_of(graph, read_struct(options, "options", defaults), path);
    return GSCHED_OK;
  });
}

int gsched_default_plan_options(gsched_plan_options* options) {
  return guarded([&] {
    write_struct(options, "options", gsched::abi::default_plan_options(), first_plan_options);
    return GSCHED_OK;
  });
}

int gsched_plan_open(const gsched_plan_options* options, const gsched_plan_model* models,
                     uint32_t count, gsched_server** out) {
  return guarded([&] {
    expected(out, "server") = nullptr;
    const auto o =
        read_struct(options, "options", gsched::abi::default_plan_options(), first_plan_options);
    const gsched::abi::plan_settings how = gsched::abi::plan_settings_of(o);
    auto [serves, notes] = gsched::abi::serve_plan_on_gpu(how, models, count);
    auto made = std::make_unique<gsched_server>(
        std::move(serves),
        [gpu = how.gpus.front()](void* stream) { return gsched::abi::mark_stream(gpu, stream); },
        std::move(notes));
    made->gpu = how.gpus.front();
    *out = made.release();
    return GSCHED_OK;
  });
}

int gsched_get_plan_report(gsched_server* s, gsched_plan_report* report) {
  return guarded([&] {
    write_struct(report, "report", expected(s, "server").plan_report(), first_plan_report);
    return GSCHED_OK;
  });
}

int gsched_get_plan_model_report(gsched_server* s, uint32_t model,
                                 gsched_plan_model_report* report) {
  return guarded([&] {
    write_struct(report, "report", expected(s, "server").plan_model_report(model),
                 first_plan_model_report);
    return GSCHED_OK;
  });
}

} // extern "C"
