import { Fault, type FaultOptions } from '../../foundation/fault.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import type { Access } from '../access.ts';
import { RedirectFailure } from '../transport/redirect.ts';
import { retryAfterSeconds } from '../transport/retry.ts';
import { causeOf, isOfQuota, quoted, readErrorWords } from './error-words.ts';
import type { UpstreamRequest } from './upstream-request.ts';
import type { UpstreamResponse } from './upstream-response.ts';

const timeouts: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'did not accept a connection in time',
  UND_ERR_HEADERS_TIMEOUT: 'did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'stopped sending',
  ETIMEDOUT: 'did not accept a connection in time',
  'timeout-connect': 'did not accept a connection in time',
  'timeout-headers': 'did not answer in time',
  'timeout-idle': 'stopped sending',
};

// Also the response of a name service that knows only the names of its own network.
const noAddress =
  'has no address: check its name. If no other name is found either, this server has no name service (DNS) for them';

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: noAddress,
  EAI_AGAIN:
    'could not be looked up, because the name service (DNS) does not answer: check the DNS settings of this server',
  ECONNREFUSED: 'refused the connection',
  ECONNRESET: 'closed the connection',
  EPIPE: 'closed the connection',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'closed the connection',
  UND_ERR_SOCKET: 'closed the connection',
  EHOSTUNREACH: 'cannot be reached',
  ENETUNREACH: 'cannot be reached',
  reset: 'closed the connection',
  short: 'sent less than it announced',
};

/** Returns the fault for a request without a response: network, timeout, certificate, rejected address. */
export function faultOfError(
  error: unknown,
  access: Pick<Access, 'registry'>,
  request: Pick<UpstreamRequest, 'what'>,
  subject = `The registry ${access.registry}`,
): Fault {
  if (error instanceof Fault) return error;
  if (error instanceof RedirectFailure) {
    return faultOfError(error.cause, { registry: error.to.host }, request, error.message);
  }
  const inner = innermost(error);
  if (inner instanceof Fault) return inner;
  if (inner instanceof OciSyntaxError) {
    return new Fault('upstream', inner.message, { phase: 'upstream', cause: error });
  }
  const code = codeOf(error) ?? codeOf(inner) ?? '';
  const options: FaultOptions = { phase: 'upstream', cause: error };
  const late = timeouts[code];
  if (late) {
    return new Fault(
      'upstream-timeout',
      `${subject} ${late} (asked for ${request.what}): try again later`,
      options,
    );
  }
  const known = reasons[codeOf(inner) ?? ''] ?? reasons[code];
  const lasting = known === undefined ? certificateReason(inner, access) : undefined;
  const reason = known ?? lasting ?? 'could not be reached';
  const isLasting = lasting !== undefined || known === noAddress;
  const orCheck = known === reasons.ECONNREFUSED ? ', or check its name and port' : '';
  return new Fault(
    isLasting ? 'upstream-unusable' : 'upstream',
    `${subject} ${reason} (asked for ${request.what})${isLasting ? '' : `: try again later${orCheck}`}`,
    options,
  );
}

/** Returns the fault for a status of 400 and above, and for a redirect that cannot be followed. */
export async function faultOfStatus(
  response: UpstreamResponse,
  access: Access,
  request: UpstreamRequest,
): Promise<Fault> {
  const { status } = response;
  const words = await readErrorWords(response, access.credentials);
  const said = quoted(words);
  const { registry } = access;
  const retryAfter = retryAfterSeconds(response);
  const options: FaultOptions = {
    phase: status === 401 || status === 403 ? 'credentials' : 'upstream',
    ...(retryAfter === undefined ? {} : { retryAfterSeconds: retryAfter }),
    ...causeOf(words),
  };
  switch (status) {
    case 401:
    case 403:
      if (isOfQuota(words.quote)) {
        return new Fault(
          'denied',
          `The quota at ${registry} is used up, so it refuses ${request.what} (${status}): delete images there, or ask its owner for more space${said}`,
          { ...options, phase: 'upstream' },
        );
      }
      return new Fault('denied', `${deniedMessage(status, access, request)}${said}`, options);
    case 404:
    case 410:
      return new Fault(
        request.missing,
        `${request.what} does not exist at ${registry}${said}`,
        options,
      );
    case 416:
      return new Fault(
        'range-invalid',
        `${request.what} is shorter than the requested range: start the download again`,
        options,
      );
    case 429:
      return new Fault(
        'too-many-requests',
        `The registry ${registry} limits the rate of requests: try again later. Credentials usually raise the limit: send the platform access token of a user who has some for ${registry}, or ask the operator to configure them${said}`,
        options,
      );
    default:
      if (status < 400) {
        return new Fault(
          'upstream-unusable',
          `The registry ${registry} answered ${status} for ${request.what}, which is not a redirect that can be followed: check the name of the registry`,
          options,
        );
      }
      return new Fault(
        'upstream',
        `The registry ${registry} answered ${status} for ${request.what}: try again later${said}`,
        options,
      );
  }
}

function deniedMessage(status: number, access: Access, request: UpstreamRequest): string {
  const { registry } = access;
  const remedy = access.credentials
    ? `the credentials configured for ${registry} do not give access, or it does not exist`
    : `it is private or does not exist, and this server has no credentials for ${registry} that this caller may use: send the platform access token of a user who has credentials for ${registry}`;
  return `${registry} refused access to ${request.what} (${status}): ${remedy}`;
}

function certificateReason(error: unknown, access: Pick<Access, 'registry'>): string | undefined {
  const code = codeOf(error) ?? '';
  if (/CERT|SIGNATURE|ISSUER|ALTNAME/.test(code)) {
    return `has a certificate that is not trusted (${code}): the operator can name its authority, or a self-signed certificate itself, with registries.${access.registry}.ca`;
  }
  if (/SSL|TLS|EPROTO/.test(code)) {
    return `does not speak TLS as expected: if it speaks plain http, the operator can allow that with registries.${access.registry}.plainHttp`;
  }
  return undefined;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Transports wrap the informative error: follows the causes, and the first of several tries. */
function innermost(error: unknown): unknown {
  let current = error;
  for (let depth = 0; depth < 8; depth += 1) {
    if (current instanceof AggregateError && current.errors.length > 0) current = current.errors[0];
    else if (current instanceof Error && current.cause instanceof Error) current = current.cause;
    else return current;
  }
  return current;
}
