// The A2A extension tool-call-capture for agents on @a2a-js/sdk, 0.3 and 1.x. The types are in index.d.ts.

import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";

const BASE_URI = "https://arksim.arklex.ai/a2a/tool-call-capture";
export const URI = `${BASE_URI}/v1`;
export const METADATA_KEY = `${URI}/tool_calls`;
export const NOT_RECORDED_KEY = `${URI}/not_recorded`;

const OWN_ARTIFACT_PREFIX = "tool-calls-";
const FLAG_VALUES = new Map([["", true], ["on", true], ["1", true], ["true", true], ["off", false], ["0", false], ["false", false]]);

/** The calls of one request, in the order they began. */
class Recording {
  calls = [];
  missed = new Set();

  begin(name, args, id) {
    const call = { id: id || `call-${randomUUID()}`, name, ended: false, started_at: new Date().toISOString() };
    const known = args === undefined ? undefined : plain(args);
    Object.assign(call, known === undefined ? { arguments_unknown: true } : { arguments: known });
    this.calls.push(call);
    return call;
  }

  end(call, outcome) {
    Object.assign(call, outcome, { ended: true, ended_at: new Date().toISOString() });
  }
}

/** Records the tool calls of the current request. Create one per agent and share it. */
export class ToolCallRecorder {
  #storage = new AsyncLocalStorage();
  #active = new Set();
  #warned = false;

  constructor({ enabled } = {}) {
    this.enabled = enabled ?? enabledByEnvironment();
  }

  /** `tool`, recorded under `name`. It takes its arguments as one object; others are recorded by their place. */
  tool(name, tool) {
    if (typeof name !== "string" || !name) throw new TypeError("a tool needs a name: recorder.tool(name, tool)");
    if (typeof tool !== "function") throw new TypeError(`tool ${name} is not a function: recorder.tool(name, tool)`);
    const recorder = this;
    return function (...values) {
      return recorder.call(name, named(values), () => tool.apply(this, values));
    };
  }

  /** Record the call made by `work`: what it returns or resolves to is the result, what it throws the error. */
  call(name, args, work, id = "") {
    const recording = this.#recordingOf(name);
    if (!recording) return work();
    const call = recording.begin(name, args, id);
    const failed = (error) => {
      recording.end(call, { error: errorText(error) });
      throw error;
    };
    const finished = (value) => {
      recording.end(call, { result: text(value) });
      return value;
    };
    let value;
    try {
      value = work();
    } catch (error) {
      return failed(error);
    }
    return typeof value?.then === "function" ? value.then(finished, failed) : finished(value);
  }

  /** Record a finished call. */
  record(name, args, { result, error, id = "" } = {}) {
    const recording = this.#recordingOf(name);
    if (!recording) return;
    const call = recording.begin(name, args, id);
    recording.end(call, error !== undefined ? { error: errorText(error) } : result !== undefined ? { result: text(result) } : {});
  }

  /** Run `work` as one request; its recording is undefined if the request does not activate the extension. */
  async request(activated, work) {
    const recording = activated && this.enabled ? new Recording() : undefined;
    if (recording) this.#active.add(recording);
    try {
      return await this.#storage.run({ recording }, () => work(recording));
    } finally {
      this.#active.delete(recording);
    }
  }

  #recordingOf(name) {
    const request = this.#storage.getStore();
    if (request) return request.recording;
    for (const recording of this.#active) {
      recording.missed.add(`a call of "${name}" was made outside of any request, where the async context is lost`);
    }
    if (this.enabled && !this.#warned) {
      this.#warned = true;
      console.warn(
        `a2a-tool-capture: a call of "${name}" was not recorded because it was made outside of any request of this ` +
          "recorder; further ones are not logged. Serve the agent with this recorder: capturing(DefaultRequestHandler, recorder)",
      );
    }
    return undefined;
  }
}

/** Declare the extension on an agent card, unless it already is. */
export function declareToolCalls(card) {
  const capabilities = (card.capabilities ??= {});
  const declared = (capabilities.extensions ??= []);
  if (declared.some((extension) => extension.uri === URI)) return;
  declared.push({ uri: URI, description: "Reports tool calls in artifact metadata, for evaluation", required: false, params: undefined });
}

