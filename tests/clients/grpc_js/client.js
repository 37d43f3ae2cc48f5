// SPDX-License-Identifier: Apache-2.0
//
// client.js ADDRESS PROTO: talks to a gsched_server by @grpc/grpc-js, with classes made from the
// published description of the protocol. The server has the models and tenants of
// tests/cli/network_clients.py.
'use strict';

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');

const [address, proto] = process.argv.slice(2);
const {GRPCInferenceService} = grpc.loadPackageDefinition(
    loader.loadSync(proto, {keepCase: true, longs: Number, defaults: true, oneofs: true})).inference;
const client = new GRPCInferenceService(address, grpc.credentials.createInsecure());
const code = grpc.status;
let checks = 0, failures = 0;

function expect(what, good, shown) {
  ++checks;
  if (good) return;
  ++failures;
  console.log(`FAILED: ${what}: ${JSON.stringify(shown)}`.slice(0, 600));
}

/// The response, or the error, of a unary call, and the call itself.
function start(method, request, {metadata = {}, ...options} = {}) {
  const with_it = new grpc.Metadata();
  for (const [name, value] of Object.entries(metadata)) with_it.set(name, value);
  let call;
  const end = new Promise(resolve => {
    call = client[method](request, with_it, {deadline: Date.now() + 20000, ...options},
                          (error, response) => resolve(error ? {error} : {response}));
  });
  return {call, end};
}
const ask = (method, request, how) => start(method, request, how).end;

const raw = (more = {}) => ({
  model_name: 'lenet_b1', id: '7',
  inputs: [{name: 'input', datatype: 'FP32', shape: [1, 784]}],
  raw_input_contents: [Buffer.alloc(3136, 1)], ...more,
});
const big = (more = {}) => ({model_name: 'big', ...more});

