import type { Router, RouterContext } from '@koa/router';
import { Fault } from '../../foundation/fault.ts';
import { registryHost } from '../../oci/registry-name.ts';
import type { CheckLogin } from '../../upstream/auth/login.ts';
import { faultOfError } from '../../upstream/exchange/failure.ts';
import { readJsonBody } from '../bodies/json-body.ts';
import { callerAddress } from '../callers/client-address.ts';
import type { Identify } from '../callers/identify.ts';
import type { Gate } from '../gates/access-gate.ts';
import { type CallerRates, rateFor } from '../limits/caller-rates.ts';
import { type Limiter, limitHeaders } from '../limits/limiter.ts';
import type { LoginLimit } from '../limits/login-limit.ts';
import type { RequestState } from '../request-state.ts';
import { credentialsSchema, parseBody } from './container/container-schema.ts';

export interface ValidateDeps {
  readonly checkLogin: CheckLogin;
  readonly gate: Gate;
  readonly identify: Identify;
  readonly trustedProxies: number;
  /** The same as for container requests: registries are asked here, too. */
  readonly limiter: Limiter;
  readonly rates: CallerRates;
  /** Nobody is to find out through this service what the passwords of a registry are. */
  readonly logins: LoginLimit;
  readonly maxBodyBytes: number;
}

/** Whether a registry takes a user name and a password: `true` or `false`. */
export function validateRoutes(router: Router<RequestState>, deps: ValidateDeps): void {
  const validate = async (ctx: RouterContext<RequestState>, unwrap: (body: unknown) => unknown) => {
    deps.gate.beforeRequest();
    const identity = await deps.identify(ctx.req, {});
    deps.gate.request({ ...identity });
    const limit = rateFor(deps.rates, identity ?? {}, callerAddress(ctx.req, deps.trustedProxies));
    if (limit) ctx.set(limitHeaders(deps.limiter.take(limit.key, limit.rate, limit.advice)));
    const body = await readJsonBody(ctx.req, deps.maxBodyBytes);
    const { registry, userName, password } = parseBody(credentialsSchema, unwrap(body));
    const host = hostOf(registry);
    const credentials = { kind: 'password', username: userName, password } as const;
    const end = deps.logins.begin(ctx.req);
    try {
      const isGood = await deps.checkLogin(host, credentials);
      if (!isGood) deps.logins.fail(ctx.req);
      ctx.body = JSON.stringify(isGood);
      ctx.type = 'application/json';
    } catch (error) {
      const access = { registry: host, repository: '', credentials: undefined };
      throw faultOfError(error, access, { what: 'a login' });
    } finally {
      end();
    }
  };

  router.post('/v1alpha2/validate-creds', ctx => validate(ctx, body => body));
  // The older name, whose clients put the same fields into a member.
  router.post('/validate-creds', ctx => validate(ctx, requestIn));
}

/** The member `request` of a body that has one, else the body. */
function requestIn(body: unknown): unknown {
  return typeof body === 'object' && body !== null && 'request' in body ? body.request : body;
}

/** The host of `registry`, `https://registry/v2/` and the like; throws a {@link Fault} (400) for other names. */
function hostOf(text: string): string {
  const host = registryHost(text);
  if (host !== undefined) return host;
  throw new Fault(
    'bad-request',
    "'registry' is not the name of a registry: send its host, such as quay.io or registry.example.com:5000; Docker Hub is docker.io",
    { phase: 'request' },
  );
}
