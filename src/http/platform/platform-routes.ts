import type { IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { Fault } from '../../foundation/fault.ts';
import type { DiskSpace } from '../../storage/directory/index.ts';
import { readJsonBody } from '../bodies/read-body.ts';
import { sendValue } from '../bodies/send-value.ts';
import { type RequireAdministrator, readBasic, readBearer } from '../callers/identify.ts';
import { callerAddress } from '../client-address.ts';
import { createLimiter, isFailedLogin, type LoginLimit, type Rate } from '../limits/limiter.ts';
import { noteSender, type RequestState, stateOf } from '../request-state.ts';
import { queryOf } from '../request-target.ts';
import type { Actor, Backend } from './entry-point.ts';
import { apiVersion, createPlatformApi } from './platform-api.ts';

export interface PlatformRoutesDeps extends Backend {
  readonly requireAdministrator: RequireAdministrator;
  readonly logins: LoginLimit;
  readonly limits: CallLimits;
  readonly space: DiskSpace;
  readonly trustedProxies: number;
}

// Some clients append /api to the address of a platform.
const bases = ['/platform/api', '/platform'];
// Some clients send an access token as a password, with this user name.
const tokenName = '@token';
const maxBodyBytes = 256 * 1024;
const writing = new Set(['POST', 'PUT', 'PATCH']);

/** Answers all requests below `/platform`. Source: platform specification. */
export function platformRoutes(deps: PlatformRoutesDeps): Middleware<RequestState> {
  const respond = createPlatformApi(deps);
  return async (ctx, next) => {
    const base = bases.find(one => ctx.path === one || ctx.path.startsWith(`${one}/`));
    if (base === undefined) return next();
    ctx.state.route = '/platform';
    // Responses contain tokens and passwords.
    ctx.set('cache-control', 'no-store');
    requireVersion(ctx.get('accept-version'));
    // Removals need no check: they free space.
    if (writing.has(ctx.method)) deps.space.take(maxBodyBytes);
    const body = await respond({
      method: ctx.method === 'HEAD' ? 'GET' : ctx.method,
      path: ctx.path.slice(base.length).replace(/\/$/, ''),
      query: givenOnly(queryOf(ctx.req)),
      identify: () => identify(ctx.req, deps),
      client: callerAddress(ctx.req, deps.trustedProxies),
      readBody: () => readJsonBody(ctx.req, maxBodyBytes),
    });
    if (body === undefined) ctx.status = 204;
    else sendValue(ctx, body);
  };
}

async function identify(
  request: IncomingMessage,
  { requireAdministrator, ...deps }: PlatformRoutesDeps,
): Promise<Actor> {
  const { authorization: header = '' } = request.headers;
  const basic = readBasic(header);
  const isToken = basic?.name === tokenName;
  if (/^basic\s/i.test(header) && !isToken) {
    const roles = await requireAdministrator(request);
    const { account = '' } = stateOf(request).who ?? {};
    return { kind: 'administrator', name: `account ${account}`, roles };
  }
  const accessToken = isToken ? basic.password : readBearer(header);
  if (accessToken === undefined) {
    throw new Fault(
      'unauthorized',
      'This call requires an access token: send it as Authorization: Bearer <token>',
      { phase: 'credentials', headers: { 'www-authenticate': 'Bearer realm="Sluice"' } },
    );
  }
  const { user, token } = await holderOf(accessToken, request, deps);
  noteSender(request, { user: user.email });
  deps.limits.take(token.id);
  return { kind: 'user', user, until: token.expiresAt ?? undefined, rights: token.rights };
}

async function holderOf(
  accessToken: string,
  request: IncomingMessage,
  { platform, logins }: Pick<PlatformRoutesDeps, 'platform' | 'logins'>,
) {
  try {
    // Check the token before the login limit: nobody can guess a token, and a server may call for many users
    // from one address.
    return await platform.holder(accessToken);
  } catch (error) {
    if (isFailedLogin(error)) {
      logins.check(request);
      logins.fail(request);
    }
    throw error;
  }
}

function requireVersion(wanted: string): void {
  if (wanted === '' || wanted.trim() === apiVersion) return;
  throw new Fault(
    'bad-request',
    `This version of the API does not exist: leave out Accept-Version, or send ${apiVersion}`,
    { phase: 'request' },
  );
}

/** Removes parameters without a value: some clients send them for options that are not set. */
function givenOnly(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...query].filter(([, value]) => value !== ''));
}

/** Limits the calls with each access token. */
export interface CallLimits {
  /** Counts a call. Throws a {@link Fault} (429) after too many calls. */
  take(tokenId: number): void;
}

/** Source: platform specification, section 8. */
export const callRates: readonly Rate[] = [
  { count: 72_000, seconds: 3600 },
  { count: 20, seconds: 1 },
];

export function createCallLimits(rates = callRates, now?: () => number): CallLimits {
  const advice = 'leave more time between calls';
  const limits = rates.map(rate => ({
    rate,
    limiter: createLimiter('calls with one access token', now, advice),
  }));
  return {
    take(tokenId) {
      const key = String(tokenId);
      // A call that one limit refuses does not count for the others.
      for (const { limiter, rate } of limits) limiter.check(key, rate);
      for (const { limiter, rate } of limits) limiter.take(key, rate);
    },
  };
}