/**
 * The request handler of the SDK, with tool calls: `new (capturing(DefaultRequestHandler, recorder))(card, store, agent)`.
 * It declares the extension, adds the calls to artifacts, and takes them out of what goes to requests that do not
 * activate the extension, and to webhooks.
 */
export function capturing(Handler, recorder) {
  class CapturingRequestHandler extends Handler {
    constructor(card, store, agent, ...others) {
      if (recorder.enabled) declareToolCalls(card);
      super(card, store, new CapturingExecutor(agent, recorder), ...others);
      const sender = this.pushNotificationSender;
      if (sender) {
        this.pushNotificationSender = {
          send: (...values) => {
            const kept = withoutToolCalls(values[0]);
            return kept === undefined ? Promise.resolve() : sender.send(kept, ...values.slice(1));
          },
        };
      }
    }
  }
  for (const operation of ["sendMessage", "getTask", "listTasks", "cancelTask"]) {
    if (!Handler.prototype[operation]) continue;
    CapturingRequestHandler.prototype[operation] = async function (parameters, context, ...others) {
      const asked = asks(context, recorder);
      const answer = await Handler.prototype[operation].call(this, parameters, context, ...others);
      return asked ? answer : withoutToolCalls(answer);
    };
  }
  for (const operation of ["sendMessageStream", "resubscribe"]) {
    CapturingRequestHandler.prototype[operation] = async function* (parameters, context, ...others) {
      const asked = asks(context, recorder);
      for await (const event of Handler.prototype[operation].call(this, parameters, context, ...others)) {
        const kept = asked ? event : withoutToolCalls(event);
        if (kept !== undefined) yield kept;
      }
    };
  }
  return CapturingRequestHandler;
}

function asks(context, recorder) {
  return recorder.enabled && [...(context?.requestedExtensions ?? [])].includes(URI);
}

/**
 * A copy of a task, artifact, event or list without the extension; undefined for what exists only for it. What has
 * nothing of it is returned as it is.
 */
export function withoutToolCalls(value) {
  if (Array.isArray(value)) {
    const kept = value.map(withoutToolCalls).filter((one) => one !== undefined);
    return kept.length === value.length && kept.every((one, place) => one === value[place]) ? value : kept;
  }
  if (value === null || typeof value !== "object") return value;
  if (typeof value.artifactId === "string" && Array.isArray(value.parts)) return artifactWithout(value);
  let copy = metadataWithout(value);
  for (const key of ["payload", "value", "task", "tasks", "artifact", "artifacts", "message", "result"]) {
    if (!(key in value) || typeof value[key] !== "object" || value[key] === null) continue;
    const kept = withoutToolCalls(value[key]);
    if (kept === value[key]) continue;
    if (kept === undefined) return undefined;
    if (copy === value) copy = { ...value };
    copy[key] = kept;
  }
  return copy;
}

function artifactWithout(artifact) {
  if (artifact.artifactId.startsWith(OWN_ARTIFACT_PREFIX)) return undefined;
  const copy = { ...metadataWithout(artifact) };
  if (!artifact.extensions?.some(isOurs)) return copy.metadata === artifact.metadata ? artifact : copy;
  copy.extensions = artifact.extensions.filter((uri) => !isOurs(uri));
  return copy;
}

function metadataWithout(holder) {
  const metadata = holder.metadata;
  if (!metadata || !Object.keys(metadata).some(isOurs)) return holder;
  const kept = Object.entries(metadata).filter(([key]) => !isOurs(key));
  return { ...holder, metadata: kept.length ? Object.fromEntries(kept) : undefined };
}

function isOurs(uri) {
  return uri === BASE_URI || (typeof uri === "string" && uri.startsWith(`${BASE_URI}/`));
}

/** An executor that adds recorded calls to the artifacts of `agent`, in requests that activate the extension. */
export class CapturingExecutor {
  #agent;
  #recorder;
  #running = new Map();

