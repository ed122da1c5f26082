import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Middleware, ParameterizedContext } from 'koa';
import type { Fault } from '../foundation/fault.ts';

/** All that the parts of the server know of one request. The same object is the state of the context of Koa. */
export interface RequestState {
  /** The sender, as far as known, for the logs. */
  who?: Who;
  /** True for a valid token of this server that belongs to no account, such as that of a builder. */
  hasServerToken?: boolean;
  /** What the replica has proved that handed the request on. */
  handedOn?: HandedOn;
  /** The terms for reading the body. */
  bodyTerms?: BodyTerms;
  /** Label of the container token, if any. */
  token?: string;
  /** Label of the route in metrics. Default: a label derived from the path. */
  route?: string;
  /** True if the client uses other names for fields of the body. Messages then use the same names. */
  usesAliases?: boolean;
  /** The person who looks at a page, once the server knows them. */
  person?: { readonly name: string | undefined; readonly isAdministrator: boolean };
  /** Shows a failure as a page, to a client that prefers one. Default: as JSON. */
  showFault?: (fault: Fault, requestId: string) => ShownFault;
}

export interface Who {
  /** E-mail address or name of a user of a platform. */
  readonly user?: string | undefined;
  /** Name of an account of this server. */
  readonly account?: string | undefined;
}

export interface HandedOn {
  /** Address of the client, or of its proxy, that connected to the other replica. */
  readonly peer: string;
  /** Present if that replica can send a blob itself; `look`: it sends the blob, and asks whether it may continue. */
  readonly order: unknown;
}

export interface BodyTerms {
  readonly memory: BodyShare;
  /** Milliseconds in which a client must send a part of the body. */
  readonly stallMs: number;
}

/** The part of the memory for bodies that one request has. */
export interface BodyShare {
  /**
   * Adds bytes to the share. Returns undefined when there is room now. Otherwise resolves when there is, or
   * rejects with a {@link Fault} (503) when there is none in time.
   */
  add(bytes: number): Promise<void> | undefined;
  /** Gives the whole share back. */
  close(): void;
}

/** A failure as a page. */
export interface ShownFault {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

const state = Symbol('state of the request');

interface Stateful extends IncomingMessage {
  [state]?: RequestState;
}

/** Returns the state of a request, also before Koa sees it. */
export function stateOf(request: Stateful): RequestState {
  const known = request[state];
  if (known) return known;
  const fresh: RequestState = {};
  request[state] = fresh;
  return fresh;
}

/** Notes more about the sender of a request. */
export function noteSender(request: IncomingMessage, who: Who): void {
  const known = stateOf(request);
  known.who = { ...known.who, ...who };
}

// Made once: each request ends with it, and it records the stack.
const disconnected = new DOMException('This operation was aborted', 'AbortError');

/** Returns a signal that aborts when the client has disconnected; also after the response, when nothing needs it. */
export function clientSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  if (response.closed) gone.abort(disconnected);
  else response.once('close', () => gone.abort(disconnected));
  return gone.signal;
}

/** Checks a request before its route; throws a `Fault` to reject it. */
export type Check = (ctx: ParameterizedContext<RequestState>) => void;

/** Runs all checks of a request in one middleware step: a step for each would slow down pulls of manifests. */
export function gate(...checks: readonly Check[]): Middleware<RequestState> {
  return (ctx, next) => {
    for (const check of checks) check(ctx);
    return next();
  };
}
