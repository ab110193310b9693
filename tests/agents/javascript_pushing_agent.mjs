// An agent of @a2a-js/sdk 1.x with its own push sender: each message has four events. Runs in a folder of its environment.
import { createServer } from "node:http";
import {
  AgentEvent,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
} from "a2a-js-1/server";
import { TaskState } from "a2a-js-1";

const executor = {
  async execute(request, bus) {
    const { taskId, contextId, userMessage } = request;
    const status = (state) => ({ state, message: undefined, timestamp: undefined });
    const update = (state) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state), metadata: undefined }));
    const task = { id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], metadata: undefined };
    bus.publish(AgentEvent.task({ ...task, history: [userMessage] }));
    update(TaskState.TASK_STATE_WORKING);
    const part = { content: { $case: "text", value: "done" }, metadata: undefined, filename: "", mediaType: "" };
    const artifact = { artifactId: "answer", name: "", description: "", parts: [part], metadata: undefined, extensions: [] };
    bus.publish(
      AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: false, lastChunk: true, metadata: undefined }),
    );
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  },
  async cancelTask() {},
};

const card = {
  name: "Pushing agent",
  description: "",
  version: "1",
  supportedInterfaces: [{ url: "http://127.0.0.1/", protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
  capabilities: { streaming: false, pushNotifications: true, extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: [],
  defaultOutputModes: [],
  skills: [],
  signatures: [],
};
const rpc = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), executor));

const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  response.setHeader("content-type", "application/json");
  if (request.method !== "POST") return response.end(JSON.stringify(card));
  const context = new ServerCallContext({ requestedVersion: request.headers["a2a-version"] });
  response.end(JSON.stringify(await rpc.handle(body, context)));
});
server.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  card.supportedInterfaces[0].url = url;
  console.log(`listening on ${url}`);
});