  constructor(agent, recorder) {
    this.#agent = agent;
    this.#recorder = recorder;
  }

  async execute(context, bus) {
    const call = context.context;
    await this.#recorder.request(asks(call, this.#recorder), async (recording) => {
      if (!recording) return this.#agent.execute(context, bus);
      call.addActivatedExtension?.(URI);
      const delivery = new Delivery(recording, context, bus);
      const own = busOf(bus, delivery);
      this.#running.set(context.taskId, own);
      try {
        await this.#agent.execute(context, own);
      } finally {
        delivery.sendRemaining();
        if (this.#running.get(context.taskId) === own) this.#running.delete(context.taskId);
      }
    });
  }

  cancelTask = (taskId, bus) => this.#agent.cancelTask(taskId, this.#running.get(taskId) ?? bus);
}

/** The bus as the agent sees it: events are published with calls. */
function busOf(bus, delivery) {
  return new Proxy(bus, {
    get(target, name) {
      if (name === "publish") return (event) => delivery.publish(event);
      if (name === "finished") {
        return () => {
          delivery.sendRemaining();
          target.finished();
        };
      }
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const ENDED = new Set(["completed", "failed", "canceled", "rejected", 3, 4, 5, 7]);
const WAITING = new Set(["input-required", "auth-required", 6, 8]);

/** Assigns the calls of one request to artifacts, as the library for Python does: docs/servers.md says which. */
class Delivery {
  #recording;
  #bus;
  #context;
  #artifactOf = new Map();
  #order = new Map();
  #carrying = -1;
  #earlier = new Map();
  #unlisted = new Set();
  #exists;
  #over = false;
  #wrapped = true;
  #own = `${OWN_ARTIFACT_PREFIX}${randomUUID()}`;
  #ownSent = "";

  constructor(recording, context, bus) {
    this.#recording = recording;
    this.#bus = bus;
    this.#context = context;
    this.#exists = Boolean(context.task);
    for (const artifact of context.task?.artifacts ?? []) {
      this.#number(artifact.artifactId);
      if (!artifact.extensions?.includes(URI)) this.#unlisted.add(artifact.artifactId);
      const entries = artifact.metadata?.[METADATA_KEY];
      if (Array.isArray(entries)) this.#earlier.set(artifact.artifactId, entries);
    }
  }

  publish(event) {
    this.#wrapped = "data" in event; // 1.x has {kind, data}, 0.3 the event itself
    const data = this.#wrapped ? event.data : event;
    const again = (changed) => this.#bus.publish(this.#wrapped ? { ...event, data: changed } : changed);
    switch (event.kind) {
      case "artifactUpdate":
      case "artifact-update":
        return again(this.#artifactUpdate(data));
      case "statusUpdate":
      case "status-update":
        this.#exists = true;
        if (ENDED.has(data.status?.state) || WAITING.has(data.status?.state)) this.sendRemaining();
        this.#over = ENDED.has(data.status?.state);
        return again(data);
      case "task":
        return again(this.#snapshot(data));
      case "message":
        this.#over = true;
        return again(this.#message(data));
      default:
        return this.#bus.publish(event);
    }
  }

  /** Send what is on no artifact, on one of its own. */
  sendRemaining() {
    if (this.#over || !this.#exists) return;
    const artifact = this.#ownArtifact();
    if (!artifact) return;
    const update = { taskId: this.#context.taskId, contextId: this.#context.contextId, artifact, append: false, lastChunk: true };
    this.#bus.publish(
      this.#wrapped ? { kind: "artifactUpdate", data: { ...update, metadata: undefined } } : { kind: "artifact-update", ...update },
    );
  }

  #artifactUpdate(update) {
    this.#exists = true;
    const { artifact } = update;
    if (!artifact) return update;
    this.#number(artifact.artifactId);
    if (!update.append) this.#unlisted.delete(artifact.artifactId);
    if (this.#unlisted.has(artifact.artifactId)) return update;
    this.#place(artifact.artifactId, (call) => call.ended);
    return { ...update, artifact: this.#written(artifact) };
  }

  #snapshot(task) {
    this.#exists = true;
    const settled = ENDED.has(task.status?.state) || WAITING.has(task.status?.state);
    this.#over = ENDED.has(task.status?.state);
    const artifacts = task.artifacts ?? [];
    for (const artifact of artifacts) this.#number(artifact.artifactId);
    const last = artifacts.at(-1);
    if (last) this.#place(last.artifactId, (call) => settled || call.ended);
    const written = artifacts.map((artifact) => this.#written(artifact));
    const own = settled ? this.#ownArtifact() : undefined;
    if (!written.length && !own) return task;
    return { ...task, artifacts: own ? [...written, own] : written };
  }

  #message(message) {
    const reasons = [...this.#recording.missed];
    if (this.#recording.calls.length) {
      reasons.push("the agent responded with a Message, but calls travel on artifacts; use a task and an artifact");
      console.warn(`a2a-tool-capture: ${this.#recording.calls.length} tool call(s) were not sent: ${reasons.at(-1)}`);
    }
    return reasons.length ? { ...message, metadata: { ...message.metadata, [NOT_RECORDED_KEY]: reasons } } : message;
  }

  #ownArtifact() {
    this.#place(this.#own, () => true);
    const reasons = [...this.#recording.missed];
    const entries = this.#entries(this.#own);
    const now = JSON.stringify([entries, reasons]);
    if ((!entries.length && !reasons.length) || now === this.#ownSent) return undefined;
    this.#ownSent = now;
    const part = this.#wrapped
      ? { content: { $case: "text", value: "" }, metadata: undefined, filename: "", mediaType: "" }
      : { kind: "text", text: "" };
    const metadata = { [METADATA_KEY]: entries, ...(reasons.length ? { [NOT_RECORDED_KEY]: reasons } : {}) };
    return { artifactId: this.#own, name: "Tool calls", description: "", parts: [part], metadata, extensions: [URI] };
  }

  #number(artifactId) {
    if (!this.#order.has(artifactId)) this.#order.set(artifactId, this.#order.size);
    return this.#order.get(artifactId);
  }

  /** Assign the calls without an artifact to this one, unless a later artifact carries calls. */
  #place(artifactId, which) {
    const fresh = this.#recording.calls.filter((call) => !this.#artifactOf.has(call) && which(call));
    if (!fresh.length || this.#number(artifactId) < this.#carrying) return;
    this.#carrying = this.#number(artifactId);
    for (const call of fresh) this.#artifactOf.set(call, artifactId);
  }

  #entries(artifactId) {
    const calls = this.#recording.calls.filter((call) => this.#artifactOf.get(call) === artifactId);
    return [...(this.#earlier.get(artifactId) ?? []), ...calls.map(({ ended, ...entry }) => entry)];
  }

  #written(artifact) {
    const uris = artifact.extensions ?? [];
    return {
      ...artifact,
      extensions: uris.includes(URI) ? uris : [...uris, URI],
      metadata: { ...artifact.metadata, [METADATA_KEY]: this.#entries(artifact.artifactId) },
    };
  }
}

function enabledByEnvironment() {
  const value = process.env.A2A_TOOL_CAPTURE ?? "";
  const enabled = FLAG_VALUES.get(value.trim().toLowerCase());
  if (enabled === undefined) throw new Error(`A2A_TOOL_CAPTURE is "${value}"; expected on or off`);
  return enabled;
}

function named(values) {
  const [first] = values;
  if (values.length === 0) return {};
  if (values.length === 1 && first !== null && typeof first === "object" && !Array.isArray(first)) return first;
  return Object.fromEntries(values.map((value, place) => [String(place), value]));
}

function plain(value) {
  try {
    return JSON.parse(json(value));
  } catch {
    return undefined; // such as a cycle: unknown, not none
  }
}

function json(value) {
  return JSON.stringify(value, (_, one) => (typeof one === "bigint" ? one.toString() : one)) ?? "null";
}

function text(value) {
  if (typeof value === "string") return value;
  try {
    return json(value);
  } catch {
    return String(value);
  }
}

function errorText(error) {
  return error instanceof Error ? error.message || error.name : text(error);
}
