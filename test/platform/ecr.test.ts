import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEcrLogin } from '../../src/platform/credentials/ecr.ts';
import type { AwsKeys } from '../../src/platform/credentials/registry-login.ts';
import { createTransport } from '../../src/upstream/transport/transport.ts';
import { isFault } from './platform-world.ts';
import { startScriptedAws } from './scripted-aws.ts';

const ireland = { kind: 'private', region: 'eu-west-1' } as const;
const gallery = { kind: 'public', region: 'us-east-1' } as const;
const role = 'arn:aws:iam::123456789012:role/puller';
const keys = (accessKey?: string, assumeRoleArn?: string, externalId?: string): AwsKeys => ({
  accessKey,
  secretKey: accessKey && 'the-secret-key',
  assumeRoleArn,
  externalId,
});

async function start(assumeRoles = false) {
  const stack = new AsyncDisposableStack();
  const aws = stack.use(await startScriptedAws());
  aws.accounts.add('AKIAGOOD');
  const timeouts = { connectMs: 2000, headersMs: 2000, idleMs: 2000 };
  const transport = createTransport(new Map(), timeouts, [new URL(aws.url).host]);
  stack.defer(() => transport.close());
  const clock = { now: Date.now() };
  const login = createEcrLogin({
    transport,
    assumeRoles,
    endpoint: aws.url,
    now: () => clock.now,
    wall: () => clock.now,
  });
  return { aws, clock, login, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test('an access key is exchanged for a password, in the region of the registry', async () => {
  await using at = await start();
  const password = await at.login(ireland, keys('AKIAGOOD'), 'mine');
  assert.deepEqual(password, { kind: 'password', username: 'AWS', password: 'password-1' });
  const { service, region, accessKey, sessionToken } = at.aws.calls[0] ?? {};
  assert.deepEqual(
    [service, region, accessKey, sessionToken],
    ['ecr', 'eu-west-1', 'AKIAGOOD', undefined],
  );
});

test('the public gallery has its own passwords', async () => {
  await using at = await start();
  assert.equal((await at.login(gallery, keys('AKIAGOOD'), 'mine')).kind, 'password');
  assert.deepEqual(
    [at.aws.calls[0]?.service, at.aws.calls[0]?.region],
    ['ecr-public', 'us-east-1'],
  );
});

test('a password is requested once, until shortly before it expires', async () => {
  await using at = await start();
  at.aws.accounts.add('AKIAOTHER');
  at.aws.expiresAt = Math.ceil(at.clock.now / 1000) * 1000 + 3_600_000;
  const same = await Promise.all(
    Array.from({ length: 20 }, () => at.login(ireland, keys('AKIAGOOD'), 'mine')),
  );
  assert.equal(new Set(same).size, 1);
  at.clock.now = at.aws.expiresAt - 5 * 60_000 - 1;
  await at.login(ireland, keys('AKIAGOOD'), 'mine');
  assert.equal(at.aws.calls.length, 1);
  await at.login(ireland, keys('AKIAOTHER'), 'other');
  await at.login({ ...ireland, region: 'eu-central-1' }, keys('AKIAGOOD'), 'mine');
  assert.equal(at.aws.calls.length, 3);
  at.clock.now += 1;
  await at.login(ireland, keys('AKIAGOOD'), 'mine');
  assert.equal(at.aws.calls.length, 4);
});

test('a role is assumed with its keys and its external id', async () => {
  await using at = await start();
  at.aws.roles.set(role, 'external-1');
  assert.equal(
    (await at.login(ireland, keys('AKIAGOOD', role, 'external-1'), 'r')).kind,
    'password',
  );
  const [taking, asking] = at.aws.calls;
  const form = new URLSearchParams(taking?.body);
  assert.deepEqual(
    [taking?.service, taking?.region, form.get('RoleArn'), form.get('ExternalId')],
    ['sts', 'eu-west-1', role, 'external-1'],
  );
  assert.deepEqual([asking?.accessKey, asking?.sessionToken], ['ASIATAKEN', 'taken-session']);
  await assert.rejects(
    at.login(ireland, keys('AKIAGOOD', role, 'external-2'), 'r'),
    isFault('denied', /AWS refused the credentials 'r' \(AccessDenied\)/, 'AKIAGOOD', 'external-2'),
  );
});

test("this server's own identity assumes roles only if the operator allows it", async () => {
  await using closed = await start();
  await assert.rejects(
    closed.login(ireland, keys(undefined, role, 'external-1'), 'r'),
    isFault('denied', /platform\.assumeRoles/, role),
  );
  assert.equal(closed.aws.calls.length, 0);

  await using open = await start(true);
  open.aws.roles.set(role, 'external-1');
  process.env.AWS_ACCESS_KEY_ID = 'AKIAGOOD';
  process.env.AWS_SECRET_ACCESS_KEY = 'own';
  try {
    await open.login(ireland, keys(undefined, role, 'external-1'), 'r');
  } finally {
    delete process.env.AWS_ACCESS_KEY_ID;
    delete process.env.AWS_SECRET_ACCESS_KEY;
  }
  assert.deepEqual(
    open.aws.calls.map(({ service, accessKey }) => [service, accessKey]),
    [
      ['sts', 'AKIAGOOD'],
      ['ecr', 'ASIATAKEN'],
    ],
  );
});

test('refusals and failures of AWS are distinguished, without quoting AWS', async () => {
  await using at = await start();
  const secrets = ['AKIABAD', 'the-secret-key', 'may not'];
  await assert.rejects(
    at.login(ireland, keys('AKIABAD'), 'mine'),
    isFault(
      'denied',
      /'mine' \(UnrecognizedClientException\).*ecr:GetAuthorizationToken/,
      ...secrets,
    ),
  );
  at.aws.failures.push(500, 500, 500);
  await assert.rejects(
    at.login(ireland, keys('AKIAGOOD'), 'mine'),
    isFault('unavailable', /Cannot request a password from AWS/, ...secrets),
  );
  at.aws.failures.push(503);
  assert.equal((await at.login(ireland, keys('AKIAGOOD'), 'mine')).kind, 'password');
});

test('requests to AWS use the common transport', async () => {
  await using aws = await startScriptedAws();
  const transport = createTransport(new Map(), { connectMs: 2000, headersMs: 2000, idleMs: 2000 });
  const login = createEcrLogin({ transport, assumeRoles: false, endpoint: aws.url });
  await assert.rejects(login(ireland, keys('AKIAGOOD'), 'mine'), { name: 'Fault' });
  assert.equal(aws.calls.length, 0);
  await transport.close();
});
