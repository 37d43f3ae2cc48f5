/* SPDX-License-Identifier: Apache-2.0 */
/* Serves requests with data by a plan, in C: batches of a captured graph on partitions of a GPU. */
#define _POSIX_C_SOURCE 200809L
#include <gsched/gsched_c.h>

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A request has `floats` numbers as input, and three times each as output. Batches are of 1, 2, 4 and
 * 8 requests; as many partitions can run one at once as there are copies of its graph. */
enum { floats = 1024, sizes = 4, copies = 4, all_graphs = sizes * copies, requests = 64 };

/* As nvcc makes it of out[i] = 3 * in[i], so that a C compiler is enough. */
static const char scale_ptx[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
                                ".visible .entry scale(.param .u64 in, .param .u64 out) {\n"
                                "  .reg .f32 %x;\n"
                                "  .reg .b32 %block, %threads, %thread, %i;\n"
                                "  .reg .b64 %from, %to, %at;\n"
                                "  ld.param.u64 %from, [in];\n"
                                "  ld.param.u64 %to, [out];\n"
                                "  mov.u32 %block, %ctaid.x;\n"
                                "  mov.u32 %threads, %ntid.x;\n"
                                "  mov.u32 %thread, %tid.x;\n"
                                "  mad.lo.s32 %i, %block, %threads, %thread;\n"
                                "  mul.wide.u32 %at, %i, 4;\n"
                                "  add.s64 %from, %from, %at;\n"
                                "  add.s64 %to, %to, %at;\n"
                                "  ld.global.f32 %x, [%from];\n"
                                "  mul.f32 %x, %x, 0f40400000;\n"
                                "  st.global.f32 [%to], %x;\n"
                                "  ret;\n"
                                "}\n";

static char table[] = "/tmp/c_plan_server.XXXXXX"; /* of latencies; removed once it was read */

static void fail(const char* what, const char* why) {
  fprintf(stderr, "c_plan_server: %s: %s\n", what, why);
  remove(table);
  _Exit(1); /* the server's thread may run */
}
static void cuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(what, cudaGetErrorString(code));
}
static void ok(int code, const char* what) {
  if (code != GSCHED_OK) fail(what, gsched_last_error());
}

/* What a batch takes on so many SMs. A real one is measured: `measure` writes it. */
static void write_table(void) {
  const int file = mkstemp(table);
  FILE* const to = file < 0 ? NULL : fdopen(file, "w");
  if (to == NULL) fail(table, "cannot be written");
  fprintf(to, "model,batch,sms,latency_us\n");
  for (int batch = 1; batch <= 8; batch *= 2)
    for (int sms = 8; sms <= 32; sms *= 2)
      fprintf(to, "scale,%d,%d,%d\n", batch, sms, 300 + 400 * batch / sms);
  if (fclose(to) != 0) fail(table, "cannot be written");
}

static cudaGraph_t capture(cudaKernel_t scale, void* in, void* out, unsigned batch) {
  cudaStream_t stream = NULL;
  cudaGraph_t graph = NULL;
  void* arguments[] = {&in, &out};
  const dim3 blocks = {batch * floats / 256, 1, 1}, threads = {256, 1, 1};
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
  cuda(cudaLaunchKernel((const void*)scale, blocks, threads, arguments, 0, stream), "launch");
  cuda(cudaStreamEndCapture(stream, &graph), "capture");
  cuda(cudaStreamDestroy(stream), "stream");
  return graph;
}

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) return fputs("c_plan_server: an argument, expected none\n", stderr), 2;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* before CUDA starts: one for each partition */
  int gpus = 0;
  cuda(cudaGetDeviceCount(&gpus), "expected a GPU and its driver");
  cudaLibrary_t code = NULL;
  cudaKernel_t scale = NULL;
  cuda(cudaLibraryLoadData(&code, scale_ptx, NULL, NULL, 0, NULL, NULL, 0), "kernel");
  cuda(cudaLibraryGetKernel(&scale, code, "scale"), "kernel");

  gsched_plan_graph graphs[all_graphs] = {{0}};
  gsched_buffer in[all_graphs], out[all_graphs];
  for (int i = 0; i < all_graphs; ++i) {
    const uint32_t batch = 1u << i % sizes;
    in[i].bytes = out[i].bytes = batch * floats * sizeof(float);
    cuda(cudaMalloc(&in[i].device, in[i].bytes), "memory");
    cuda(cudaMalloc(&out[i].device, out[i].bytes), "memory");
    graphs[i].size = sizeof graphs[i];
    graphs[i].batch = batch;
    graphs[i].graph = capture(scale, in[i].device, out[i].device, batch);
    graphs[i].inputs = &in[i];
    graphs[i].outputs = &out[i];
  }

  write_table();
  gsched_plan_options options = {.size = sizeof options};
  ok(gsched_default_plan_options(&options), "options");
  options.table = table;
  options.sms = 32;    /* the most that the table has */
  options.replans = 0; /* one plan, for the rate below */
  const gsched_plan_model model = {.size = sizeof model,
                                   .graphs_count = all_graphs,
                                   .graphs = graphs,
                                   .name = "scale",
                                   .inputs = 1,
                                   .outputs = 1,
                                   .slo_us = 500e3,
                                   .rate = 4000};
  gsched_server* server = NULL;
  ok(gsched_plan_open(&options, &model, 1, &server), "plan");
  remove(table);

  float *x = NULL, *y = NULL; /* pinned: the GPU copies by itself */
  cuda(cudaMallocHost((void**)&x, sizeof(float) * requests * floats), "pinned memory");
  cuda(cudaMallocHost((void**)&y, sizeof(float) * requests * floats), "pinned memory");
  for (int i = 0; i < requests * floats; ++i) x[i] = (float)i;
  gsched_ticket* tickets[requests];
  for (int r = 0; r < requests; ++r) {
    const void* from[] = {x + r * floats};
    void* into[] = {y + r * floats};
    const gsched_request request = {.size = sizeof request, .inputs = from, .outputs = into};
    ok(gsched_submit(server, &request, &tickets[r]), "request");
  }
  int wrong = 0;
  for (int r = 0; r < requests; ++r) {
    gsched_report report = {.size = sizeof report};
    ok(gsched_wait(tickets[r], 60 * 1000000), "request");
    ok(gsched_status(tickets[r], &report), "request");
    if (report.state != GSCHED_FINISHED) fail("request", report.error);
    gsched_release(tickets[r]);
    for (int i = r * floats; i < (r + 1) * floats; ++i) wrong += y[i] != 3 * x[i];
  }
  gsched_plan_report plan = {.size = sizeof plan};
  ok(gsched_get_plan_report(server, &plan), "report");
  ok(gsched_server_close(server, GSCHED_DRAIN, 10 * 1000000), "end");
  ok(gsched_server_release(server), "end");
  printf("%d requests answered in %llu batches on %u partitions of %u SMs, %d numbers wrong\n",
         requests, (unsigned long long)plan.batches, plan.partitions, plan.sms, wrong);
  return wrong != 0 || fflush(stdout) != 0;
}
