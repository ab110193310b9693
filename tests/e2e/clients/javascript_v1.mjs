// Driver: the JavaScript @a2a-js/sdk 1.x client. Runs in a folder of its environment. See README.md.
import { randomUUID } from "node:crypto";
import * as sdk from "a2a-js-1";
import { ClientFactory, ClientFactoryOptions, ServiceParameters, withA2AExtensions } from "a2a-js-1/client";
import { URI, getUntil, openGate, serve } from "./lines.mjs";

const WORKING = [sdk.TaskState.TASK_STATE_WORKING];
const TERMINAL = [
  sdk.TaskState.TASK_STATE_COMPLETED,
  sdk.TaskState.TASK_STATE_FAILED,
  sdk.TaskState.TASK_STATE_CANCELED,
];

function request(job, text, { returnImmediately = false, ...ids } = {}) {
  const extensions = job.ask === "message" ? [URI] : [];
  return sdk.SendMessageRequest.fromJSON({
    message: { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text }], extensions, ...ids },
    configuration: { returnImmediately },
  });
}

function plainResult(result) {
  return "parts" in result ? { message: sdk.Message.toJSON(result) } : { task: sdk.Task.toJSON(result) };
}

await serve(async (job, answer) => {
  const options = { preferredTransports: [job.binding] };
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, options));
  const card = await fetch(`${job.base}/.well-known/agent-card.json`).then((response) => response.json());
  answer.card = card;
  const client = await factory.createFromUrl(job.base);
  const serviceParameters = job.ask === "header" ? ServiceParameters.create(withA2AExtensions([URI])) : undefined;
  const calling = { serviceParameters };

  const watch = async (events) => {
    let last;
    for await (const event of events) {
      last = sdk.StreamResponse.toJSON(event);
      answer.events.push(last);
    }
    return last;
  };
  const get = (id) => client.getTask(sdk.GetTaskRequest.fromJSON({ id }), calling);
  const start = async () => {
    const task = await client.sendMessage(request(job, job.text, { returnImmediately: true }), calling);
    return getUntil(() => get(task.id), WORKING);
  };

  const actions = {
    send: async () => answer.events.push(plainResult(await client.sendMessage(request(job, job.text), calling))),
    stream: () => watch(client.sendMessageStream(request(job, job.text), calling)),
    resume: async () => {
      const { statusUpdate } = await watch(client.sendMessageStream(request(job, job.text), calling));
      const ids = { taskId: statusUpdate.taskId, contextId: statusUpdate.contextId };
      await watch(client.sendMessageStream(request(job, job.reply, ids), calling));
    },
    poll: async () => {
      const task = await start();
      await openGate(job);
      answer.events.push(sdk.Task.toJSON(await getUntil(() => get(task.id), TERMINAL)));
    },
    subscribe: async () => {
      const task = await start();
      const opening = openGate(job, task.id);
      await watch(client.resubscribeTask(sdk.SubscribeToTaskRequest.fromJSON({ id: task.id }), calling));
      await opening;
    },
    cancel: async () => {
      const task = await start();
      const canceled = await client.cancelTask(sdk.CancelTaskRequest.fromJSON({ id: task.id }), calling);
      answer.events.push(sdk.Task.toJSON(canceled));
    },
    list: async () => {
      const sent = plainResult(await client.sendMessage(request(job, job.text), calling));
      answer.events.push(sent);
      for (const includeArtifacts of [false, true]) {
        const query = { contextId: sent.task.contextId, includeArtifacts };
        const listed = await client.listTasks(sdk.ListTasksRequest.fromJSON(query), calling);
        answer.events.push(sdk.ListTasksResponse.toJSON(listed));
      }
    },
    "extended-card": async () => answer.events.push(sdk.AgentCard.toJSON(await client.getAgentCard(calling))),
  };
  await actions[job.action]();
});
