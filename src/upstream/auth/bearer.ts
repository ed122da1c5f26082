import { getDomain } from 'tldts';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { type JsonShape, parseShaped } from '../../foundation/json-shape.ts';
import { takePatterns } from '../../foundation/text.ts';
import { basicHeader, type Credentials } from '../credentials.ts';
import {
  endpointOf,
  type Registries,
  type RegistrySettings,
  settingsOf,
} from '../registry-settings.ts';
import { closedAddressIn } from '../transport/address-guard.ts';
import { causeOf, faultOfError, quoted, readErrorWords } from '../transport/failure.ts';
import { type RetryPolicy, retryAfterSeconds, withRetries } from '../transport/retry.ts';
import type { HttpRequest, Transport } from '../transport/transport.ts';
import { readAll, type UpstreamResponse } from '../transport/upstream-response.ts';

/** A bearer token and its expiry on the scale of `performance.now`. */
export interface BearerToken {
  readonly token: string;
  readonly expiresAt: number;
}

interface TokenRequest {
  readonly registry: string;
  readonly endpoint: URL;
  readonly repository: string;
  /** The rights that the token must have, `repository:<name>:pull` each. */
  readonly scopes: readonly string[];
  readonly settings: RegistrySettings;
  readonly credentials: Credentials | undefined;
  readonly challenge: Challenge;
  readonly signal?: AbortSignal | undefined;
  readonly retry: RetryPolicy;
}

const responseLimit = 1024 * 1024;
// No registry accepts a header of this length.
const maxTokenLength = 64 * 1024;
const responseShape: JsonShape = { maxValues: 1000, maxDepth: 16, maxEscapes: 100_000 };
// The token specification requires clients to assume this when the response does not specify it.
const defaultLifeSeconds = 60;
const responseSchema = z.object({
  token: z.string().nullish(),
  access_token: z.string().nullish(),
  expires_in: z.number().nullish(),
});

/**
 * Requests a token from the token service that a registry named; without credentials, an anonymous token. Throws a
 * {@link Fault}. Source: distribution, Token Authentication Specification and its OAuth2 variant.
 */
export async function fetchBearer(
  transport: Transport,
  request: TokenRequest,
): Promise<BearerToken> {
  const realm = checkRealm(request);
  // A monotonic clock: no change of the wall clock makes a token last longer or shorter.
  const asked = performance.now();
  const { retry, signal } = request;
  const attempt = () => transport.send(httpRequestOf(realm, request));
  const response = await withRetries(retry, signal, attempt).catch(error => {
    if (closedAddressIn(error) === undefined) {
      // A fault stops further tries: the request to the registry is not retried, because this one already was.
      const what = `a token for ${request.repository || 'a login'}`;
      const subject = `The token service ${realm.host} of ${request.registry}`;
      throw faultOfError(error, { registry: realm.host }, { what }, subject);
    }
    throw new Fault(
      'upstream-unusable',
      `The registry ${request.registry} names a token service at a loopback, private or otherwise closed network address ('${realm.host}'), which is refused: if this is intended, list it under registries.${request.registry}.tokenHosts`,
      { phase: 'credentials', cause: error },
    );
  });
  if (response.status !== 200) {
    throw await tokenRefusal(request, realm, response);
  }
  const body = await readAll(response.body, responseLimit, `The token of ${realm.host}`);
  const parsed = responseSchema.safeParse(parseJson(body));
  const token = parsed.success ? parsed.data.token || parsed.data.access_token : undefined;
  if (!token || token.length > maxTokenLength || /[\r\n]/.test(token)) {
    throw new Fault('upstream', `The token service ${realm.host} returned no usable token`, {
      phase: 'credentials',
    });
  }
  const lifeSeconds = Math.max(parsed.data?.expires_in ?? defaultLifeSeconds, 1);
  // Renew a little early, so that a token does not expire in transit.
  return { token, expiresAt: asked + lifeSeconds * 900 };
}

function httpRequestOf(realm: URL, request: TokenRequest): HttpRequest {
  const { credentials, signal, scopes, endpoint: from } = request;
  const { service } = request.challenge.parameters;
  if (credentials?.kind === 'identity-token') {
    const form = new URLSearchParams({
      grant_type: 'refresh_token',
      client_id: 'sluice',
      refresh_token: credentials.token,
      scope: scopes.join(' '),
      ...(service === undefined ? {} : { service }),
    });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return { url: realm, from, method: 'POST', headers, body: form.toString(), signal };
  }
  const url = new URL(realm);
  if (service !== undefined) url.searchParams.set('service', service);
  for (const scope of scopes) url.searchParams.append('scope', scope);
  const headers = credentials
    ? { authorization: basicHeader(credentials.username, credentials.password) }
    : ({} as Record<string, string>);
  return { url, from, method: 'GET', headers, signal };
}

/**
 * The realm comes from the registry's response: a hostile registry could name any address to have credentials sent
 * there. The realm must be https and of the registry's own host or registrable domain, unless the operator listed it.
 * Plain http is allowed only if the registry itself uses plain http.
 */
