import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { effectiveSettings } from '../../src/server/config/effective.ts';
import { loadConfig } from '../../src/server/config/load.ts';
import { configuredChannels } from '../../src/server/config/read/registries.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const read = (channels: object) => configuredChannels(configSchema.parse({ channels }));

test('a channel is listed by its name or its base URL', () => {
  const [named, renamed, addressed] = read({
    bioconda: {},
    team: { url: 'https://conda.example/team/', mirrors: ['https://mirror.example/team/'] },
    'https://other.example/x/': { allowPrivateAddress: true },
  });
  assert.equal(named?.url, 'https://conda.anaconda.org/bioconda');
  assert.equal(named?.allowPrivateAddress, false);
  assert.equal(renamed?.url, 'https://conda.example/team');
  assert.deepEqual(renamed?.mirrors, ['https://mirror.example/team']);
  assert.deepEqual(addressed?.keys, ['https://other.example/x']);
  assert.equal(addressed?.url, 'https://other.example/x');
});

test('a token or a login may stand in the URL, and is not part of the base URL', () => {
  const [token, deep, both, login] = read({
    team: { url: 'https://conda.example/t/tk-123/team' },
    deep: { url: 'https://conda.example/a/b/t/tk-123/team' },
    both: { url: 'https://conda.example/a/t/old/team', token: 'tk-9' },
    other: { url: 'https://ann:pw@conda.example/other' },
  });
  assert.equal(token?.url, 'https://conda.example/team');
  assert.deepEqual(token?.credentials, { kind: 'path-token', token: 'tk-123' });
  assert.equal(deep?.url, 'https://conda.example/a/b/team');
  assert.deepEqual(deep?.credentials, { kind: 'path-token', token: 'tk-123', above: '/a/b' });
  assert.equal(both?.url, 'https://conda.example/a/team');
  assert.deepEqual(both?.credentials, { kind: 'token', token: 'tk-9', above: '/a' });
  assert.equal(login?.url, 'https://conda.example/other');
  assert.deepEqual(login?.credentials, { kind: 'password', username: 'ann', password: 'pw' });
});

test('an incomplete login, two kinds of credentials, and a missing authority are refused', () => {
  assert.throws(() => read({ team: { username: 'ann' } }), /channels\.team: 'username' and/);
  assert.throws(
    () => read({ team: { username: 'ann', password: 'x', token: 'y' } }),
    /channels\.team: list either a token/,
  );
  assert.throws(() => read({ team: { ca: '/nowhere/ca.pem' } }), /channels\.team\.ca: the file/);
});

test('a name that is neither a channel nor an address is refused, and so is a secret in it', () => {
  const fails = (name: string) => !configSchema.safeParse({ channels: { [name]: {} } }).success;
  assert.ok(fails('ftp://conda.example/x'));
  assert.ok(fails('https://conda.example/t/tk-123/team'));
  assert.ok(fails('https://conda.example/conda/t/tk-123/team'));
  assert.ok(fails('t/tk-123/team'));
  assert.ok(fails('https://ann:pw@conda.example/team'));
  assert.ok(!fails('conda-forge/label/dev'));
});

test('two names of one channel are refused, and `defaults` requires an address', () => {
  const faultOf = (channels: object) =>
    configSchema.safeParse({ channels }).error?.issues.map(({ path, message }) => [path, message]);
  const url = 'https://mirror.example/x';
  assert.deepEqual(faultOf({ main: { url }, 'pkgs/main': { url } }), [
    [['channels', 'pkgs/main'], "the same channel as 'main': list one of them"],
  ]);
  assert.match(
    String(faultOf({ defaults: {} })),
    /channels,defaults,'url' is missing: .* pkgs\/main/,
  );
  assert.equal(faultOf({ defaults: { url }, 'pkgs/main': { url }, r: { url } }), undefined);
  const [main] = read({ main: { url } });
  assert.deepEqual(main?.keys, ['pkgs/main']);
});

test('the settings that are shown hold no token and no password of a channel', async () => {
  await using directory = await makeTempDir('channels');
  const file = directory.join('sluice.yaml');
  await writeFile(
    file,
    'channels:\n  a: {token: sEcret1}\n  b: {username: ann, password: sEcret2}\n  c: {url: "https://x.example/t/sEcret3/c"}\n  d: {url: "https://x.example/d/t/sEcret4/c"}\n',
  );
  const shown = JSON.stringify(effectiveSettings(loadConfig({ SLUICE_CONFIG: file })));
  assert.ok(!shown.includes('sEcret'), shown);
  assert.match(shown, /https:\/\/x\.example\/t\/\*\*\*\/c/);
  assert.match(shown, /https:\/\/x\.example\/d\/t\/\*\*\*\/c/);
});
