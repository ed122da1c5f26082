import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { type PlanRequest, planBuild } from '../../src/builds/plan/plan.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const pemOf = (cipher: object = {}) =>
  base64(
    generateKeyPairSync('ed25519', {
      privateKeyEncoding: { format: 'pem', type: 'pkcs8', ...cipher },
      publicKeyEncoding: { format: 'pem', type: 'spki' },
    }).privateKey,
  );
const keys = {
  one: pemOf(),
  two: pemOf(),
  encrypted: pemOf({ cipher: 'aes-256-cbc', passphrase: 'secret' }),
};
const dockerfile = base64('ARG BASE=alpine\nFROM $BASE AS first\nRUN a\nFROM debian\nRUN b\n');
const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
const plan = (more: PlanRequest = {}) => {
  const { key, origin } = planBuild({ containerFile: dockerfile, ...more }, places);
  assert.ok(origin.kind === 'recipe');
  return { key, origin, options: origin.options };
};

test('options that change the image change the key, other options do not', () => {
  const known = { buildRepository: 'registry.test/team/app' };
  const requests: readonly PlanRequest[] = [
    {},
    { buildArgs: { BASE: 'debian' } },
    { buildArgs: { BASE: 'debian2' } },
    { buildTarget: 'first' },
    { labels: { a: 'b' } },
    { annotations: { a: 'b' } },
    { created: '2026-01-31T12:00:00Z' },
    { mountsOf: 'ada' },
    { mountsOf: 'eve' },
    known,
    { ...known, secrets: { token: base64('one') } },
    { ...known, ssh: { token: [keys.one] } },
    { ...known, ssh: { other: [keys.one] } },
  ];
  assert.equal(new Set(requests.map(request => plan(request).key)).size, requests.length);
  assert.equal(plan({ noCache: true }).key, plan().key);
  const secret = (value: string) => plan({ ...known, secrets: { token: base64(value) } });
  assert.equal(secret('one').key, secret('two').key);
  assert.deepEqual(secret('one').options, { secretIds: ['token'] });
  assert.doesNotMatch(JSON.stringify(secret('one').origin), new RegExp(base64('one')));
  const ssh = (...given: readonly string[]) => plan({ ...known, ssh: { token: given } });
  assert.equal(ssh(keys.one).key, ssh(keys.two, keys.one).key);
  assert.deepEqual(ssh(keys.one).options, { sshIds: ['token'] });
  assert.doesNotMatch(JSON.stringify(ssh(keys.one).origin), new RegExp(keys.one.slice(0, 40)));
  const offset = plan({ created: '2026-01-31T13:00:00+01:00' });
  assert.equal(offset.key, plan({ created: '2026-01-31T12:00:00Z' }).key);
});

test('a build pulls the images of its stage, with the arguments of the request', () => {
  const { baseImages } = plan({ buildTarget: 'FIRST', buildArgs: { BASE: 'busybox:1' } }).origin;
  assert.deepEqual(baseImages, ['docker.io/library/busybox:1']);
});

const own = { buildRepository: 'registry.test/a' };
const refusals: readonly (readonly [string, PlanRequest, RegExp])[] = [
  ['an argument of BuildKit', { buildArgs: { BUILDKIT_SYNTAX: 'evil' } }, /BUILDKIT_SYNTAX/],
  ['the date of the build', { buildArgs: { SOURCE_DATE_EPOCH: '1' } }, /SOURCE_DATE_EPOCH/],
  ['a stage that does not exist', { buildTarget: 'third' }, /the stage 'third' does not exist/],
  ['a label without a name', { labels: { '': 'x' } }, /'labels'/],
  ['a label with = in its name', { labels: { 'a=b': 'x' } }, /'labels'/],
  ['a date that is none', { created: 'yesterday' }, /'created'.*ISO 8601/],
  ['secrets for the default repository', { secrets: { a: '' } }, /requires 'buildRepository'/],
  [
    'a secret with a path for an id',
    { secrets: { '../a': '' }, buildRepository: 'registry.test/a' },
    /'secrets': an id/,
  ],
  [
    'more bytes of secrets than a mask holds',
    {
      secrets: { a: 'YWFh'.repeat(8192), b: 'YWFh'.repeat(8193) },
      buildRepository: 'registry.test/a',
    },
    /'secrets' has 49155 bytes in all, at most 49152 \(48 KiB\) are allowed/,
  ],
  ['an SSH key for the default repository', { ssh: { a: [keys.one] } }, /requires 'buildRepo/],
  ['an SSH agent with a path for an id', { ...own, ssh: { '../a': [keys.one] } }, /'ssh': an id/],
  [
    'more SSH keys than a request may have, of several agents',
    { ...own, ssh: { a: Array(11).fill(keys.one), b: Array(10).fill(keys.one) } },
    /'ssh' has 21 keys, at most 20 are allowed/,
  ],
  ['an SSH agent without a key', { ...own, ssh: { a: [] } }, /'ssh.a' has no key/],
  [
    'an SSH key that is not base64',
    { ...own, ssh: { a: [keys.one, 'no base64'] } },
    /'ssh.a\[1\]' is not base64/,
  ],
  [
    'an SSH key that is a password',
    { ...own, ssh: { a: [base64('password')] } },
    /'ssh.a\[0\]' is not a private key in the format of OpenSSH/,
  ],
  [
    'an SSH key with a passphrase',
    { ...own, ssh: { a: [keys.encrypted] } },
    /'ssh.a\[0\]' is encrypted: specify a key without a passphrase/,
  ],
  [
    'more SSH keys than a server would try',
    { ...own, ssh: { a: Array(11).fill(keys.one), b: Array(10).fill(keys.one) } },
    /'ssh' has 21 keys, at most 20/,
  ],
  [
    'an SSH key for packages',
    {
      ...own,
      containerFile: undefined,
      packages: { type: 'CONDA', entries: ['a'] },
      ssh: { a: [keys.one] },
    },
    /'ssh' requires a Dockerfile/,
  ],
];
for (const [what, request, message] of refusals) {
  test(`refused: ${what}`, () => assert.throws(() => plan(request), message));
}
