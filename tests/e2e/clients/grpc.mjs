// Calls an agent over gRPC with @grpc/grpc-js, and prints what came back as JSON:
// node grpc.mjs NODE_MODULES DESCRIPTORS ADDRESS
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, descriptors, address] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadFileDescriptorSetFromBuffer(readFileSync(descriptors), { enums: String, bytes: String });
const { A2AService } = grpc.loadPackageDefinition(definition).lf.a2a.v1;
const client = new A2AService(address, grpc.credentials.createInsecure());
const seen = [];

const entries = (metadata) =>
  Object.keys(metadata.getMap())
    .filter((key) => key !== "date" && key !== "content-type")
    .sort()
    .map((key) => [key, metadata.get(key).map((value) => value.toString("latin1"))]);

function metadata() {
  const sent = new grpc.Metadata();
  sent.set("a2a-version", "1.0");
  sent.add("x-word", "a");
  sent.add("x-word", "b");
  sent.set("x-raw-bin", Buffer.from([0, 255]));
  return sent;
}

function note(call, done) {
  const outcome = { messages: [] };
  call.on("metadata", (initial) => (outcome.initial = entries(initial)));
  call.on("status", ({ code, details, metadata: trailing }) => {
    setImmediate(() => { // after the callback of a unary call
      const own = code === grpc.status.DEADLINE_EXCEEDED; // the client's words, with times
      seen.push({ ...outcome, code, details: own ? "" : details, trailing: entries(trailing) });
      done(outcome);
    });
  });
  return outcome;
}

const unary = (method, request, options = {}) =>
  new Promise((done) => {
    const call = client[method](request, metadata(), options, (error, answer) => answer && outcome.messages.push(answer));
    const outcome = note(call, done);
  });

const stream = (method, request, leaveAfter = Infinity) =>
  new Promise((done) => {
    const call = client[method](request, metadata());
    const outcome = note(call, done);
    call.on("error", () => {});
    call.on("data", (message) => {
      outcome.messages.push(message);
      if (outcome.messages.length === leaveAfter) call.cancel();
    });
  });

const say = (text) => ({ message: { message_id: "m", role: "ROLE_USER", parts: [{ text }] } });

const { messages } = await unary("SendMessage", say("artifact hi"));
const id = messages[0].task.id;
for (const text of ["chunks hi", "message hi", "fail hi"]) await stream("SendStreamingMessage", say(text));
await stream("SendStreamingMessage", say("slow never"), 1);
await unary("GetTask", { id });
await unary("GetTask", { id: "no such task" });
await unary("CancelTask", { id });
await unary("ListTasks", { context_id: messages[0].task.context_id, include_artifacts: true });
await unary("SendMessage", say("long never"), { deadline: Date.now() + 200 });
await unary("CreateTaskPushNotificationConfig", { task_id: id, id: "c", url: "http://127.0.0.1:9/hook" });
await unary("DeleteTaskPushNotificationConfig", { task_id: id, id: "c" });
await stream("SubscribeToTask", { id });
client.close();
console.log(JSON.stringify(seen));