function checkRealm({ registry, endpoint, settings, challenge }: TokenRequest): URL {
  const refuse = (why: string): never => {
    throw new Fault(
      'upstream-unusable',
      `The registry ${registry} names a token service that ${why}`,
      { phase: 'credentials' },
    );
  };
  const text = challenge.parameters.realm ?? '';
  if (!URL.canParse(text)) return refuse('is not a URL');
  const realm = new URL(text);
  const isSecure =
    realm.protocol === 'https:' || (settings.plainHttp && realm.protocol === 'http:');
  if (!isSecure) return refuse('is not reached over https');
  const isOwn =
    realm.hostname === endpoint.hostname ||
    settings.tokenHosts.includes(realm.host) ||
    sameDomain(realm.hostname, endpoint.hostname);
  if (!isOwn) {
    return refuse(
      `is not its own ('${realm.host}'): if this is intended, list it under registries.${registry}.tokenHosts`,
    );
  }
  realm.username = '';
  realm.password = '';
  return realm;
}

function sameDomain(one: string, other: string): boolean {
  const domain = getDomain(one, { allowPrivateDomains: true });
  return domain !== null && domain === getDomain(other, { allowPrivateDomains: true });
}

async function tokenRefusal(
  request: TokenRequest,
  realm: URL,
  response: UpstreamResponse,
): Promise<Fault> {
  const { status } = response;
  const retryAfter = retryAfterSeconds(response);
  const words = await readErrorWords(response, request.credentials);
  const said = quoted(words);
  const who = request.credentials ? 'the credentials configured for it' : 'an anonymous request';
  const where = `The token service ${realm.host} of ${request.registry}`;
  const options = {
    phase: 'credentials' as const,
    ...(retryAfter === undefined ? {} : { retryAfterSeconds: retryAfter }),
    ...causeOf(words),
  };
  if (status === 429) {
    return new Fault(
      'too-many-requests',
      `${where} limits the rate of requests: try again later${said}`,
      options,
    );
  }
  if (status === 400 || status === 401 || status === 403 || status === 404) {
    return new Fault(
      'denied',
      `${where} refused ${who} (${status}): check that '${request.repository}' exists and that the credentials may ${verbOf(request)} it${said}`,
      options,
    );
  }
  return new Fault('upstream', `${where} answered ${status}: try again later${said}`, options);
}

function verbOf({ scopes }: TokenRequest): string {
  return scopes.some(scope => scope.endsWith('push')) ? 'push to' : 'pull';
}

function parseJson(body: Buffer): unknown {
  try {
    return parseShaped(body, responseShape);
  } catch {
    return undefined;
  }
}

/**
 * Fetches a token for a repository, from the token service in the registry's challenge. Throws a `Fault`: when the
 * credentials are rejected, and for a token service that does not belong to the registry.
 */
export type FetchToken = (
  asked: Pick<TokenRequest, 'registry' | 'repository' | 'scopes' | 'credentials' | 'challenge'>,
) => Promise<BearerToken>;

export function createFetchToken(
  transport: Transport,
  registries: Registries,
  retry: RetryPolicy,
): FetchToken {
  return async asked => {
    const { registry } = asked;
    const [endpoint, settings] = [
      endpointOf(registries, registry),
      settingsOf(registries, registry),
    ];
    try {
      return await fetchBearer(transport, { ...asked, endpoint, settings, retry });
    } catch (error) {
      throw faultOfError(error, asked, { what: `a token for ${asked.repository}` });
    }
  };
}

/** A scheme of authentication that a server offers. Source: RFC 9110, section 11.6.1. */
export interface Challenge {
  /** Lower case: `basic`, `bearer`. */
  readonly scheme: string;
  /** Parameters by lower-case name. */
  readonly parameters: Readonly<Record<string, string>>;
}

const tokenPattern = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const schemePattern = new RegExp(`${tokenPattern}(?=[\\s,]|$)`, 'y');
// Some schemes have one bare value instead of parameters; no code here needs it.
const token68Pattern = /[ \t]+[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)/y;
const parameterPattern = new RegExp(
  `(${tokenPattern})\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s,"]*))\\s*`,
  'y',
);
const separatorPattern = /[\s,]+/y;

/**
 * Parses a `WWW-Authenticate` value. It may contain several challenges, separated by the same commas that separate
 * parameters. Unreadable text ends the list; nothing is thrown.
 */
export function parseChallenges(header: string): Challenge[] {
  const challenges: Challenge[] = [];
  const take = takePatterns(header);
  for (;;) {
    take(separatorPattern);
    const parameter = take(parameterPattern);
    const current = challenges.at(-1);
    if (parameter && current) {
      const [, name = '', quoted, bare = ''] = parameter;
      const parameters = current.parameters as Record<string, string>;
      parameters[name.toLowerCase()] = quoted?.replace(/\\(.)/g, '$1') ?? bare;
      continue;
    }
    const scheme = parameter ? null : take(schemePattern);
    if (!scheme) break;
    take(token68Pattern);
    challenges.push({ scheme: scheme[0].toLowerCase(), parameters: Object.create(null) });
  }
  return challenges;
}
