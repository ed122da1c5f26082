/** Accounts with hashes, in the configuration and in `htpasswd` files that change while the server runs. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { rename, rm, writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { hashPassword } from '../../src/hosted/accounts/password-hash.ts';
import { basic } from '../http/platform/platform-server.ts';
import { serverCommand } from '../world/server-command.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const run = promisify(execFile);
const bcryptOf = (password: string) => bcrypt(password, 5);

const status = async (sluice: Sluice, name: string, password: string, path: string) =>
  (await sluice.fetch(path, { headers: { authorization: basic(name, password) } })).status;

async function until(what: string, isDone: () => Promise<boolean>): Promise<void> {
  for (const began = Date.now(); !(await isDone()); ) {
    assert.ok(Date.now() - began < 30_000, what);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

const administration = '/platform/users';
const tags = (repository: string) => `/v2/${repository}/tags/list`;

suite('accounts', { concurrency: 2 }, () => {
  test('may have hashes in the file and in the environment', async () => {
    await using inFile = await startSluice({
      config: {
        accounts: {
          ada: await bcryptOf('lovelace'),
          ci: { password: await hashPassword('word'), repositories: { 'team/*': 'push' } },
          old: 'plain',
        },
      },
    });
    assert.equal(await status(inFile, 'ada', 'lovelace', administration), 200);
    assert.equal(await status(inFile, 'old', 'plain', administration), 200);
    assert.equal(await status(inFile, 'ada', 'wrong', administration), 401);
    assert.equal(await status(inFile, 'nobody', 'lovelace', administration), 401);
    assert.equal(await status(inFile, 'ci', 'word', administration), 403);
    assert.equal(await status(inFile, 'ci', 'word', tags('team/app')), 404);
    assert.equal(await status(inFile, 'ci', 'word', tags('other/app')), 403);
    await using inEnvironment = await startSluice({
      env: { SLUICE_ACCOUNTS: `ada:${await hashPassword('lovelace')},bob:${await bcryptOf('b')}` },
    });
    assert.equal(await status(inEnvironment, 'ada', 'lovelace', administration), 200);
    assert.equal(await status(inEnvironment, 'bob', 'b', administration), 200);
  });

  test('of a file are added, changed and removed while the server runs, with an audit entry', async () => {
    await using directory = await makeTempDir('accounts');
    const file = directory.join('htpasswd');
    const write = async (...entries: (readonly [string, string])[]) => {
      const lines = await Promise.all(
        entries.map(async ([name, password]) => `${name}:${await bcryptOf(password)}\n`),
      );
      await writeFile(`${file}.new`, ['# accounts\n\n', ...lines].join(''));
      await rename(`${file}.new`, file);
    };
    await write(['ada', 'one'], ['ci', 'word']);
    await using sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        accountFiles: [{ file, administrators: ['ada'], repositories: { 'team/*': 'pull' } }],
        limits: { logins: '100000/minute' },
      },
    });
    assert.equal(await status(sluice, 'ada', 'one', administration), 200);
    assert.equal(await status(sluice, 'ci', 'word', administration), 403, 'no administrator');
    assert.equal(await status(sluice, 'ci', 'word', tags('team/app')), 404);
    assert.equal(await status(sluice, 'ci', 'word', tags('other/app')), 403);
    const granted = await sluice.fetch('/v2/token?scope=repository:team/app:pull', {
      headers: { authorization: basic('ci', 'word') },
    });
    const { token } = (await granted.json()) as { token: string };
    const withToken = async () =>
      (await sluice.fetch(tags('team/app'), { headers: { authorization: `Bearer ${token}` } }))
        .status;
    assert.equal(await withToken(), 404);

    await write(['ada', 'two'], ['bob', 'new']);
    await until(
      'the new file is used',
      async () => (await status(sluice, 'bob', 'new', '/v2/')) === 200,
    );
    assert.equal(await status(sluice, 'ada', 'one', administration), 401);
    assert.equal(await status(sluice, 'ada', 'two', administration), 200);
    assert.equal(await status(sluice, 'ci', 'word', '/v2/'), 401);
    assert.equal(await withToken(), 401, 'its token ends with the account');

    await writeFile(file, 'ada:$apr1$abcdefgh$0123456789012345678901\n');
    await until('the log says so', async () => /its previous accounts stay/.test(sluice.output()));
    assert.equal(await status(sluice, 'ada', 'two', administration), 200);
    assert.match(sluice.output(), /line 1: the format of the password hash is unknown/);
    assert.ok(!sluice.output().includes('$apr1$'));

    await rm(file);
    await until('a missing file too', async () => /it does not exist/.test(sluice.output()));
    assert.equal(await status(sluice, 'ada', 'two', administration), 200);
    await write(['admin', 'mine']);
    await until('a name twice', async () => /'admin' is also listed/.test(sluice.output()));
    assert.equal(await status(sluice, 'admin', 'mine', administration), 401);

    await writeFile(file, '');
    await until(
      'all are removed',
      async () => (await status(sluice, 'ada', 'two', '/v2/')) === 401,
    );
    const { stdout } = await run(process.execPath, [
      ...['bin/sluice.js', 'audit', '--data', sluice.data, '--json'],
    ]);
    const recorded = (
      JSON.parse(stdout) as { entries: { action: string; target: string }[] }
    ).entries
      .filter(({ action }) => action.startsWith('account.'))
      .map(({ action, target }) => `${action} ${target}`)
      .sort();
    assert.deepEqual(recorded, [
      ...['account.add bob', 'account.change ada', 'account.remove ada'],
      ...['account.remove bob', 'account.remove ci'],
    ]);
  });

  test('prevent the start if a file or a hash cannot be used', async () => {
    await using directory = await makeTempDir('accounts');
    const file = directory.join('htpasswd');
    const config = directory.join('sluice.yaml');
    const start = async (settings: object) => {
      await writeFile(config, JSON.stringify(settings));
      const [command = '', ...args] = serverCommand();
      const child = spawn(command, args, {
        env: {
          ...{ PATH: process.env.PATH, SLUICE_CONFIG: config, SLUICE_BUILDKIT: 'off' },
          ...{ SLUICE_DATA: directory.join('data'), SLUICE_LISTEN: '127.0.0.1:0' },
        },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let text = '';
      child.stderr.on('data', chunk => {
        text += chunk;
      });
      const code = await new Promise(resolve => child.once('close', resolve));
      return { code, text };
    };
    const hash = await bcryptOf('x');
    for (const [settings, text, expected] of [
      [
        { accounts: { ada: '$1$salt$hash' } },
        '',
        /'accounts\.ada' \(line 1\): the format of the password hash/,
      ],
      [{ accountFiles: [{ file: 'nowhere' }] }, '', /nowhere cannot be used: it does not exist/],
      [
        { accountFiles: [{ file: 'htpasswd' }] },
        'ada:plain\n',
        /line 1: this is not a password ha/,
      ],
      [{ accountFiles: [{ file: 'htpasswd' }] }, `\ntoken:${hash}\n`, /line 2: the name 'token'/],
      [
        { accountFiles: [{ file: 'htpasswd' }] },
        `a:${hash}\na:${hash}`,
        /line 2: this name is listed twice/,
      ],
      [{ accountFiles: [{ file: 'htpasswd', role: 'all' }] }, '', /unknown setting: role/],
    ] as const) {
      await writeFile(file, text);
      const ended = await start(settings);
      assert.match(ended.text, expected);
      assert.equal(ended.code, 2);
      assert.ok(!ended.text.includes('    at '), 'no stack trace');
    }
  });

  test('get a hash from the command line', async () => {
    const child = run(process.execPath, ['bin/sluice.js', 'account', 'hash']);
    child.child.stdin?.end('lovelace\n');
    const password = (await child).stdout.trim();
    await using sluice = await startSluice({ config: { accounts: { ada: password } } });
    assert.equal(await status(sluice, 'ada', 'lovelace', administration), 200);
  });
});
