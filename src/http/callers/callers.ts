import type { IncomingMessage } from 'node:http';

/** The sender of a request, as far as known, for the logs. */
export interface Who {
  /** E-mail address or name of a user of a platform. */
  readonly user?: string | undefined;
  /** Name of an account of this server. */
  readonly account?: string | undefined;
}

/** Remembers the sender of each request while the request lasts. */
export interface Callers {
  note(request: IncomingMessage, who: Who): void;
  of(request: IncomingMessage): Who;
  /** Notes a request with a valid token of this server that belongs to no account, such as that of a builder. */
  noteServerToken(request: IncomingMessage): void;
  hasServerToken(request: IncomingMessage): boolean;
}

export function createCallers(): Callers {
  const known = new WeakMap<IncomingMessage, Who>();
  const withServerToken = new WeakSet<IncomingMessage>();
  return {
    note(request, who) {
      known.set(request, { ...known.get(request), ...who });
    },
    of: request => known.get(request) ?? {},
    noteServerToken: request => void withServerToken.add(request),
    hasServerToken: request => withServerToken.has(request),
  };
}
