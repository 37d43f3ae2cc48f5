/* SPDX-License-Identifier: Apache-2.0 */
/* The header in plain C: every struct, and every function by its type. */
#include <gsched/gsched_c.h>

static void done(void* user, gsched_ticket* ticket) {
  (void)user;
  gsched_release(ticket);
}

int use(gsched_server* server, const gsched_buffer* in, void* graph);
int use(gsched_server* server, const gsched_buffer* in, void* graph) {
  const char* (*version)(void) = gsched_version;
  uint32_t (*abi)(void) = gsched_abi;
  const char* (*last_error)(void) = gsched_last_error;
  uint64_t (*now)(void) = gsched_now_ns;
  const char* (*names)(void) = gsched_policy_names;
  int (*defaults)(gsched_server_options*) = gsched_default_options;
  int (*open)(const gsched_server_options*, gsched_server**) = gsched_server_open;
  int (*load)(const char*, gsched_slow_down**, uint32_t*) = gsched_load_slow_downs;
  int (*predict)(const char*, const char*, const char*, gsched_slow_down**, uint32_t*) =
      gsched_predict_slow_downs;
  const char* (*beyond)(const gsched_slow_down*) = gsched_slow_downs_beyond_fit;
  void (*unload)(gsched_slow_down*) = gsched_free_slow_downs;
  int (*close)(gsched_server*, gsched_close_how, int64_t) = gsched_server_close;
  int (*release)(gsched_server*) = gsched_server_release;
  int (*client)(gsched_server*, double, uint32_t*) = gsched_add_client;
  int (*add)(gsched_server*, const gsched_model*, uint32_t*) = gsched_add_model;
  int (*remove)(gsched_server*, uint32_t, int64_t) = gsched_remove_model;
  int (*facts_of)(gsched_server*, uint32_t, gsched_model_facts*) = gsched_get_model_facts;
  int (*submit)(gsched_server*, const gsched_request*, gsched_ticket**) = gsched_submit;
  int (*wait)(gsched_ticket*, int64_t) = gsched_wait;
  int (*cancel)(gsched_ticket*) = gsched_cancel;
  int (*status)(const gsched_ticket*, gsched_report*) = gsched_status;
  int (*watch)(gsched_ticket*) = gsched_watch;
  int (*collect)(gsched_server*, gsched_ticket**, uint32_t, uint32_t*, int64_t) = gsched_collect;
  int (*count)(gsched_server*, gsched_statistics*) = gsched_get_statistics;
  int (*listen)(gsched_server*, const char*, const gsched_channel_options*, gsched_channel**) =
      gsched_channel_open;
  int (*profile)(void*, const gsched_profile_options*, const char*) = gsched_profile_graph;
  int (*plan_defaults)(gsched_plan_options*) = gsched_default_plan_options;
  int (*plan_open)(const gsched_plan_options*, const gsched_plan_model*, uint32_t, gsched_server**) =
      gsched_plan_open;
  int (*plan)(gsched_server*, gsched_plan_report*) = gsched_get_plan_report;
  int (*plan_of)(gsched_server*, uint32_t, gsched_plan_model_report*) = gsched_get_plan_model_report;
  gsched_server_options options = {0};
  gsched_instance instance = {0};
  gsched_model model = {0};
  gsched_request request = {0};
  gsched_report report = {0};
  gsched_statistics statistics = {0};
  gsched_model_facts facts = {0};
  gsched_profile_options profiling = {0};
  gsched_channel_options channel = {0};
  gsched_plan_options planning = {0};
  gsched_plan_graph batch = {0};
  gsched_plan_model planned = {0};
  gsched_plan_report in_force = {0};
  gsched_plan_model_report served = {0};
  gsched_slow_down_limit limit = {"model", 1.5};
  gsched_slow_down* slow_downs = NULL;
  gsched_ticket* ticket = NULL;
  gsched_channel* host = NULL;
  uint32_t n = 0;
  if (abi() != GSCHED_ABI || version() == NULL || last_error() == NULL || names() == NULL ||
      now() == 0)
    return GSCHED_INTERNAL;
  options.size = (uint32_t)sizeof options;
  instance.size = (uint32_t)sizeof instance;
  instance.graph = graph;
  instance.inputs = in;
  model.instances = &instance;
  request.done = done;
  profiling.model = "m";
  channel.size = (uint32_t)sizeof channel;
  planning.size = (uint32_t)sizeof planning;
  planning.table = "latency.csv";
  planning.profiles = NULL;
  planning.libraries = NULL;
  options.slow_down_limits = &limit;
  options.slow_down_limits_count = 1;
  batch.size = (uint32_t)sizeof batch;
  batch.batch = 4;
  batch.graph = graph;
  batch.inputs = in;
  planned.graphs = &batch;
  if ((plan_defaults(&planning) | plan_open(&planning, &planned, 1, &server) | plan(server, &in_force) |
       plan_of(server, 0, &served)) != GSCHED_OK)
    return GSCHED_INTERNAL;
  if (predict("profiles", "law.json", "a_b1,b_b8", &slow_downs, &options.slow_downs_count) == GSCHED_OK)
    unload(slow_downs);
  if (load("corun_pairs.csv", &slow_downs, &options.slow_downs_count) == GSCHED_OK && *beyond(slow_downs) == 0)
    unload(slow_downs);
  return defaults(&options) | open(&options, &server) | client(server, 1.0, &n) |
         add(server, &model, &n) | facts_of(server, n, &facts) | remove(server, n, 0) | submit(server, &request, &ticket) |
         wait(ticket, -1) | cancel(ticket) | status(ticket, &report) |
         watch(ticket) | collect(server, &ticket, 1, &n, 0) | count(server, &statistics) |
         listen(server, "@m", &channel, &host) | profile(graph, &profiling, "p.json") | close(server, GSCHED_DRAIN, -1) | release(server);
}
