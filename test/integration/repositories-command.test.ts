/** `sluice repositories`, and the catalog behind it. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { assertRegistryFault, call } from '../faults/http-client.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { login } from '../world/clients.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { accounts } from './hosted.ts';
import { assertSuccess } from './served.ts';

suite('repositories', { concurrency: 1 }, () => {
  let sluice: Sluice;
  const digests = new Map<string, string>();
  const layer = Buffer.alloc(1024, 'layer');

  before(async () => {
    sluice = await startSluice({ config: { accounts } });
    for (const name of ['public/app', 'team/app', 'team/tool', 'secret/app']) {
      const repository = new Repository(sluice, name);
      for (const tag of ['1', '2']) {
        digests.set(`${name}:${tag}`, await repository.pushImage(tag, [layer, Buffer.from(tag)]));
      }
    }
  });
  after(() => sluice?.stop());

  const run = (args: string, account?: string) =>
    sluiceCommand(['repositories', ...args.split(' ')], {
      SLUICE_SERVER: sluice.url,
      ...(account === undefined ? {} : { SLUICE_ACCOUNT: account }),
    });
  const listed = async (account?: string) =>
    JSON.parse(assertSuccess(await run('list --json', account))).repositories.map(
      ({ name }: { name: string }) => name,
    );

  test('list shows the repositories that the account may pull', async () => {
    assert.deepEqual(await listed(), ['public/app']);
    assert.deepEqual(await listed('reader:read'), ['public/app', 'team/app', 'team/tool']);
    const all = ['public/app', 'secret/app', 'team/app', 'team/tool'];
    assert.deepEqual(await listed('admin:secret'), all);
    const table = assertSuccess(await run('list', 'admin:secret'));
    const [head, ...rows] = table.trim().split('\n');
    assert.match(head ?? '', /^REPOSITORY +BYTES +PULLS IN 30 DAYS +LAST PULL$/);
    assert.deepEqual(
      rows.map(row => row.split(' ')[0]),
      all,
    );
    for (const row of rows) assert.match(row, / \d{4,} +0 +-$/);
    const wrong = await run('list', 'admin:wrong');
    assert.deepEqual([wrong.code, wrong.stdout], [1, '']);
    assert.match(wrong.stderr, /name or the password is wrong/);
  });

  test('crane lists the repositories that its account may pull', async () => {
    await using root = await openRoot('forky');
    const catalog = async () =>
      assertSuccess(await root.exec(['crane', 'catalog', '--insecure', sluice.host]))
        .trim()
        .split('\n')
        .sort();
    assert.deepEqual(await catalog(), ['public/app']);
    assertSuccess(
      await login(root, 'crane', sluice.host, { username: 'reader', password: 'read' }),
    );
    assert.deepEqual(await catalog(), ['public/app', 'team/app', 'team/tool']);
  });

  test('a catalog without a login is challenged, so that clients send theirs', async () => {
    const reply = await call(`${sluice.url}/v2/_catalog`);
    assertRegistryFault(reply, { status: 401, code: 'UNAUTHORIZED', message: /Request a token/ });
    const asked = String(reply.headers['www-authenticate']);
    assert.match(asked, /^Bearer realm="[^"]+\/v2\/token",.*scope="registry:catalog:\*"$/);
    const [, realm = ''] = /realm="([^"]+)"/.exec(asked) ?? [];
    for (const [headers, expected] of [
      [{}, ['public/app']],
      [basic('reader', 'read'), ['public/app', 'team/app', 'team/tool']],
    ] as const) {
      const url = `${realm}?service=${sluice.host}&scope=registry:catalog:*`;
      const { token } = JSON.parse(String((await call(url, { headers })).body));
      const listed = await call(`${sluice.url}/v2/_catalog`, {
        headers: { authorization: `Bearer ${token}` },
      });
      assert.deepEqual(JSON.parse(String(listed.body)).repositories, expected);
    }
    // Nobody can log in there.
    await using open = await startSluice();
    assert.equal((await call(`${open.url}/v2/_catalog`)).status, 200);
  });

  test('a token lists repositories only if it was requested for that', async () => {
    const tokenFor = async (scope: string) => {
      const reply = await call(`${sluice.url}/v2/token?scope=${encodeURIComponent(scope)}`, {
        headers: basic('reader', 'read'),
      });
      return JSON.parse(reply.body.toString()).token as string;
    };
    const listed = async (path: string, token: string) =>
      call(sluice.url + path, { headers: { authorization: `Bearer ${token}` } });
    const other = await listed('/v2/_catalog', await tokenFor('repository:team/app:pull'));
    assert.equal(other.status, 401);
    assert.match(
      String(other.headers['www-authenticate']),
      /scope="registry:catalog:\*",error="insufficient_scope"/,
    );
    const token = await tokenFor('registry:catalog:*');
    assert.equal((await listed('/v2/_catalog', token)).status, 200);
    assert.equal((await listed('/v2/team/app/tags/list', token)).status, 401, 'it reads nothing');
  });

  test('the catalog has pages, and omits repositories that the caller may not pull', async () => {
    const found: string[] = [];
    let path: string | undefined = '/v2/_catalog?n=1';
    for (let pages = 0; path !== undefined; pages += 1) {
      assert.ok(pages < 5, 'the pages end');
      const reply = await call(`${sluice.url}${path}`, { headers: basic('reader', 'read') });
      assert.equal(reply.status, 200);
      const { repositories } = JSON.parse(reply.body.toString());
      assert.ok(repositories.length <= 1);
      found.push(...repositories);
      path = /^<([^>]+)>; rel="next"$/.exec(String(reply.headers.link ?? ''))?.[1];
    }
    assert.deepEqual(found, ['public/app', 'team/app', 'team/tool']);
    const reply = await call(`${sluice.url}/v2/_catalog`, { method: 'POST' });
    assert.equal(reply.status, 405);
  });

  test('tags shows the tags with their digests', async () => {
    const digest = digests.get('public/app:1') ?? '';
    await call(`${sluice.url}/v2/public/app/manifests/1`, {});
    const [head = '', first = '', second = ''] = assertSuccess(await run('tags public/app')).split(
      '\n',
    );
    assert.match(head, /^TAG +DIGEST +BYTES +PULLS IN 30 DAYS +LAST PULL$/);
    assert.match(first, new RegExp(`^1 +${digest} +\\d{4} +1 +\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z$`));
    assert.match(second, new RegExp(`^2 +${digests.get('public/app:2')} +\\d{4} +0 +-$`));
    const { code, stderr } = await run('tags team/app');
    assert.equal(code, 1);
    assert.match(stderr, /may not pull it.*Set SLUICE_TOKEN .*SLUICE_ACCOUNT=name:password/);
    const none = await run('tags team/none', 'reader:read');
    assert.match(none.stderr, /repository team\/none does not exist/);
  });

  test('delete removes a tag, or an image with its tags', async () => {
    const denied = await run('delete team/tool:1', 'reader:read');
    assert.equal(denied.code, 1);
    assert.match(denied.stderr, /may not delete team\/tool/);
    assertSuccess(await run('delete team/tool:1', 'admin:secret'));
    const tags = async () =>
      JSON.parse(assertSuccess(await run('tags team/tool --json', 'admin:secret'))).tags;
    const [tag, ...others] = await tags();
    assert.deepEqual([tag.tag, tag.digest, others], ['2', digests.get('team/tool:2'), []]);
    assert.deepEqual(tag.platforms, ['linux/amd64']);
    // The image of the deleted tag stays until it is deleted by its digest.
    const untagged = assertSuccess(await run('untagged team/tool', 'admin:secret'));
    assert.match(untagged, new RegExp(`\n${digests.get('team/tool:1')} +\\d{4} +0 +-\n$`));
    const refused = await run('untagged team/tool', 'reader:read');
    assert.match(refused.stderr, /may not delete team\/tool/);
    assertSuccess(await run(`delete team/tool@${digests.get('team/tool:2')}`, 'admin:secret'));
    assert.deepEqual(await tags(), []);
    for (const [args, message] of [
      ['delete team/tool', /neither a tag nor a digest/],
      ['delete 127.0.0.1:1/team/tool:1', /Omit the host/],
    ] as const) {
      const { code, stderr } = await run(args, 'admin:secret');
      assert.equal(code, 2);
      assert.match(stderr, message);
    }
  });
});
