/** `sluice user`, `token`, `workspace` and `credentials`: on a data directory, and on a remote server. */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import type { Result } from '../world/program.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

const password = 'hunter2-0b77a1';

type Run = (args: string, input?: string) => Promise<Result>;

/** Runs commands whose words are separated by spaces, with `--json` where the response is wanted. */
function commands(environment: Readonly<Record<string, string>>, more: readonly string[] = []) {
  const run: Run = (args, input) =>
    sluiceCommand([...args.split(' '), ...more], environment, input);
  const done = async (args: string, input?: string) => assertSuccess(await run(args, input));
  const json = async (args: string, input?: string) =>
    JSON.parse(await done(`${args} --json`, input));
  return { run, done, json };
}

function assertRefused(result: Result, code: number, message: RegExp): void {
  assert.equal(result.code, code, result.stderr);
  assert.equal(result.stdout, '');
  assert.match(result.stderr, message);
  assert.doesNotMatch(result.stderr, /\n {4}at /, 'no stack');
}

const whoIs = (sluice: Sluice, token: string) =>
  sluice.fetch('/platform/user-info', { headers: { authorization: `Bearer ${token}` } });

/** The whole life of users, tokens, workspaces and credentials. */
async function liveThrough({ run, done, json }: ReturnType<typeof commands>): Promise<void> {
  const ada = await json('user add Ada@Example.org');
  assert.equal(ada.email, 'ada@example.org');
  await done('user add bob@example.org');
  assertRefused(await run('user add ada@example.org'), 1, /user ada@example\.org already exists/);
  assertRefused(await run('user add ada'), 1, /must be an e-mail address/);
  const { users } = await json('user list');
  assert.deepEqual(
    users.map(({ email }: { email: string }) => email),
    ['ada@example.org', 'bob@example.org'],
  );

  const { token } = await json('token add --user ada@example.org --name laptop');
  assert.match(token, /^sluice_[0-9a-f]{40}$/);
  const plain = await done('token add --user ada@example.org --name ci --expires-in 90d');
  assert.match(plain, /^sluice_[0-9a-f]{40}\n$/, 'the token and nothing else');
  assertRefused(
    await run('token add --user ada@example.org --name ci'),
    1,
    /already has an access token 'ci'/,
  );
  assertRefused(
    await run('token add --user eve@example.org --name x'),
    1,
    /user eve@.* does not exist/,
  );
  assertRefused(
    await run('token add --user ada@example.org --name x --expires-in 99999999999d'),
    2,
    /--expires-in 99999999999d: the time is too long/,
  );
  assertRefused(
    await run('token add --user ada@example.org --name x --expires-in soon'),
    2,
    /--expires-in .*: expected a time/,
  );
  const { tokens } = await json('token list --user ada@example.org');
  const [laptop, ci] = tokens;
  assert.deepEqual([laptop.name, laptop.expiration], ['laptop', null]);
  const days = (Date.parse(ci.expiration) - Date.now()) / 86_400_000;
  assert.ok(days > 89.9 && days <= 90, String(days));
  assert.doesNotMatch(await done('token list'), /sluice_/);
  assert.deepEqual((await json('token list --user bob@example.org')).tokens, []);

  await done('workspace add genomics');
  await done('workspace add-member genomics --user ada@example.org');
  assertRefused(await run('workspace add Genomics'), 1, /workspace Genomics already exists/);
  assertRefused(
    await run('workspace add-member none --user ada@example.org'),
    1,
    /The workspace none does not exist/,
  );
  assertRefused(
    await run('workspace add-member genomics --user x@y.z'),
    1,
    /user x@y\.z does not exist/,
  );
  const { workspaces } = await json('workspace list');
  assert.deepEqual(workspaces[0].members, ['ada@example.org']);

  const own = await json(
    'credentials add quay.io/team --user ada@example.org --username ada --password-stdin',
    `${password}\n`,
  );
  assert.deepEqual(own.keys, { registry: 'quay.io/team', userName: 'ada' });
  await done(
    'credentials add docker.io --workspace genomics --username lab --password-stdin',
    password,
  );
  await done(
    'credentials add docker.io --user bob@example.org --username bob --password-stdin',
    password,
  );
  assertRefused(
    await run(
      'credentials add docker.io --user bob@example.org --username x --password-stdin',
      'y',
    ),
    1,
    /already has credentials 'docker\.io'/,
  );
  assertRefused(
    await run('credentials add quay.io --user bob@example.org --username x --password-stdin'),
    2,
    /Standard input contains no password/,
  );
  assertRefused(
    await run('credentials add quay.io --user bob@example.org --username x', password),
    2,
    /Missing option: --password-stdin\n\nUsage: sluice credentials add/,
  );
  assertRefused(
    await run('credentials add quay.io --username x --password-stdin', password),
    2,
    /--user EMAIL or --workspace NAME/,
  );
  const listed = await done('credentials list');
  assert.match(listed, /ada@example\.org +quay\.io\/team +quay\.io\/team +ada +never/);
  assert.match(listed, /workspace genomics +docker\.io/);
  for (const workspace of ['genomics', workspaces[0].id]) {
    const { credentials } = await json(`credentials list --workspace ${workspace}`);
    assert.equal(credentials.length, 1, workspace);
  }
  assert.equal((await json('credentials list --user ada@example.org')).credentials[0].id, own.id);

  assertRefused(
    await run('credentials remove docker.io'),
    1,
    /Several credentials match docker\.io: \S+ of /,
  );
  await done('credentials remove docker.io --workspace genomics');
  await done(`credentials remove ${own.id}`);
  assertRefused(await run(`credentials remove ${own.id}`), 1, /The credentials \S+ do not exist/);
  await done(`token remove ${ci.id}`);
  await done('token remove --user ada@example.org --name laptop');
  assertRefused(await run(`token remove ${ci.id}`), 1, /The token does not exist/);
  await done('workspace remove-member genomics --user ada@example.org');
  await done(`workspace remove ${workspaces[0].id}`);
  assertRefused(await run('workspace remove genomics'), 1, /The workspace genomics does not exist/);
  const gone = await json('user remove ada@example.org');
  assert.equal(gone.removed.email, 'ada@example.org');
  assertRefused(
    await run('user remove ada@example.org'),
    1,
    /The user ada@example\.org does not exist/,
  );
  await done('user remove bob@example.org');
  assert.deepEqual((await json('credentials list')).credentials, []);
  assert.equal(await done('user list'), 'EMAIL  CREATED\n');
}

