/** The A2A extension tool-call-capture for agents on @a2a-js/sdk, 0.3 and 1.x. */

export declare const URI: string;
export declare const METADATA_KEY: string;
/** Key of metadata that lists in sentences why calls of the request may be missing. */
export declare const NOT_RECORDED_KEY: string;

/**
 * Records the tool calls of the current request, which it finds with AsyncLocalStorage. Create one per agent and share
 * it. In requests that did not activate the extension it does nothing. `enabled` is true unless the environment has
 * `A2A_TOOL_CAPTURE=off`; throws an Error if that variable has another value.
 */
export declare class ToolCallRecorder {
  constructor(options?: { enabled?: boolean });
  readonly enabled: boolean;

  /**
   * The tool, recorded under `name`. Its arguments are those of the object that it takes; arguments that are not one
   * object are recorded by their place ("0", "1"). Throws a TypeError without a name or a function.
   */
  tool<Tool extends (...values: any[]) => any>(name: string, tool: Tool): Tool;

  /** Record the call made by `work`, and return what it returns. `args` are undefined if they are unknown. */
  call<Result>(name: string, args: object | undefined, work: () => Result, id?: string): Result;

  /** Record a finished call. Results that are not strings are stored as JSON. */
  record(name: string, args?: object, outcome?: { result?: unknown; error?: unknown; id?: string }): void;
}

/** Declare the extension on an agent card, unless it already is. */
export declare function declareToolCalls(card: { capabilities?: any }): void;

/**
 * The SDK's request handler with tool calls, for `new Handler(card, taskStore, agent, ...)`: declares the extension on
 * the card, adds the calls to artifacts, and removes them from what goes to requests that do not activate the extension,
 * and to webhooks.
 */
export declare function capturing<Handler extends new (...values: any[]) => any>(
  handler: Handler,
  recorder: ToolCallRecorder,
): Handler;

/** An executor that adds recorded calls to the artifacts of `agent`, for request handlers of your own. */
export declare class CapturingExecutor {
  constructor(agent: { execute: Function; cancelTask: Function }, recorder: ToolCallRecorder);
  execute(context: any, bus: any): Promise<void>;
  cancelTask: (taskId: string, bus: any) => Promise<void>;
}

/**
 * A copy of a task, artifact, event or list without the extension, for request handlers of your own; undefined for an
 * artifact or event that exists only for it.
 */
export declare function withoutToolCalls<Value>(value: Value): Value | undefined;
