// An agent with @a2a-js/sdk 0.3 that reports its tool calls.
import { randomUUID } from "node:crypto";
import express from "express";
import { DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, agentCardHandler, jsonRpcHandler } from "@a2a-js/sdk/server/express";
import { ToolCallRecorder, capturing } from "a2a-tool-capture";

const recorder = new ToolCallRecorder();

const lookUp = recorder.tool("look_up", ({ order_id }) => ({ order: order_id, status: "shipped" }));
const deliveryDays = recorder.tool("delivery_days", async ({ city }) => 3);

class Orders {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const text = userMessage.parts.map((part) => part.text).join("");
    const [, order_id, city] = text.match(/order (\S+),.* to (\w+)/);
    bus.publish(task ?? { kind: "task", id: taskId, contextId, status: { state: "submitted" }, history: [userMessage] });
    await Promise.all([lookUp({ order_id }), deliveryDays({ city })]);
    const artifact = { artifactId: randomUUID(), parts: [{ kind: "text", text: "It is on its way." }] };
    bus.publish({ kind: "artifact-update", taskId, contextId, artifact });
    bus.publish({ kind: "status-update", taskId, contextId, status: { state: "completed" }, final: true });
    bus.finished();
  }
  async cancelTask() {}
}

const card = {
  name: "Orders",
  description: "Knows where orders are.",
  version: "1",
  protocolVersion: "0.3.0",
  url: "http://127.0.0.1:9999/",
  preferredTransport: "JSONRPC",
  capabilities: { streaming: true },
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [{ id: "status", name: "Status", description: "Where an order is.", tags: ["orders"] }],
};
const requestHandler = new (capturing(DefaultRequestHandler, recorder))(card, new InMemoryTaskStore(), new Orders());
const app = express();
app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
app.use("/", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
app.listen(9999, "127.0.0.1");