async function facts() {
  expect('live', (await ask('ServerLive', {})).response.live === true);
  expect('ready', (await ask('ServerReady', {})).response.ready === true);
  const server = (await ask('ServerMetadata', {})).response;
  expect('server metadata', server.name === 'gsched_server' && server.extensions.length > 0, server);
  expect('model ready', (await ask('ModelReady', {name: 'typed'})).response.ready === true);
  const model = (await ask('ModelMetadata', {name: 'typed'})).response;
  expect('model metadata', model.platform === 'gsched_simulated_profile' && model.inputs[0].datatype === 'INT8' &&
         JSON.stringify(model.inputs[0].shape) === '[2,2]' && model.outputs[1].name === 'y', model);
  const index = (await ask('RepositoryIndex', {})).response;
  expect('index', index.models.map(m => m.name).join() === 'big,lenet_b1,typed', index);
  const healthy = await new Promise(resolve => client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check', b => b, b => b, Buffer.alloc(0), (error, b) => resolve(error || b)));
  expect('health', Buffer.isBuffer(healthy) && healthy.equals(Buffer.from([8, 1])), healthy);
}

async function inference() {
  const {response: a, error} = await ask('ModelInfer', raw());
  expect('raw tensors', !error && a.id === '7' && a.model_name === 'lenet_b1' && a.outputs.length === 1 &&
         a.outputs[0].datatype === 'FP32' && a.outputs[0].shape.join() === '1,10' &&
         a.raw_output_contents.length === 1 && a.raw_output_contents[0].equals(Buffer.alloc(40)) &&
         a.parameters.latency_us.int64_param > 20, error || a);
  const {response: t, error: wrong} = await ask('ModelInfer', {
    model_name: 'typed',
    inputs: [{name: 'b', datatype: 'BOOL', shape: [3], contents: {bool_contents: [true, false, true]}},
             {name: 'a', datatype: 'INT8', shape: [2, 2], contents: {int_contents: [1, -128, 127, 0]}}],
    outputs: [{name: 'y'}, {name: 'x'}],
    parameters: {tenant: {string_param: 'alice'}, priority: {string_param: 'real_time'}},
  });
  expect('typed tensors', !wrong && t.outputs.map(o => o.name).join() === 'y,x' && t.outputs[1].datatype === 'INT64' &&
         t.raw_output_contents[0].equals(Buffer.alloc(1)) && t.raw_output_contents[1].equals(Buffer.alloc(16)), wrong || t);
  const refusals = [
    [code.NOT_FOUND, raw({model_name: 'nosuch'})], [code.NOT_FOUND, raw({model_version: '2'})],
    [code.INVALID_ARGUMENT, raw({raw_input_contents: [Buffer.alloc(3135)]})], [code.INVALID_ARGUMENT, raw({inputs: []})],
    [code.PERMISSION_DENIED, raw({parameters: {tenant: {string_param: 'small'}, priority: {string_param: 'real_time'}}})],
  ];
  for (const [status, request] of refusals) {
    const {error} = await ask('ModelInfer', request);
    expect(`status ${status}`, error && error.code === status && error.details && !error.details.includes('\n'), error);
  }
}

async function stream() {
  const all = 100, seen = new Map();
  let errors = 0;
  const call = client.ModelStreamInfer(new grpc.Metadata(), {deadline: Date.now() + 20000});
  const end = new Promise(resolve => {
    call.on('data', ({error_message, infer_response}) => {
      seen.set(infer_response.id, (seen.get(infer_response.id) || 0) + 1);
      if (error_message) ++errors;
      else if (!infer_response.raw_output_contents[0].equals(Buffer.alloc(40))) seen.set('wrong', 1);
    });
    call.on('status', resolve);
    call.on('error', () => {});
  });
  for (let i = 0; i < all; ++i) call.write(raw({id: String(i), model_name: i % 10 === 9 ? 'nosuch' : 'lenet_b1'}));
  call.end();
  const status = await end;
  expect('a stream', status.code === code.OK && seen.size === all && [...seen.values()].every(n => n === 1) && errors === all / 10,
         [status, seen.size, errors]);
}

async function limits() {
  const late = await ask('ModelInfer', big({parameters: {deadline_ms: {double_param: 0.5}}}));
  expect('a deadline that cannot be met', late.error && late.error.code === code.DEADLINE_EXCEEDED &&
         late.error.details.includes('expected at least'), late);
  const soon = await Promise.all(Array.from({length: 12}, () => ask('ModelInfer', big(), {deadline: Date.now() + 60})));
  expect('deadlines', soon.some(e => e.error) && soon.every(e => !e.error || e.error.code === code.DEADLINE_EXCEEDED),
         soon.map(e => e.error));
  const calls = Array.from({length: 12}, () => start('ModelInfer', big()));
  await new Promise(resolve => setTimeout(resolve, 20));
  for (const each of calls) each.call.cancel();
  const ends = await Promise.all(calls.map(each => each.end));
  expect('cancellation', ends.some(e => e.error) && ends.every(e => !e.error || e.error.code === code.CANCELLED), ends.map(e => e.error));
  const {root} = protobuf.parse(`syntax = "proto3"; package google.rpc;
    message Any { string type_url = 1; bytes value = 2; }
    message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
    message Duration { int64 seconds = 1; int32 nanos = 2; }
    message RetryInfo { Duration retry_delay = 1; }`);
  let over;
  for (let tries = 0; tries < 10 && !over; ++tries) { // they may come one after another
    const burst = await Promise.all(Array.from({length: 6}, () => ask('ModelInfer', big(), {metadata: {'gsched-tenant': 'small'}})));
    over = burst.map(e => e.error).find(e => e && e.code === code.RESOURCE_EXHAUSTED);
    expect('a limit lets some through', burst.some(e => !e.error), burst.map(e => e.error));
  }
  expect('RESOURCE_EXHAUSTED', over && over.details.includes("'small'"), over);
  const [details] = over ? over.metadata.get('grpc-status-details-bin') : [];
  const status = details && root.lookupType('google.rpc.Status').decode(details);
  const info = status && status.details.find(d => d.typeUrl === 'type.googleapis.com/google.rpc.RetryInfo');
  const delay = info && root.lookupType('google.rpc.RetryInfo').decode(info.value).retryDelay;
  expect('RetryInfo', delay && status.code === code.RESOURCE_EXHAUSTED && status.message === over.details &&
         Number(delay.seconds) + delay.nanos * 1e-9 > 0, status);
}

(async () => {
  for (const part of [facts, inference, stream, limits]) await part();
  client.close();
  console.log(`${checks} checks, ${failures} failures`);
  process.exit(failures > 0 ? 1 : 0);
})().catch(e => {
  console.log(`FAILED: ${e.stack}`);
  process.exit(1);
});
