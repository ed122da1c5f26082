/** `sluice config`: the effective settings and their origins, and the check of a file. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { settings } from '../../src/server/config/load.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const file = `prefix: images
data: state
accounts:
  admin: hunter2-admin
  ci: { password: hunter2-ci, repositories: { "team/*": push } }
platform:
  pairingToken: hunter2-pairing-token
limits:
  pulls: { anonymous: 10/hour }
registries:
  quay.io:
    username: reader
    password: hunter2-quay
`;

interface Shown {
  readonly setting: string;
  readonly value: unknown;
  readonly origin: string;
}

async function withFile<T>(text: string, use: (path: string, directory: TempDir) => Promise<T>) {
  await using directory = await makeTempDir('config-command');
  const path = directory.join('sluice.yaml');
  await writeFile(path, text);
  return await use(path, directory);
}

suite('sluice config', { concurrency: 2 }, () => {
  test('shows every setting with its origin, and no secret', async () => {
    await withFile(file, async (path, directory) => {
      const environment = { SLUICE_CONFIG: path, SLUICE_LOG_LEVEL: 'debug' };
      const args = ['config', '--listen', '127.0.0.1:7000'];
      const json = await sluiceCommand([...args, '--json'], environment);
      assert.equal(json.code, 0, json.stderr);
      const shown: readonly Shown[] = JSON.parse(json.stdout).settings;
      const of = (name: string) => shown.find(({ setting }) => setting === name);
      const rows: readonly (readonly [string, unknown, string])[] = [
        ['listen', '127.0.0.1:7000', '--listen'],
        ['url', 'http://127.0.0.1:7000', 'default'],
        ['logLevel', 'debug', 'SLUICE_LOG_LEVEL'],
        ['prefix', 'images', `${path}:1`],
        ['data', directory.join('state'), `${path}:2`],
        ['accounts.admin', '***', `${path}:3`],
        ['platform.pairingToken', '***', `${path}:7`],
        ['limits.pulls.anonymous', '10/hour', `${path}:9`],
        ['limits.pulls.authenticated', '1000/minute', 'default'],
        ['access.builds', 'open', 'default'],
        ['registries.quay.io.username', 'reader', `${path}:12`],
        ['registries.quay.io.password', '***', `${path}:13`],
      ];
      for (const [setting, value, origin] of rows) {
        assert.deepEqual(of(setting), { setting, value, origin });
      }
      for (const {
        path: [top = ''],
      } of settings) {
        assert.ok(
          shown.some(({ setting }) => setting.split('.')[0] === top),
          top,
        );
      }
      const table = await sluiceCommand(args, environment);
      assert.match(table.stdout, /^SETTING +VALUE +ORIGIN\nlisten +127\.0\.0\.1:7000 +--listen\n/);
      for (const { stdout, stderr } of [json, table])
        assert.doesNotMatch(stdout + stderr, /hunter2/);
    });
  });

  test('reports all faults of a file with their lines, and exits with 2', async () => {
    const wrong = `prefix: a/b
datta: x
registries:
  quay.io:
    username: reader
  x.example:
    ca: nowhere.pem
  y.example:
    blob: cache
sif: { signingKey: nowhere.key }
tls:
  listen: 127.0.0.1:7000
accountFiles:
  - file: nowhere.htpasswd
`;
    await withFile(wrong, async path => {
      const { code, stdout } = await sluiceCommand(['config', '--check', path, '--json']);
      assert.equal(code, 2);
      const { valid, faults } = JSON.parse(stdout);
      assert.equal(valid, false);
      const text = await sluiceCommand(['config', '--check', path], { SLUICE_LISTEN: 'wrong' });
      assert.equal(text.code, 2);
      const lines = text.stdout.trimEnd().split('\n');
      assert.equal(lines.length, faults.length);
      const expected = [
        /:1: prefix: expected one path segment/,
        /:2: unknown setting: datta \(did you mean data\?\)$/,
        /:4: registries\.quay\.io: 'username' and 'password'/,
        /:6: registries\.x\.example\.ca: .*nowhere\.pem/,
        /:9: registries\.y\.example: unknown setting: blob \(did you mean blobs\?\)$/,
        /:10: sif\.signingKey: .*nowhere\.key/,
        /:11: 'tls\.listen'/,
        /:14: .*nowhere\.htpasswd/,
      ];
      assert.equal(lines.length, expected.length, text.stdout);
      for (const [at, pattern] of expected.entries()) assert.match(lines[at] ?? '', pattern);
    });
  });

  test('reports a file that is valid, that is not YAML, and that does not exist', async () => {
    await withFile(file, async path => {
      const { code, stdout } = await sluiceCommand(['config', '--check', path]);
      assert.deepEqual([code, stdout], [0, `${path} is a valid configuration file\n`]);
    });
    await withFile('accounts:\n  admin: "hunter2\nprefix: x\n', async path => {
      const { code, stdout } = await sluiceCommand(['config', '--check', path]);
      assert.equal(code, 2);
      assert.match(stdout, /is not valid YAML at line \d+/);
      assert.doesNotMatch(stdout, /hunter2/);
    });
    const { code, stdout } = await sluiceCommand(['config', '--check', '/nowhere/sluice.yaml']);
    assert.equal(code, 2);
    assert.match(stdout, /Cannot read the configuration file .*: it does not exist/);
  });
});