suite('administration of the platform', { concurrency: 2 }, () => {
  test('on a new data directory', async () => {
    await using directory = await makeTempDir('platform-cli');
    const data = directory.join('new', 'data');
    const all = commands({ SLUICE_DATA: data });
    await liveThrough(all);
    const files = globSync('**/*', { cwd: data, withFileTypes: true }).filter(file =>
      file.isFile(),
    );
    assert.ok(files.some(({ name }) => name === 'secrets.key'));
    for (const { parentPath, name } of files) {
      assert.equal(readFileSync(`${parentPath}/${name}`).includes(password), false, name);
    }

    await all.done('user add ada@example.org');
    const { token } = await all.json('token add --user ada@example.org --name first');
    await using sluice = await startSluice({ data });
    const response = await whoIs(sluice, token);
    assert.equal(response.status, 200, 'the server that comes later knows them');
  });

  test('on the data directory of a running server, which sees every change at once', async () => {
    await using sluice = await startSluice();
    const all = commands({}, ['--data', sluice.data]);
    await all.done('user add ada@example.org');
    const { token, id } = await all.json('token add --user ada@example.org --name laptop');
    assert.equal((await whoIs(sluice, token)).status, 200);
    const lookUp = async (path: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await sluice.fetch(`/platform${path}`, { headers })).json();
    };
    assert.deepEqual(await lookUp('/credentials'), { credentials: [], totalSize: 0 });
    const kept = await all.json(
      'credentials add quay.io --user ada@example.org --username ada --password-stdin',
      password,
    );
    // biome-ignore lint/suspicious/noExplicitAny: an answer
    const { keys } = (await lookUp(`/credentials/${kept.id}/keys`)) as any;
    assert.equal(JSON.parse(keys).password, password, 'the command and the server share the key');
    await all.done(`token remove ${id}`);
    assert.equal((await whoIs(sluice, token)).status, 403);

    const other = await all.json('token add --user ada@example.org --name other');
    assert.equal((await whoIs(sluice, other.token)).status, 200);
    await all.done('user remove ada@example.org');
    assert.equal((await whoIs(sluice, other.token)).status, 403);
  });

  test('on a remote server, with one of its accounts', async () => {
    await using sluice = await startSluice({ env: { SLUICE_ACCOUNTS: 'admin:s3cret' } });
    const at = (url: string, account?: string) =>
      commands(account === undefined ? {} : { SLUICE_ACCOUNT: account }, ['--server', url]);
    const all = at(sluice.url, 'admin:s3cret');
    await liveThrough(all);
    const { email } = await at(`${sluice.url}/platform/`, 'admin:s3cret').json(
      'user add eve@example.org',
    );
    assert.equal(email, 'eve@example.org');

    const wrong = await at(sluice.url, 'admin:wrong').run('user list');
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /name and password of an account/);
    assertRefused(await at(sluice.url).run('user list'), 2, /SLUICE_ACCOUNT=name:password/);
    assertRefused(
      await all.run('user list --data /tmp'),
      2,
      /--server and --data exclude each other/,
    );
    assertRefused(await at('nowhere', 'a:b').run('user list'), 2, /'nowhere' is not a URL/);
    assertRefused(
      await at('http://127.0.0.1:1', 'a:b').run('user list'),
      1,
      /No response from http:\/\/127\.0\.0\.1:1/,
    );

    await all.done('user add ada@example.org');
    await all.done('workspace add genomics');
    await all.done('workspace add-member genomics --user ada@example.org');
    await all.done('workspace add others');
    const { token } = await all.json('token add --user ada@example.org --name laptop');
    const of = (token: string) => commands({ SLUICE_TOKEN: token }, ['--server', sluice.url]);
    const ada = of(token);
    await all.done('token add --user eve@example.org --name laptop');
    const cluster = await ada.json('token add --name cluster');
    const names = async () =>
      (await ada.json('token list')).tokens.map((one: { name: string }) => one.name);
    assert.deepEqual(await names(), ['laptop', 'cluster'], 'none of eve');
    assertRefused(await ada.run('token list --user eve@example.org'), 1, /another user/);
    const add = (owner: string) =>
      ada.run(`credentials add quay.io ${owner}--username a --password-stdin`, password);
    assertSuccess(await add(''));
    assertSuccess(await add('--workspace genomics '));
    assertRefused(await add('--workspace others '), 1, /not a member of a workspace 'others'/);
    assertRefused(await add('--user eve@example.org '), 1, /another user/);
    const { credentials } = await ada.json('credentials list --workspace genomics');
    assert.equal(credentials[0].workspace, 'genomics');
    await ada.done('credentials remove quay.io');
    assertRefused(await ada.run('user list'), 2, /SLUICE_ACCOUNT=name:password/);
    assertRefused(await at(sluice.url).run('token list'), 2, /set SLUICE_TOKEN .*SLUICE_ACCOUNT/);
    await of(cluster.token).done('token remove --name laptop');
    assertRefused(await ada.run('token list'), 1, /invalid, was revoked or has expired/);
    assert.equal((await whoIs(sluice, cluster.token)).status, 200);
    assert.equal(sluice.output().includes(password), false);
    assert.equal(sluice.output().includes('s3cret'), false);
  });

  test('a server and commands that start simultaneously on an empty directory agree on schema and key', async () => {
    await using directory = await makeTempDir('platform-cli');
    const data = directory.join('data');
    const all = commands({ SLUICE_DATA: data });
    const names = ['a', 'b', 'c'];
    const starting = startSluice({ data });
    const adding = Promise.allSettled(names.map(name => all.done(`user add ${name}@example.org`)));
    await using sluice = await starting;
    const failed = (await adding).filter(({ status }) => status === 'rejected');
    assert.deepEqual(failed, []);
    const { users } = await all.json('user list');
    assert.equal(users.length, names.length);
    await all.done(
      'credentials add quay.io --user a@example.org --username a --password-stdin',
      password,
    );
    const { token } = await all.json('token add --user a@example.org --name x');
    const headers = { authorization: `Bearer ${token}` };
    const list = await sluice.fetch('/platform/credentials', { headers });
    const { credentials } = (await list.json()) as { credentials: { id: string }[] };
    const path = `/platform/credentials/${credentials[0]?.id}/keys`;
    assert.equal((await sluice.fetch(path, { headers })).status, 200);
  });

  test('an invalid command line changes nothing', async () => {
    await using directory = await makeTempDir('platform-cli');
    const { run } = commands({ SLUICE_DATA: directory.join('data') });
    const assertWrong = async (args: string, message: RegExp) => {
      const { code, stdout, stderr } = await run(args);
      assert.deepEqual([code, stdout], [2, ''], stderr);
      assert.match(stderr, message);
    };
    await assertWrong('user', /Missing action: add, list, remove/);
    await assertWrong('user invite x@y.z', /Unknown action: invite/);
    await assertWrong('user add', /Missing argument: EMAIL\n\nUsage: sluice user add EMAIL/);
    await assertWrong('user add a@b.c d@e.f', /Usage: sluice user add EMAIL/);
    await assertWrong('user list everybody', /Unexpected argument: everybody/);
    await assertWrong('token list --name x', /Unknown option '--name'/);
    await assertWrong('token add --name x', /Missing option: --user EMAIL/);
    await assertWrong('token remove', /Specify the token by its id/);
    await assertWrong('workspace add-member x', /Missing option: --user EMAIL/);
    await assertWrong(
      'credentials list --user a@b.c --workspace d',
      /--user and --workspace exclude each other/,
    );
    assert.deepEqual(readdirSync(directory.path), []);
  });

  test('without data and without --data, user add creates no data directory', async () => {
    await using directory = await makeTempDir('platform-cli');
    const result = await sluiceCommand(['user', 'add', 'a@b.example'], {}, '', directory.path);
    assertRefused(result, 1, /Name the data directory with --data/);
    assert.deepEqual(readdirSync(directory.path), []);
  });
});
