/** How the audit log names callers without an account. */
import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import { createAuthenticator, createRegistryTokens } from '../../src/hosted/authenticator.ts';
import { createRecordAudit } from '../../src/http/callers/audit-notes.ts';
import { createLoginLimit } from '../../src/http/limits/limiter.ts';
import { createRegistryAuth } from '../../src/http/registry/login/registry-auth.ts';
import { createLogIn } from '../../src/http/registry/login/token-route.ts';
import { basic } from '../hosted/push-client.ts';

function requestOf(headers: Readonly<Record<string, string>>): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  Object.assign(request.headers, headers);
  return request;
}

test('a token that belongs to no account is not confused with a caller without a login', async () => {
  const tokens = createRegistryTokens(Buffer.alloc(32, 7), 'images.example.com');
  const accounts = new Map([['ada', { password: 'word' }]]);
  const authenticator = createAuthenticator({
    ...{ accounts, accountCheck: createAccountCheck(accounts) },
    ...{ hasAccountFiles: false, anonymous: [], tokens },
  });
  const auth = createRegistryAuth({
    ...{
      authenticator,
      tokens,
      realm: 'https://images.example.com/token',
      pulls: 'login',
    },
    logIn: createLogIn({
      ...{ host: 'images.example.com', servedRequest: async () => undefined },
      ...{ authenticator, identify: async () => undefined },
      logins: createLoginLimit(undefined, 0),
    }),
  });
  const actors: string[] = [];
  const audit = { add: ({ actor }: { readonly actor: string }) => void actors.push(actor) };
  const recordAudit = createRecordAudit(audit, 0);
  const access = [{ type: 'repository', name: 'builds/one', actions: ['pull', 'push'] }] as const;
  const ofBuilder = await tokens.issue({ access }, 600_000);
  const ofAccount = await tokens.issue({ account: 'ada', access }, 600_000);
  for (const [headers, actor] of [
    [{ authorization: `Bearer ${ofBuilder}` }, 'a token of this server'],
    [basic('token', ofBuilder), 'a token of this server'],
    [{ authorization: `Bearer ${ofAccount}` }, 'account ada'],
    [{ authorization: `Bearer ${ofBuilder}x` }, 'a caller without a login'],
    [{}, 'a caller without a login'],
  ] as const) {
    const request = requestOf(headers);
    const admitted = auth.admit(request, 'builds/one', 'push');
    if (actor === 'a caller without a login') await assert.rejects(admitted);
    else await admitted;
    recordAudit(request, 'manifest.push', 'builds/one');
    assert.equal(actors.at(-1), actor);
  }
});
