// The agent `orders` of the demo, on @a2a-js/sdk, which is looked for from the working directory upwards, and in NODE_PATH.
// The first line of standard input has the orders as JSON; the end of standard input ends the agent.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const sdk = createRequire(`${process.cwd()}/`);
const { Extensions, TaskState } = sdk("@a2a-js/sdk");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, JsonRpcTransportHandler, ServerCallContext } =
  sdk("@a2a-js/sdk/server");
const CAPTURE = process.argv[2]; // URI of the tool-call-capture extension

const input = createInterface({ input: process.stdin });
input.once("close", () => process.exit());
const orders = JSON.parse((await input[Symbol.asyncIterator]().next()).value);

/** What is in the order that the text names; `record` gets the tool call. */
function answer(text, record) {
  const orderId = /\bORD-\d+\b/i.exec(text)?.[0].toUpperCase();
  if (orderId === undefined) return "I am sorry, I need the number of an order, such as ORD-1001.";
  const order = orders[orderId];
  const outcome = order ? { result: JSON.stringify(order) } : { error: `there is no order ${orderId}` };
  record({ name: "lookup_order", arguments: { order_id: orderId }, ...outcome });
  if (!order) return `I am sorry, ${outcome.error}.`;
  const items = order.lines.map((line) => `${line.quantity} x ${line.name}`).join(", ");
  return `Order ${orderId} is ${order.status}: ${items}, ${order.total_eur.toFixed(2)} EUR in all.`;
}

const executor = {
  async execute({ taskId, contextId, userMessage, context }, bus) {
    const text = userMessage.parts.map((part) => part.content.value).join(" ");
    const calls = [];
    const value = answer(text, (call) => calls.push({ id: `${taskId}-${calls.length}`, ...call }));
    const captures = calls.length > 0 && context.requestedExtensions?.includes(CAPTURE);
    const artifact = {
      artifactId: "answer",
      name: "answer",
      description: "",
      parts: [{ content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" }],
      metadata: captures ? { [`${CAPTURE}/tool_calls`]: calls } : undefined,
      extensions: captures ? [CAPTURE] : [],
    };
    const status = { state: TaskState.TASK_STATE_COMPLETED, message: undefined, timestamp: undefined };
    const history = [userMessage];
    bus.publish(AgentEvent.task({ id: taskId, contextId, status, artifacts: [artifact], metadata: undefined, history }));
    bus.finished();
  },
  async cancelTask() {},
};

const extension = { uri: CAPTURE, description: "", required: false, params: undefined };
const card = {
  name: "Orders",
  description: "Sample agent of a2a-eval-proxy, in JavaScript: what is in an order",
  version: "1.0.0",
  supportedInterfaces: [{ url: "", protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
  capabilities: { streaming: false, pushNotifications: false, extensions: [extension] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [{ id: "orders", name: "orders", description: "What is in an order", tags: ["shop"] }],
  signatures: [],
};
const rpc = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), executor));

const server = createServer(async (request, response) => {
  response.setHeader("content-type", "application/json");
  if (request.method !== "POST") return response.end(JSON.stringify(card));
  let body = "";
  for await (const chunk of request) body += chunk;
  const requestedExtensions = Extensions.parseServiceParameter(request.headers["a2a-extensions"]);
  const context = new ServerCallContext({ requestedVersion: request.headers["a2a-version"], requestedExtensions });
  const result = JSON.stringify(await rpc.handle(body, context));
  if (requestedExtensions?.includes(CAPTURE)) response.setHeader("a2a-extensions", CAPTURE);
  response.end(result);
});
server.listen(0, "127.0.0.1", () => {
  card.supportedInterfaces[0].url = `http://127.0.0.1:${server.address().port}/`;
  console.log(`http://127.0.0.1:${server.address().port}`);
});
