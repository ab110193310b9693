// The recorder by itself; with the SDK it is tested by tests/extension/test_javascript.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import { METADATA_KEY, ToolCallRecorder, URI, withoutToolCalls } from "../index.js";

async function recorded(work, options) {
  const recorder = new ToolCallRecorder({ enabled: true, ...options });
  return recorder.request(true, async (recording) => {
    await work(recorder);
    return recording.calls.map(({ id, ended, started_at, ended_at, ...call }) => {
      assert.ok(new Date(started_at) <= new Date(ended_at));
      return call;
    });
  });
}

test("a tool is recorded with its arguments and its result, whatever kind of function it is", async () => {
  const calls = await recorded(async (recorder) => {
    const sync = recorder.tool("look_up", ({ order }) => ({ order }));
    const later = recorder.tool("days", async (city, fast) => (fast ? 1 : 3));
    assert.deepEqual(sync({ order: "A" }), { order: "A" });
    assert.equal(await later("Oslo", false), 3);
    recorder.tool("ping", () => undefined)();
  });
  assert.deepEqual(calls, [
    { name: "look_up", arguments: { order: "A" }, result: '{"order":"A"}' },
    { name: "days", arguments: { 0: "Oslo", 1: false }, result: "3" },
    { name: "ping", arguments: {}, result: "null" },
  ]);
});

test("a tool that throws or rejects has an error, which the caller gets", async () => {
  const calls = await recorded(async (recorder) => {
    const broken = () => {
      throw new Error("sold out");
    };
    assert.throws(recorder.tool("buy", broken), /sold out/);
    await assert.rejects(recorder.tool("buy", async () => broken())(), /sold out/);
  });
  assert.deepEqual(calls, Array(2).fill({ name: "buy", arguments: {}, error: "sold out" }));
});

test("calls at once keep to their requests, also after timers", async () => {
  const recorder = new ToolCallRecorder({ enabled: true });
  const tool = recorder.tool("wait", async ({ who }) => new Promise((done) => setImmediate(done, who)));
  const requests = ["a", "b", "c"].map((who) =>
    recorder.request(true, async (recording) => {
      await Promise.all([tool({ who }), tool({ who })]);
      return recording.calls.map((call) => call.arguments.who);
    }),
  );
  assert.deepEqual(await Promise.all(requests), [["a", "a"], ["b", "b"], ["c", "c"]]);
});

test("arguments that JSON cannot hold are unknown, and cost the call nothing", async () => {
  const calls = await recorded(async (recorder) => {
    const cyclic = {};
    cyclic.self = cyclic;
    recorder.tool("look", () => 1n)(cyclic);
  });
  assert.deepEqual(calls, [{ name: "look", arguments_unknown: true, result: '"1"' }]);
});

test("a request that does not activate the extension records nothing", async () => {
  const recorder = new ToolCallRecorder({ enabled: true });
  assert.equal(await recorder.request(false, async (recording) => recording), undefined);
  const off = new ToolCallRecorder({ enabled: false });
  assert.equal(await off.request(true, async (recording) => recording), undefined);
});

test("a call without a request is missed by those that are active", async () => {
  const recorder = new ToolCallRecorder({ enabled: true });
  const outside = recorder.tool("lost", () => 1);
  let begin;
  const asked = new Promise((done) => (begin = done));
  const request = recorder.request(true, async (recording) => {
    await asked;
    return [...recording.missed];
  });
  outside();
  begin();
  const [why] = await request;
  assert.match(why, /"lost" was made outside/);
});

test("a tool needs a name and a function", () => {
  const recorder = new ToolCallRecorder({ enabled: true });
  assert.throws(() => recorder.tool(() => 1), /a tool needs a name/);
  assert.throws(() => recorder.tool("x", 1), /tool x is not a function/);
});

test("what has nothing of the extension is left as it is", () => {
  const task = { id: "t", artifacts: [{ artifactId: "a", parts: [], metadata: { mine: 1 } }], metadata: {} };
  assert.equal(withoutToolCalls(task), task);
});

test("the extension is taken out of artifacts, and what exists only for it goes", () => {
  const artifact = { artifactId: "a", parts: [], extensions: [URI, "x"], metadata: { [METADATA_KEY]: [{}], mine: 1 } };
  const own = { artifactId: "tool-calls-1", parts: [{}], extensions: [URI], metadata: { [METADATA_KEY]: [{}] } };
  const kept = withoutToolCalls({ payload: { $case: "task", value: { id: "t", artifacts: [artifact, own] } } });
  assert.deepEqual(kept.payload.value.artifacts, [
    { artifactId: "a", parts: [], extensions: ["x"], metadata: { mine: 1 } },
  ]);
  assert.equal(withoutToolCalls({ taskId: "t", artifact: own }), undefined);
  assert.equal(artifact.extensions.length, 2);
});
