import { Fault, type FaultOptions } from '../../foundation/fault.ts';
import { closedAddressIn } from '../../upstream/transport/index.ts';

const phase = 'credentials';

const late = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);
const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'has no address',
  EAI_AGAIN: 'could not be looked up',
  ECONNREFUSED: 'refused the connection',
  ECONNRESET: 'closed the connection',
  UND_ERR_SOCKET: 'closed the connection',
};

/**
 * Returns the fault for a call without a response. A problem that lasts until somebody fixes it has its own
 * {@link Fault}.
 */
export function faultOfFailedCall(error: unknown, host: string): Fault {
  if (error instanceof Fault && !closedAddressIn(error)) return error;
  const options: FaultOptions = { phase, cause: error };
  const codes = codesOf(error);
  if (isTimeout(error) || codes.some(code => late.has(code))) {
    return new Fault(
      'upstream-timeout',
      `The platform ${host} did not answer in time: try again later`,
      options,
    );
  }
  const certificate = codes.find(code => /CERT|SIGNATURE|ISSUER|ALTNAME/.test(code));
  const reason = certificate
    ? `has a certificate that is not trusted (${certificate}): for a private authority the operator sets registries.${host}.ca`
    : `${codes.map(code => reasons[code]).find(text => text) ?? 'could not be reached'}: try again later, or check its address`;
  const isLasting = certificate !== undefined || codes.includes('ENOTFOUND');
  return new Fault(
    isLasting ? 'upstream-unusable' : 'unavailable',
    `The platform ${host} ${reason}`,
    options,
  );
}

/** Returns the fault for a response that neither succeeds nor rejects the token. */
export function faultOfReply(
  status: number,
  said: string | undefined,
  host: string,
  retryAfterSeconds: number | undefined,
): Fault {
  const options: FaultOptions = {
    phase,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
  const words = said === undefined ? '' : `: ${said}`;
  if (status === 400) {
    return new Fault(
      'bad-request',
      `The platform ${host} refused the request (400)${words}`,
      options,
    );
  }
  if (status === 429 || status === 503) {
    return new Fault(
      'unavailable',
      `The platform ${host} is too busy at the moment (${status}): try again later`,
      options,
    );
  }
  if (status >= 300 && status < 400) {
    return new Fault(
      'upstream-unusable',
      `The platform ${host} redirects to another address (${status}), and Sluice does not follow redirects with a token: use the address of its API`,
      options,
    );
  }
  return new Fault(
    'upstream',
    `The platform ${host} failed (${status})${words}: try again later`,
    options,
  );
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === 'TimeoutError';
}

/** Errors of transports wrap the informative error. */
function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  let current = error;
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    if ('code' in current) codes.push(String(current.code));
    current = current instanceof AggregateError ? current.errors[0] : current.cause;
  }
  return codes;
}
