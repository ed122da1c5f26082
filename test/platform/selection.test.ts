import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { EcrLogin } from '../../src/platform/credentials/ecr.ts';
import { createSelection } from '../../src/platform/credentials/selection.ts';
import type {
  CredentialEntry,
  CredentialKeys,
  Platform,
} from '../../src/platform/workflow-platform.ts';

const grant = { endpoint: '', accessToken: 'token' };
const ecrHost = '123456789012.dkr.ecr.eu-west-1.amazonaws.com';
const denied = () => new Fault('denied', 'no right', { phase: 'credentials' });

interface Kept extends Partial<CredentialEntry> {
  readonly keys: CredentialKeys | Fault;
}

/** A platform in memory: credentials by workspace, the user's under ''. */
function platformOf(lists: Record<string, Kept[] | Fault>, isTokenGood = true): Platform {
  const entriesOf = (workspace: string | undefined) => {
    const list = lists[workspace ?? ''] ?? [];
    if (list instanceof Fault) throw list;
    return list.map((kept, number) => {
      const id = `${workspace ?? 'user'}-${number}`;
      return { id, name: id, provider: 'container-reg', registry: undefined, ...kept };
    });
  };
  return {
    async user() {
      if (!isTokenGood) throw new Fault('denied', 'the token is bad');
      return { id: '1', userName: 'alice', email: undefined };
    },
    credentials: async (_, workspace) => entriesOf(workspace),
    async keys(_, id, workspace) {
      const keys = entriesOf(workspace).find(entry => entry.id === id)?.keys ?? denied();
      if (keys instanceof Fault) throw keys;
      return keys;
    },
    run: async () => 'RUNNING',
  };
}

const keysFor = (username: string, registry?: string): CredentialKeys => ({
  kind: 'container-reg',
  username,
  password: 'pw',
  registry,
});
const account = (username: string, registry?: string): Kept => ({
  registry,
  keys: keysFor(username, registry),
});
const aws = (accessKey: string): Kept => ({
  provider: 'aws',
  keys: { kind: 'aws', accessKey, secretKey: 's', assumeRoleArn: undefined, externalId: undefined },
});

const ecr: EcrLogin = async ({ kind, region }, { accessKey }, name) => {
  if (accessKey !== 'good') throw new Fault('denied', `AWS refused ${name}`);
  return { kind: 'password', username: 'AWS', password: `${kind} ${region}` };
};

async function found(platform: Platform, image: string, workspace?: string) {
  const slash = image.indexOf('/');
  const [registry, repository] = [image.slice(0, slash), image.slice(slash + 1)];
  const result = await createSelection({ platform, ecr }).find(
    grant,
    workspace,
    registry,
    repository,
  );
  const credentials = result?.credentials;
  return (
    credentials && `${result.owner} ${credentials.kind === 'password' && credentials.username}`
  );
}

test('the workspace precedes the user, and a longer path a shorter one', async () => {
  const platform = platformOf({
    '': [account('me', 'quay.io'), account('me-deep', 'quay.io/team/app'), account('me-hub')],
    '42': [account('we', 'quay.io'), account('we-team', 'quay.io/team')],
  });
  for (const [image, workspace, expected] of [
    ['quay.io/other/app', '42', 'workspace we'],
    ['quay.io/team/app', '42', 'workspace we-team'],
    ['quay.io/team/app', undefined, 'user me-deep'],
    ['quay.io/other/app', undefined, 'user me'],
    ['docker.io/lab/app', '42', 'user me-hub'],
    ['index.docker.io/lab/app', undefined, 'user me-hub'],
    ['ghcr.io/lab/app', '42', undefined],
  ] as const) {
    assert.equal(await found(platform, image, workspace), expected, `${image} ${workspace}`);
  }
});

test('the selection reports its credentials, and serves as a source of them', async () => {
  const kept = { ...account('robot', 'quay.io'), name: 'the robot', description: 'x' };
  const selection = createSelection({ platform: platformOf({ '42': [kept] }), ecr });
  const credentials = { kind: 'password', username: 'robot', password: 'pw' };
  assert.deepEqual(await selection.find(grant, '42', 'quay.io', 'team/app'), {
    id: '42-0',
    name: 'the robot',
    provider: 'container-reg',
    owner: 'workspace',
    credentials,
  });
  assert.deepEqual(await selection.credentialsOf(grant, '42')('quay.io', 'team/app'), credentials);
  assert.equal(await selection.credentialsOf(grant)('quay.io', 'team/app'), undefined);
});

test('unreadable credentials do not block others', async () => {
  for (const fault of [denied(), new Fault('not-found', 'gone')]) {
    const platform = platformOf({
      '': [{ registry: 'quay.io/team', keys: fault }, account('next', 'quay.io')],
    });
    assert.equal(await found(platform, 'quay.io/team/app'), 'user next');
  }
});

test('a bad token, a workspace without access and a failing platform are reported', async () => {
  const unreadable: Kept[] = [{ registry: 'quay.io', keys: denied() }, account('next', 'quay.io')];
  await assert.rejects(
    found(platformOf({ '': unreadable }, false), 'quay.io/x'),
    /the token is bad/,
  );
  await assert.rejects(
    found(platformOf({ '42': denied(), '': [account('me', 'quay.io')] }), 'quay.io/x', '42'),
    /no right/,
  );
  const down = new Fault('unavailable', 'the platform is down');
  await assert.rejects(
    found(
      platformOf({ '': [{ registry: 'quay.io', keys: down }, account('next', 'quay.io')] }),
      'quay.io/x',
    ),
    /is down/,
  );
});

test('a secret is not sent to a registry outside its own scope', async () => {
  const platform = platformOf({
    '': [{ registry: 'evil.example', keys: keysFor('robot', 'quay.io') }],
  });
  assert.equal(await found(platform, 'evil.example/x'), undefined);
});

test('unusable credentials for a registry are reported by name', async () => {
  const platform = platformOf({
    '': [
      {
        name: 'odd one',
        registry: 'registry.example',
        keys: { kind: 'other', discriminator: 'ssh' },
      },
    ],
  });
  await assert.rejects(found(platform, 'registry.example/x'), {
    kind: 'bad-request',
    message: /'odd one' cannot be used for registry\.example/,
  });
});

test('accounts of AWS are tried for its registries', async () => {
  const platform = platformOf({
    '': [aws('good')],
    '1': [aws('bad'), aws('good')],
    '2': [aws('bad')],
    '3': [{ ...aws('bad'), registry: ecrHost }, aws('good')],
  });
  assert.equal(await found(platform, `${ecrHost}/app`, '1'), 'workspace AWS');
  assert.equal(await found(platform, `${ecrHost}/app`, '2'), 'user AWS');
  assert.equal(await found(platform, 'quay.io/app', '1'), undefined);
  await assert.rejects(found(platform, `${ecrHost}/app`, '3'), /AWS refused 3-0/);
  const only = platformOf({ '': [aws('bad')] });
  await assert.rejects(found(only, `${ecrHost}/app`), /AWS refused user-0/);
  assert.equal(await found(only, 'public.ecr.aws/lab/app'), undefined, 'public without an account');
});
