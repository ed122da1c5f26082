/** The audit logs of pulls and builds: who, what and when, only where they are on. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createAuditLog } from '../../src/storage/rows/people/audit-log.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { call } from '../faults/http-client.ts';
import { assertSuccess } from '../integration/served.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { labelOf, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { basic, jsonOf } from './platform/platform-server.ts';

const admin = { name: 'admin', password: 'secret' };
let registry: Registry;
let image: Pushed;
before(async () => {
  registry = await startRegistry();
  image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci') as Pushed;
});
after(() => registry?.stop());

const start = (audit: object) =>
  startSluice({
    config: {
      audit,
      access: { pulls: 'login' },
      freezeRepository: `${registry.host}/frozen`,
      accounts: { admin: 'secret', ci: { password: 'word', repositories: { 'team/*': 'push' } } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });

async function entriesOf({ url }: Sluice, ...options: string[]) {
  const command = ['audit', '--json', '--server', url, ...options];
  const shown = assertSuccess(await sluiceCommand(command, { SLUICE_ACCOUNT: 'admin:secret' }));
  const { entries } = JSON.parse(shown) as { entries: Record<string, string>[] };
  return entries.map(({ actor, client, action, target }) => [actor, client, action, target]);
}

suite('the audit of pulls and builds', { concurrency: 3 }, () => {
  test('names each who pulls an image, once for a pull', async () => {
    await using sluice = await start({ pulls: 'on' });
    const token = await newAccessToken(sluice, admin, 'ada@example.org');
    const response = await sluice.request({ containerImage: image.reference });
    const { targetImage } = response;
    const url = sluice.at(targetImage, 'manifests/oci');
    const name = targetImage.slice(sluice.host.length + 1).replace(/:[^:]*$/, '');
    const scope = encodeURIComponent(`repository:${name}:pull`);
    const issued = await call(`${sluice.url}/v2/token?scope=${scope}`, {
      headers: { authorization: basic('token', token) },
    });
    const digests = new Set<string>();
    for (const authorization of [
      ...[basic('ci', 'word'), basic('ci', 'word'), basic('token', token)],
      `Bearer ${jsonOf(issued).token}`,
    ]) {
      const reply = await call(url, { headers: { authorization } });
      assert.equal(reply.status, 200);
      digests.add(String(reply.headers['docker-content-digest']));
    }
    assert.equal((await call(url, {})).status, 401);
    await call(url, { method: 'HEAD', headers: { authorization: basic('admin', 'secret') } });
    const [digest] = digests;
    const repository = image.reference.replace(/:[^:/]*$/, '');
    const target = `${repository}:oci@${digest} by the name ${labelOf(response)}`;
    assert.deepEqual(await entriesOf(sluice, '--of', 'pulls'), [
      ['account ci', '127.0.0.1', 'image.pull', target],
      // By the password and by a bearer token for it.
      ['user ada@example.org', '127.0.0.1', 'image.pull', target],
    ]);
    const ofAda = await entriesOf(sluice, '--of', 'pulls', '--match', 'ada@', '--limit', '1');
    assert.deepEqual(
      ofAda.map(([actor]) => actor),
      ['user ada@example.org'],
    );
    assert.deepEqual(await entriesOf(sluice, '--of', 'builds'), []);
    const changes = await entriesOf(sluice);
    assert.ok(
      changes.every(([, , action]) => action !== 'image.pull'),
      'pulls are apart',
    );
  });

  test('names who starts a build', async () => {
    await using sluice = await start({ builds: 'on' });
    const token = await newAccessToken(sluice, admin, 'ada@example.org');
    const request = { containerImage: image.reference, freeze: true, platformAccessToken: token };
    const made = await sluice.request(request);
    // The same image again starts no build.
    await sluice.request(request);
    const entries = await entriesOf(sluice, '--of', 'builds');
    assert.equal(entries.length, 1);
    const [actor, client, action, target] = entries[0] ?? [];
    assert.deepEqual([actor, client, action], ['user ada@example.org', '127.0.0.1', 'build.start']);
    assert.match(String(target), new RegExp(`^${made.buildId} for `));
  });

  test('is off by default', async () => {
    await using sluice = await start({});
    const { targetImage } = await sluice.request({ containerImage: image.reference });
    const headers = { authorization: basic('ci', 'word') };
    const url = sluice.at(targetImage, 'manifests/oci');
    assert.equal((await call(url, { headers })).status, 200);
    for (const kind of ['pulls', 'builds']) {
      assert.deepEqual(await entriesOf(sluice, '--of', kind), [], kind);
    }
  });

  test('many pulls wait for no disk, have a limit, and remove no entry about changes', async () => {
    const database = openDatabase(':memory:');
    const errors: unknown[] = [];
    const [changes, pulls] = (['changes', 'pulls'] as const).map(kind =>
      createAuditLog(database, error => errors.push(error), kind),
    );
    assert.ok(changes && pulls);
    changes.add({ actor: 'account admin', action: 'user.add', target: 'ada@example.org' });
    database.pragma('query_only = true');
    const pull = { actor: 'account ci', action: 'image.pull' };
    for (let at = 0; at < 12_000; at += 1) pulls.add({ ...pull, target: `image ${at}` });
    await pulls.flush();
    assert.ok(errors.length > 0);
    database.pragma('query_only = false');
    await pulls.flush();
    const newest = await pulls.list({ limit: 20_000 });
    const dropped = newest.filter(({ action }) => action === 'audit.drop');
    const lost = dropped.reduce((sum, { target }) => sum + Number.parseInt(target, 10), 0);
    const kept = newest.filter(({ action }) => action === 'image.pull').length;
    assert.ok(lost > 0 && kept <= 10_000, `${lost} ${kept}`);
    assert.equal(lost + kept - 12_000 <= dropped.length && lost + kept >= 12_000, true);
    await pulls.purge(0, 100);
    assert.equal((await pulls.list({ limit: 1000 })).length, 100);
    assert.equal((await changes.list({ limit: 10 })).length, 1);
  });
});
