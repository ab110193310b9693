// Driver: the JavaScript @a2a-js/sdk 0.3 client. Runs in a folder of its environment. See README.md.
import { randomUUID } from "node:crypto";
import { ClientFactory, ClientFactoryOptions, ServiceParameters, withA2AExtensions } from "a2a-js-03/client";
import { URI, getUntil, openGate, serve } from "./lines.mjs";

function request(job, text, { blocking = true, ...ids } = {}) {
  const extensions = job.ask === "message" ? [URI] : undefined;
  return {
    message: {
      kind: "message",
      messageId: randomUUID(),
      role: "user",
      parts: [{ kind: "text", text }],
      extensions,
      ...ids,
    },
    configuration: { blocking },
  };
}

await serve(async (job, answer) => {
  const options = { preferredTransports: [job.binding] };
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, options));
  answer.card = await fetch(`${job.base}/.well-known/agent-card.json`).then((response) => response.json());
  const client = await factory.createFromUrl(job.base);
  const serviceParameters = job.ask === "header" ? ServiceParameters.create(withA2AExtensions([URI])) : undefined;
  const calling = { serviceParameters };

  const watch = async (events) => {
    let last;
    for await (const event of events) {
      last = event;
      answer.events.push(event);
    }
    return last;
  };
  const get = (id) => client.getTask({ id }, calling);
  const start = async () => {
    const task = await client.sendMessage(request(job, job.text, { blocking: false }), calling);
    return getUntil(() => get(task.id), ["working"]);
  };

  const actions = {
    send: async () => answer.events.push(await client.sendMessage(request(job, job.text), calling)),
    stream: () => watch(client.sendMessageStream(request(job, job.text), calling)),
    resume: async () => {
      const { taskId, contextId } = await watch(client.sendMessageStream(request(job, job.text), calling));
      await watch(client.sendMessageStream(request(job, job.reply, { taskId, contextId }), calling));
    },
    poll: async () => {
      const task = await start();
      await openGate(job);
      answer.events.push(await getUntil(() => get(task.id), ["completed", "failed", "canceled"]));
    },
    subscribe: async () => {
      const task = await start();
      const opening = openGate(job, task.id);
      await watch(client.resubscribeTask({ id: task.id }, calling));
      await opening;
    },
    cancel: async () => {
      const task = await start();
      answer.events.push(await client.cancelTask({ id: task.id }, calling));
    },
    "extended-card": async () => answer.events.push(await client.getAgentCard(calling)),
  };
  await actions[job.action]();
});
