/** Names that live with a run at a workflow platform, and servers that give no names that expire. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import { administered } from '../hosted/push-client.ts';
import { assertSuccess } from '../integration/served.ts';
import {
  type ScriptedPlatform,
  send,
  startScriptedPlatform,
} from '../platform/scripted-platform.ts';
import { eventually } from '../world/eventually.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

suite('names with runs', { concurrency: 1 }, () => {
  let platform: ScriptedPlatform;
  let directory: TempDir;
  let sluice: Sluice;
  let image: Pushed;
  const states = new Map<string, string>();
  const config = (port?: number) => ({
    ...(port === undefined ? {} : { port }),
    data: directory.path,
    config: {
      ...administered,
      hosted: { anonymous: ['corpus/*'] },
      platform: { allow: [platform.url], timeout: '2s' },
      rightLife: '100ms',
      tokenLife: '2s',
      tokens: { runLease: '6s', maxLife: '1h' },
    },
  });

  before(async () => {
    [platform, directory] = await Promise.all([startScriptedPlatform(), makeTempDir('runs')]);
    platform.users.set('token-of-ada', { id: 1, userName: 'ada', email: null });
    platform.users.set('token-of-bob', { id: 2, userName: 'bob', email: null });
    platform.credentials.set('1', []).set('2', []);
    platform.on('GET /api/workflow/', ({ path, token }, response) => {
      const status = states.get(path.slice('/api/workflow/'.length));
      // The runs of ada are nobody else's business.
      if (token !== 'token-of-ada') return send(response, 403, {});
      return status ? send(response, 200, { workflow: { status } }) : send(response, 404, {});
    });
    sluice = await startSluice(config());
    const target = { url: sluice.url, host: sluice.host, username: 'admin', password: 'secret' };
    image = (await pushCorpus(target, ['busybox:oci'])).get('busybox:oci') as Pushed;
  });
  after(async () => {
    await sluice?.stop();
    await platform?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  const ask = (workflowId: string, towerAccessToken?: string) =>
    sluice.request({
      containerImage: image.reference,
      workflowId,
      ...(towerAccessToken ? { towerAccessToken, towerEndpoint: platform.url } : {}),
    });
  const pull = async (name: string) =>
    (await call(sluice.at(name, `manifests/${image.digest}`))).status;

  test('a name outlives its lease while the run is active, also after kill -9, and ends with it', async () => {
    states.set('one', 'RUNNING');
    const made = await ask('one', 'token-of-ada');
    assert.equal(made.warnings, undefined);
    assert.ok(Date.parse(made.expiration) - Date.now() > 3_000_000, 'the latest end');
    const details = await sluice.fetch(`/v1alpha2/container/${made.requestId}`);
    const { workflowId, expiration } = (await details.json()) as Record<string, string>;
    assert.equal(workflowId, 'one');
    assert.ok(Date.parse(expiration ?? '') - Date.now() < 10_000, 'its end if nobody confirms it');

    const page = await sluice.fetch(`/view/containers/${made.requestId}`, {
      headers: { accept: 'text/html' },
    });
    assert.match(await page.text(), /and longer while the run <code>one<\/code> is active/);

    const { port } = sluice;
    await sluice.kill();
    sluice = await startSluice(config(port));
    // A server that was away for longer than the lease asks first.
    await eventually('the name lives', async () => (await pull(made.targetImage)) === 200, 20_000);
    const end = Date.parse(expiration ?? '') + 500;
    while (Date.now() < end) {
      assert.equal(await pull(made.targetImage), 200);
      await new Promise(done => setTimeout(done, 250));
    }
    states.set('one', 'SUCCEEDED');
    await eventually('the name ends', async () => (await pull(made.targetImage)) === 404, 20_000);
    const metrics = await (await sluice.fetch('/metrics')).text();
    assert.match(metrics, /sluice_run_checks_total\{result="ended"\} 1/);
    const others = platform.calls.filter(({ path }) => path.startsWith('/api/workflow/'));
    assert.ok(others.every(({ token }) => token === 'token-of-ada'));
    assert.ok(!sluice.output().includes('token-of-ada'));
  });

  test('nobody ties a name to a run that they may not see, and the answer says why', async () => {
    states.set('two', 'RUNNING').set('over', 'FAILED');
    const cases = [
      ['two', 'token-of-bob', /does not show you this run/],
      ['none', 'token-of-ada', /does not show you this run/],
      ['../user-info', 'token-of-ada', /does not show you this run/],
      ['over', 'token-of-ada', /is not active at 127\.0\.0\.1:\d+ \(FAILED\)/],
      ['two', undefined, /has no access token of the platform/],
    ] as const;
    for (const [id, token, warning] of cases) {
      const { warnings = [], expiration, targetImage } = await ask(id, token);
      assert.equal(warnings.length, 1);
      assert.match(
        warnings[0] ?? '',
        /^'workflowId' is ignored, and the name has the usual life: /,
      );
      assert.match(warnings[0] ?? '', warning);
      assert.ok(Date.parse(expiration) < Date.now() + 3000, 'the usual life');
      assert.equal(await pull(targetImage), 200);
    }
    const own = await newAccessToken(
      sluice,
      { name: 'admin', password: 'secret' },
      'c@example.org',
    );
    const { warnings } = await sluice.request({
      ...{ containerImage: image.reference, workflowId: 'two', towerAccessToken: own },
      towerEndpoint: `${sluice.url}/platform`,
    });
    assert.match(warnings?.[0] ?? '', /this server's own platform keeps no runs/);
  });

  test('a platform that does not answer costs a request a bounded time', async () => {
    platform.on('GET /api/workflow/hangs', () => {});
    const began = performance.now();
    const { warnings, targetImage } = await ask('hangs', 'token-of-ada');
    assert.ok(performance.now() - began < 10_000);
    assert.match(warnings?.[0] ?? '', /did not answer/);
    assert.equal(await pull(targetImage), 200);
  });

  test('the owner and administrators extend a name; others do not know it', async () => {
    states.set('three', 'RUNNING');
    await ask('three', 'token-of-ada');
    const environment = { SLUICE_SERVER: sluice.url, SLUICE_ACCOUNT: 'admin:secret' };
    const run = async (...args: string[]) =>
      JSON.parse(
        assertSuccess(await sluiceCommand(['containers', ...args, '--json'], environment)),
      );
    const { containers } = await run('list', image.digest);
    const name = containers.find(
      ({ workflowId }: { workflowId?: string }) => workflowId === 'three',
    );
    assert.ok(name);
    const extended = await run('extend', name.id, '--for', '10m');
    assert.equal(extended.extended, 1);
    assert.ok(Date.parse(extended.expiration) - Date.now() > 590_000);
    const again = await run('extend', name.id, '--for', '30d');
    assert.ok(Date.parse(again.expiration) - Date.now() <= 3_600_000, 'the maximum');
    assert.equal((await run('extend', name.id)).extended, 0);
    assert.equal((await run('extend', image.digest, '--for', '50m')).extended >= 0, true);
    const after = await run('list', image.digest);
    const found = after.containers.find(({ id }: { id: string }) => id === name.id);
    assert.equal(found.workflowId, 'three', 'it does not end before its run');

    const path = `${sluice.url}/v1alpha1/containers/${name.id}/extend`;
    const post = (at: string, headers = {}) => call(at, { method: 'POST', headers });
    assertApiFault(await post(path), 401, /requires a login/);
    const bob = await newAccessToken(
      sluice,
      { name: 'admin', password: 'secret' },
      'd@example.org',
    );
    const authorization = `Bearer ${bob}`;
    assertApiFault(await post(path, { authorization }), 404, /No served name of yours/);
    assertApiFault(await post(`${path}?seconds=x`, { authorization }), 400, /seconds/);
    const all = `${sluice.url}/v1alpha1/containers/extend`;
    assertApiFault(await post(`${all}?image=`, { authorization }), 400, /'image' is empty/);
    const none = await post(`${all}?image=${image.digest}`, { authorization });
    assert.deepEqual(JSON.parse(String(none.body)), { extended: 0 });
  });
});

test('a server that gives no names that expire refuses requests, or freezes their images', async () => {
  const settings = (onlyFrozen: string, more = {}) => ({
    config: {
      ...administered,
      hosted: { anonymous: ['corpus/*', 'public/*'] },
      ...more,
      tokens: { onlyFrozen },
    },
  });
  await using refusing = await startSluice(settings('refuse'));
  const target = (server: Sluice) => ({
    ...{ url: server.url, host: server.host, username: 'admin', password: 'secret' },
  });
  const pushed = async (server: Sluice) =>
    (await pushCorpus(target(server), ['busybox:oci'])).get('busybox:oci') as Pushed;
  const containerImage = (await pushed(refusing)).reference;
  const post = (server: Sluice, body: object) =>
    call(`${server.url}/v1alpha2/container`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const refused = /This server gives no names that expire: send 'freeze: true'/;
  for (const more of [{}, { dryRun: true }, { workflowId: 'x' }]) {
    assertApiFault(await post(refusing, { containerImage, ...more }), 403, refused);
  }
  const frozen = { containerImage, freeze: true, defaultRepository: true };
  assert.match((await refusing.request(frozen)).targetImage, /\/public\/frozen:/);

  await using freezing = await startSluice(settings('freeze'));
  const body = { containerImage: (await pushed(freezing)).reference };
  const made = await freezing.request(body);
  assert.match(made.targetImage, /\/public\/frozen:/);
  assert.equal(made.expiration, undefined);
  // Whoever may not build may not freeze either.
  await using closed = await startSluice(settings('freeze', { access: { builds: 'login' } }));
  const asked = { containerImage: (await pushed(closed)).reference };
  assertApiFault(await post(closed, asked), 401, /requires a login for builds and frozen images/);
});
