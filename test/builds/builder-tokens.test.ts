import assert from 'node:assert/strict';
import { test } from 'node:test';
import { builderTokens } from '../../src/builds/solve/build-rights.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { parseReference } from '../../src/oci/reference.ts';
import type { FetchToken } from '../../src/upstream/auth/bearer.ts';
import type { CredentialSource } from '../../src/upstream/credentials.ts';

const realm = 'https://auth.registry.test/token';
const credentials: CredentialSource = async (registry, repository) => {
  if (registry !== 'registry.test' || repository === 'nobody/app') return undefined;
  return { kind: 'password', username: `of ${repository}`, password: 'secret' };
};

function make() {
  const asked: Parameters<FetchToken>[0][] = [];
  const tokens = builderTokens(
    ['registry.test/team/made:1', 'registry.test/nobody/app', 'open.test/x'].map(parseReference),
    credentials,
    async request => {
      asked.push(request);
      return { token: 'token', expiresAt: performance.now() + 59_500 };
    },
  );
  const fetch = async (...scopes: string[]) => {
    const response = await tokens.fetch({ host: 'registry.test', realm, service: 'r', scopes });
    assert.deepEqual(response, { token: 'token', lifeSeconds: 59 });
    const { repository, credentials: used, scopes: allowed, challenge } = asked.at(-1) ?? {};
    assert.deepEqual(challenge, { scheme: 'bearer', parameters: { realm, service: 'r' } });
    return { repository, user: used && 'username' in used ? used.username : undefined, allowed };
  };
  return { tokens, asked, fetch };
}

test('registries with credentials get tokens', async () => {
  const { tokens } = make();
  assert.equal(await tokens.covers('registry.test'), true);
  for (const host of ['open.test', 'other.test', 'REGISTRY.test', 'registry.test:443']) {
    assert.equal(await tokens.covers(host), false, host);
  }
});

test('a token is requested with the credentials for its repository, and with the rights of the build only', async () => {
  const { fetch } = make();
  assert.deepEqual(await fetch('repository:team/made:pull'), {
    ...{ repository: 'team/made', user: 'of team/made', allowed: ['repository:team/made:pull'] },
  });
  assert.deepEqual(await fetch('repository:nobody/app:pull'), {
    ...{ repository: 'nobody/app', user: undefined, allowed: ['repository:nobody/app:pull'] },
  });
  // A mount of blobs uses the rights to the target repository.
  assert.deepEqual(
    await fetch(
      'repository:elsewhere/app:pull,push,delete',
      'repository:team/base:pull,push',
      'repository:team/made:delete,pull,push',
      'registry:catalog:*',
    ),
    {
      repository: 'team/made',
      user: 'of team/made',
      allowed: [
        'repository:elsewhere/app:pull',
        'repository:team/base:pull',
        'repository:team/made:pull,push',
      ],
    },
  );
});

test('repositories outside the build get no token', async () => {
  const { tokens, asked } = make();
  for (const scopes of [[], ['repository:elsewhere/app:pull'], ['repository:team:pull'], ['x']]) {
    await assert.rejects(
      tokens.fetch({ host: 'registry.test', realm, service: '', scopes }),
      (error: unknown) => error instanceof Fault && error.status === 403,
    );
  }
  const scopes = ['repository:team/made:pull'];
  await assert.rejects(tokens.fetch({ host: 'other.test', realm, service: '', scopes }), Fault);
  assert.equal(asked.length, 0);
});
