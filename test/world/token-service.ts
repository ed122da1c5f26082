import { createPrivateKey, randomUUID, sign, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { Certificates } from './certificates.ts';

/** One received request of the token service. */
export interface TokenRequest {
  readonly method: string;
  readonly scopes: readonly string[];
  readonly service: string;
  /** The user name that was given with a right or wrong password; undefined when anonymous. */
  readonly username: string | undefined;
  readonly status: number;
}

export interface TokenOptions {
  /** The member with the token in the response to GET. Default: `token`. */
  readonly response?: 'token' | 'access_token' | 'both';
  /** After how many seconds the registry refuses a token. Default: 300. */
  readonly expiresInSeconds?: number;
  /** False: the response has no `expires_in`, so that a client must assume 60 seconds. */
  readonly tellsExpiry?: boolean;
  /** True: a client without credentials gets a pull token. */
  readonly anonymousPull?: boolean;
  /** Checked for each request. True: nobody gets a token any more. */
  readonly isClosed?: boolean;
}

export interface TokenService {
  readonly realm: string;
  readonly service: string;
  readonly issuer: string;
  /** Every request so far, oldest first. */
  readonly requests: TokenRequest[];
  stop(): Promise<void>;
}

interface Account {
  readonly username: string;
  readonly password: string;
}

// docker-registry goes on accepting a token for a minute after it has expired.
const registryLeewaySeconds = 60;

/**
 * A token server on a free port of 127.0.0.1 for the one account; HTTPS with certificates, as some clients require it
 * for an HTTPS registry.
 * Source: distribution, Token Authentication Implementation and its OAuth2 variant.
 */
export async function startTokenService(
  account: Account,
  keyPair: { key: string; certificate: string },
  options: TokenOptions = {},
  certificates?: Certificates,
): Promise<TokenService> {
  const service = 'registry.test';
  const issuer = 'tokens.test';
  const requests: TokenRequest[] = [];
  const respond: RequestListener = async (request, response) => {
    const tokenRequest = await readTokenRequest(request);
    const given = tokenRequest.credentials;
    const isKnown = given?.username === account.username && given.password === account.password;
    const isLetIn = given === undefined ? options.anonymousPull === true : isKnown;
    const isAllowed = isLetIn && options.isClosed !== true;
    const status = isAllowed ? 200 : 401;
    const { method, scopes, service: asked } = tokenRequest;
    requests.push({ method, scopes, service: asked, username: given?.username, status });
    if (!isAllowed) {
      const errors = [{ code: 'UNAUTHORIZED', message: 'authentication required', detail: null }];
      return reply(response, 401, { errors });
    }
    const access = scopes.map(scope => readScope(scope, isKnown));
    const token = makeToken({ issuer, service, access, subject: given?.username ?? '' });
    // The OAuth2 variant knows no `token`.
    const kind = method === 'POST' ? 'access_token' : (options.response ?? 'token');
    reply(response, 200, {
      ...(kind === 'access_token' ? {} : { token }),
      ...(kind === 'token' ? {} : { access_token: token }),
      ...(options.tellsExpiry === false ? {} : { expires_in: lifeSeconds }),
      issued_at: new Date().toISOString(),
    });
  };
  const lifeSeconds = options.expiresInSeconds ?? 300;
  const makeToken = tokenMaker(keyPair, lifeSeconds);
  const server = certificates
    ? createSecureServer(await readPair(certificates), respond)
    : createServer(respond);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('No port');
  const stop = async () => {
    server.closeAllConnections();
    await new Promise<void>(resolve => server.close(() => resolve()));
  };
  const realm = `${certificates ? 'https' : 'http'}://127.0.0.1:${address.port}/token`;
  return { realm, service, issuer, requests, stop };
}

async function readPair({ certificate, key }: Certificates) {
  return { cert: await readFile(certificate), key: await readFile(key) };
}

interface Grant {
  readonly issuer: string;
  readonly service: string;
  readonly subject: string;
  readonly access: readonly object[];
}

function tokenMaker(keyPair: { key: string; certificate: string }, lifeSeconds: number) {
  const key = createPrivateKey(keyPair.key);
  const certificate = new X509Certificate(keyPair.certificate).raw.toString('base64');
  const header = { typ: 'JWT', alg: 'ES256', x5c: [certificate] };
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return ({ issuer, service, subject, access }: Grant): string => {
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      ...{ iss: issuer, sub: subject, aud: service, jti: randomUUID(), access },
      ...{ exp: now + lifeSeconds - registryLeewaySeconds, nbf: now - 120, iat: now },
    };
    const signed = `${encode(header)}.${encode(claims)}`;
    const signature = sign('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
    return `${signed}.${signature.toString('base64url')}`;
  };
}

async function readTokenRequest(request: IncomingMessage) {
  const url = new URL(request.url ?? '/', 'http://tokens.test');
  let body = '';
  for await (const chunk of request) body += chunk;
  const isForm = request.method === 'POST';
  const form = isForm ? new URLSearchParams(body) : url.searchParams;
  return {
    method: request.method ?? '',
    service: form.get('service') ?? '',
    scopes: form.getAll('scope').flatMap(scope => scope.split(' ').filter(Boolean)),
    credentials: isForm ? formCredentials(form) : basicCredentials(request),
  };
}

function formCredentials(form: URLSearchParams): Account | undefined {
  const [username, password] = [form.get('username'), form.get('password')];
  return username === null || password === null ? undefined : { username, password };
}

function basicCredentials(request: IncomingMessage): Account | undefined {
  const encoded = /^basic (.*)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (encoded === undefined) return undefined;
  const [username = '', ...password] = Buffer.from(encoded, 'base64').toString().split(':');
  // Podman and skopeo send an empty name and password for 'nobody'.
  return username === '' ? undefined : { username, password: password.join(':') };
}

function readScope(scope: string, isKnown: boolean): object {
  const [type = '', ...rest] = scope.split(':');
  const actions = (rest.pop() ?? '').split(',');
  const allowed = isKnown ? actions : actions.filter(action => action === 'pull');
  return { type, name: rest.join(':'), actions: allowed };
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
