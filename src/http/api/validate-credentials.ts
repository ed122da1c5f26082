import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { registryHost } from '../../oci/naming.ts';
import { type CheckLogin, faultOfError } from '../../upstream/index.ts';
import type { LoginLimit } from '../limits/limiter.ts';
import { ok } from '../route/declaration.ts';
import { apiRoute } from './api-route.ts';
import { credentialsSchema } from './container/container-schema.ts';

export interface ValidateDeps {
  readonly checkLogin: CheckLogin;
  /** Prevents callers from guessing registry passwords through this service. */
  readonly logins: LoginLimit;
}

const shared = {
  method: 'post',
  tag: 'Registries',
  access: 'requests',
  limit: 'requests',
  responses: ok(z.boolean(), 'Whether the registry accepts them', true),
  faults: ['not-found', 'upstream', 'upstream-timeout', 'unavailable'],
} as const;
const example = { registry: 'quay.io', userName: 'ada', password: 'secret' };

/** Clients of the older route send the same fields in a member `request`. */
const wrappedSchema = z
  .preprocess(requestIn, credentialsSchema)
  .meta({ title: 'RegistryCredentials' });

/** Routes that report whether a registry accepts a user name and a password: `true` or `false`. */
export const validateRoutes = [
  apiRoute({
    ...shared,
    id: 'validateCredentials',
    path: '/v1alpha2/validate-creds',
    summary: 'Whether a registry accepts a user name and a password',
    body: { schema: credentialsSchema, example },
    run: ({ ctx, body }, deps: ValidateDeps) => isAccepted(ctx.req, body, deps),
  }),
  apiRoute({
    ...shared,
    id: 'validateCredentialsOld',
    path: '/validate-creds',
    summary: 'The same; the fields may be in a member `request`',
    body: { schema: wrappedSchema, example },
    isDeprecated: true,
    run: ({ ctx, body }, deps: ValidateDeps) => isAccepted(ctx.req, body, deps),
  }),
];

/**
 * Returns true if a registry accepts a user name and a password. Throws a {@link Fault}: 400 for a name that is not a
 * registry, 429 after too many wrong ones, and for a registry that does not answer.
 */
export async function isAccepted(
  request: IncomingMessage,
  { registry, userName, password }: z.output<typeof credentialsSchema>,
  { checkLogin, logins }: ValidateDeps,
): Promise<boolean> {
  const host = hostOf(registry);
  const credentials = { kind: 'password', username: userName, password } as const;
  const end = logins.begin(request);
  try {
    const isGood = await checkLogin(host, credentials);
    if (!isGood) logins.fail(request);
    return isGood;
  } catch (error) {
    const access = { registry: host, repository: '', credentials: undefined };
    throw faultOfError(error, access, { what: 'a login' });
  } finally {
    end();
  }
}

/** Returns the member `request` of the body if it has one, otherwise the body itself. */
function requestIn(body: unknown): unknown {
  return typeof body === 'object' && body !== null && 'request' in body ? body.request : body;
}

/** Returns the host of `registry`, `https://registry/v2/` and the like. Throws a {@link Fault} (400) otherwise. */
function hostOf(text: string): string {
  const host = registryHost(text);
  if (host !== undefined) return host;
  throw new Fault(
    'bad-request',
    "'registry' is not the name of a registry: send its host, such as quay.io or registry.example.com:5000; Docker Hub is docker.io",
    { phase: 'request' },
  );
}
