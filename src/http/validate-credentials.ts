import type { Router } from '@koa/router';
import { Fault } from '../fault.ts';
import { inField } from '../field.ts';
import { parseReference } from '../oci/reference.ts';
import { faultOfError } from '../upstream/failure.ts';
import type { CheckLogin } from '../upstream/login.ts';
import { readJsonBody } from './json-body.ts';
import type { LoginLimit } from './login-limit.ts';
import { credentialsSchema, parseBody } from './schema.ts';
import type { RequestState } from './state.ts';

export interface ValidateDeps {
  readonly checkLogin: CheckLogin;
  /** Nobody is to find out through this service what the passwords of a registry are. */
  readonly logins: LoginLimit;
  readonly maxBodyBytes: number;
}

/** Whether a registry takes a user name and a password: `true` or `false`. */
export function validateRoutes(router: Router<RequestState>, deps: ValidateDeps): void {
  router.post('/v1alpha2/validate-creds', async ctx => {
    const { registry, userName, password } = parseBody(
      credentialsSchema,
      await readJsonBody(ctx.req, deps.maxBodyBytes),
    );
    const host = hostOf(registry);
    const credentials = { kind: 'password', username: userName, password } as const;
    deps.logins.check(ctx.req);
    try {
      const isGood = await deps.checkLogin(host, credentials);
      if (!isGood) deps.logins.fail(ctx.req);
      ctx.body = JSON.stringify(isGood);
      ctx.type = 'application/json';
    } catch (error) {
      const access = { registry: host, repository: '', credentials: undefined };
      throw faultOfError(error, access, { what: 'a login' });
    }
  });
}

/** The host of `registry`, `https://registry/v2/` and the like. */
function hostOf(text: string): string {
  const host = text.replace(/^https?:\/\//i, '').split('/')[0] ?? '';
  const named = inField('registry', () => parseReference(`${host}/x`));
  if (host !== '') return named.registry;
  throw new Fault('bad-request', "'registry' is empty: name the host of the registry", {
    phase: 'request',
  });
}
