import type { IncomingMessage } from 'node:http';

/** Who sent a request, as far as it has been found out: for the logs. */
export interface Who {
  /** E-mail address or name of a user of a platform. */
  readonly user?: string | undefined;
  /** Name of an account of this server. */
  readonly account?: string | undefined;
}

/** Remembers who sent which request, as long as the request lasts. */
export interface Callers {
  note(request: IncomingMessage, who: Who): void;
  of(request: IncomingMessage): Who;
}

export function createCallers(): Callers {
  const known = new WeakMap<IncomingMessage, Who>();
  return {
    note(request, who) {
      known.set(request, { ...known.get(request), ...who });
    },
    of: request => known.get(request) ?? {},
  };
}
