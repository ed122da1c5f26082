import type { TarError } from '../../archives/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { closedAddressIn, WireError } from '../../upstream/transport/index.ts';

/** A limit of the configuration for the size of layers. */
export interface SizeLimit {
  readonly bytes: number;
  /** What the limit is for and what to do; continues a sentence. */
  readonly advice: string;
}

/** Reports a failed fetch as a mistake in the request, and a refused address as denied. */
export function failedFetch(error: unknown, url: URL, name: string): unknown {
  const isOurs = error instanceof Fault && (error.phase === 'layer' || error.phase === 'limit');
  if (isOurs) return error;
  const isExplained = error instanceof Fault || error instanceof WireError;
  const reason = isExplained ? `: ${error.message}` : '';
  const remedy = closedAddressIn(error) ? reason.lastIndexOf(' with registries.') : -1;
  const why =
    remedy < 0 ? reason : `${reason.slice(0, remedy)} by listing it under layers.privateHosts`;
  const kind = error instanceof Fault && error.kind === 'denied' ? 'denied' : 'bad-request';
  return new Fault(kind, `${name} could not be fetched from ${url.host}${why}`, {
    phase: 'layer',
    cause: error,
  });
}

/**
 * Reports a layer that a registry does not send as a mistake in the request, which names the image. A registry that does not
 * work is none.
 */
export function notSent(error: unknown, name: string): unknown {
  if (!(error instanceof Fault || error instanceof WireError)) return error;
  const isFault = error instanceof Fault;
  if (isFault && (error.phase === 'layer' || error.phase === 'limit')) return error;
  const message = `${name} could not be fetched: ${error.message}`;
  const isExplained =
    isFault && (['denied', 'too-many-requests'].includes(error.kind) || error.status >= 500);
  if (isExplained) return error.withMessage(message);
  const kind = isFault ? 'bad-request' : 'upstream';
  return new Fault(kind, message, { phase: 'layer', cause: error });
}

export function tooLate(ms: number): Fault {
  return malformed(
    `'containerIncludes': the layers did not arrive within ${Math.round(ms / 1000)} s: send the request again, which fetches only those that are missing`,
  );
}

export function malformed(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'layer' });
}

export function notAsNamed(name: string): Fault {
  return malformed(
    `${name} is not what its image says: its bytes have other digests. Push the image again`,
  );
}

export function removedMeanwhile(name: string): Fault {
  return new Fault('unavailable', `${name} was removed while it was processed: try again`, {
    phase: 'layer',
    retryAfterSeconds: 1,
  });
}

export function tooLarge(name: string, { bytes, advice }: SizeLimit): Fault {
  return new Fault('too-large', `${name} is larger than the ${bytes} bytes allowed ${advice}`, {
    phase: 'layer',
  });
}

/** Reports a tar file that cannot be included. */
export function unreadable(name: string, error: TarError): Fault {
  return new Fault(
    'bad-request',
    `${name} cannot be included: it ${error.message}. Use COPY --from=IMAGE in a 'containerFile', or include another image`,
    { phase: 'layer', cause: error },
  );
}
