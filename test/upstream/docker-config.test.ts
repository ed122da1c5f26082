import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { dockerConfigCredentials } from '../../src/upstream/auth/docker-config.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const auth = (user: string, password: string) => btoa(`${user}:${password}`);
const password = (username: string, secret: string) => ({
  kind: 'password',
  username,
  password: secret,
});

test('spellings of hosts in auths', async () => {
  const find = dockerConfigCredentials(
    JSON.stringify({
      auths: {
        'https://index.docker.io/v1/': { auth: auth('hub', 'a:b:c') },
        'registry.example.com': { auth: auth('one', '1') },
        'registry.example.com:5000': { username: 'two', password: '2' },
        'https://old.example.com/v2/': { auth: auth('three', '3') },
        'sso.example.com': { auth: auth('00000000', ''), identitytoken: 'refresh' },
        'empty.example.com': {},
        'broken.example.com': { auth: '%%%' },
      },
    }),
  );
  const cases = {
    'docker.io': password('hub', 'a:b:c'),
    'index.docker.io': password('hub', 'a:b:c'),
    'registry-1.docker.io': password('hub', 'a:b:c'),
    'registry.example.com': password('one', '1'),
    'REGISTRY.example.com': password('one', '1'),
    'registry.example.com:5000': password('two', '2'),
    'old.example.com': password('three', '3'),
    'sso.example.com': { kind: 'identity-token', token: 'refresh' },
    'empty.example.com': undefined,
    'broken.example.com': undefined,
    'registry.example.com:5001': undefined,
    'example.com': undefined,
    'evil-registry.example.com': undefined,
    'registry.example.com.evil.org': undefined,
  };
  for (const [host, expected] of Object.entries(cases)) {
    assert.deepEqual(await find(host), expected, host);
  }
});

// Source: containers-auth.json(5): podman and skopeo write keys for parts of a registry.
test('a key with a path is for that part of a registry, and the longest one counts', async () => {
  const find = dockerConfigCredentials(
    JSON.stringify({
      auths: {
        'quay.io/team': { auth: auth('team', '1') },
        'quay.io/team/app': { auth: auth('app', '2') },
        'quay.io/other/': { auth: auth('other', '3') },
        'docker.io/lab': { auth: auth('lab', '4') },
        'index.docker.io/v1': { auth: auth('hub', '5') },
        'ghcr.io/v2/': { auth: auth('hub', '6') },
      },
    }),
  );
  assert.deepEqual(await find('quay.io', 'team/tool'), password('team', '1'));
  assert.deepEqual(await find('quay.io', 'team'), password('team', '1'));
  assert.deepEqual(await find('quay.io', 'team/app/deep'), password('app', '2'));
  assert.deepEqual(await find('quay.io', 'team/apple'), password('team', '1'));
  assert.deepEqual(await find('quay.io', 'other/x'), password('other', '3'));
  assert.equal(await find('quay.io', 'teams/x'), undefined);
  assert.equal(await find('quay.io'), undefined);
  assert.deepEqual(await find('docker.io', 'lab/x'), password('lab', '4'));
  assert.deepEqual(await find('docker.io', 'library/alpine'), password('hub', '5'));
  assert.deepEqual(await find('ghcr.io', 'v2/x'), password('hub', '6'));
});

test('credential helpers', async () => {
  await using directory = await makeTempDir('helper');
  const helper = directory.join('docker-credential-of-tests');
  await writeFile(
    helper,
    `#!/bin/sh
read -r server
case "$1 $server" in
  "get helped.example.com") echo '{"Username":"helped","Secret":"s"}' ;;
  "get sso.example.com") echo '{"Username":"<token>","Secret":"t"}' ;;
  "get https://index.docker.io/v1/") echo '{"Username":"hub","Secret":"h"}' ;;
  *) echo "credentials not found in native keychain"; exit 1 ;;
esac
`,
  );
  await chmod(helper, 0o755);
  const { PATH } = process.env;
  process.env.PATH = `${directory.path}:${PATH}`;
  try {
    const find = dockerConfigCredentials(
      JSON.stringify({
        auths: { 'own.example.com': { auth: auth('own', 'o') }, 'helped.example.com': {} },
        credHelpers: { 'sso.example.com': 'of-tests', 'bad.example.com': '../../bin/sh' },
        credsStore: 'of-tests',
      }),
    );
    assert.deepEqual(await find('helped.example.com'), password('helped', 's'));
    assert.deepEqual(await find('sso.example.com'), { kind: 'identity-token', token: 't' });
    assert.deepEqual(await find('docker.io'), password('hub', 'h'));
    assert.deepEqual(await find('own.example.com'), password('own', 'o'));
    assert.equal(await find('unknown.example.com'), undefined);
    assert.equal(await find('bad.example.com'), undefined);
  } finally {
    process.env.PATH = PATH;
  }
});

test('files that are not a Docker configuration are refused', () => {
  for (const text of ['', 'no JSON', '[]', '{"auths": []}', '{"auths": {"x": {"auth": 5}}}']) {
    assert.throws(() => dockerConfigCredentials(text), text);
  }
});
