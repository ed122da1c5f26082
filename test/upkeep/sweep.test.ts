import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { call } from '../faults/http-client.ts';
import { emptyLayer, pattern, startScriptedUpstream } from '../faults/scripted-upstream.ts';
import { admin, administered, expect, Repository } from '../hosted/push-client.ts';
import { freePort } from '../world/free-port.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

interface Report {
  readonly unlinked: readonly { repository: string; digest: string }[];
  readonly removed: readonly { digest: string; size: number }[];
  readonly removedBytes: number;
  readonly keptCount: number;
}

async function gc(sluice: Sluice, grace: string, ...args: readonly string[]): Promise<Report> {
  const result = await sluiceCommand(['gc', '--data', sluice.data, '--json', ...args], {
    SLUICE_SWEEP_GRACE: grace,
  });
  assert.equal(result.code, 0, result.stderr);
  return JSON.parse(result.stdout);
}

async function kept(sluice: Sluice): Promise<Set<string>> {
  const found = new Set<string>();
  const base = join(sluice.data, 'content/blobs/sha256');
  for (const shard of await readdir(base)) {
    for (const hex of await readdir(join(base, shard))) found.add(`sha256:${hex}`);
  }
  return found;
}

test('content that only a deleted manifest referred to is removed, other content stays', async () => {
  await using sluice = await startSluice({ config: administered });
  const shared = pattern(50_000, 'shared');
  const own = pattern(60_000, 'own');
  const lonely = pattern(70_000, 'lonely');
  const one = new Repository(sluice, 'team/one');
  const two = new Repository(sluice, 'team/two');
  const doomed = await one.pushImage('doomed', [shared, own]);
  const stays = await one.pushImage('stays', [shared]);
  await two.pushImage('other', [own]);
  expect(await two.pushBlob(lonely), 201);
  expect(await one.send('DELETE', `manifests/${doomed}`), 202);

  const early = await gc(sluice, '1h');
  assert.deepEqual([early.removed, early.unlinked], [[], []], 'all of it was used within the hour');

  const dry = await gc(sluice, '0s', '--dry-run');
  const all = await kept(sluice);
  assert.equal(dry.keptCount + dry.removed.length, all.size);
  const report = await gc(sluice, '0s');
  assert.deepEqual(report, dry, 'a dry run reports what would happen');
  const after = await kept(sluice);
  const gone = new Set(report.removed.map(({ digest }) => digest));
  assert.ok(gone.has(doomed) && gone.has(digestOf(lonely)));
  assert.ok(after.has(digestOf(own)), 'team/two needs it');
  for (const digest of all) assert.equal(after.has(digest), !gone.has(digest));

  expect(await one.send('HEAD', `blobs/${digestOf(own)}`), 404);
  expect(await two.get(`blobs/${digestOf(own)}`), 200);
  assert.equal(String((await one.get('manifests/stays')).headers['docker-content-digest']), stays);
  expect(await one.get(`blobs/${digestOf(shared)}`), 200);
  assert.deepEqual((await gc(sluice, '0s')).removed, [], 'nothing is left to do');
});

test('content of a live container token stays until the token ends', async () => {
  await using upstream = await startScriptedUpstream();
  await using sluice = await startSluice({
    config: {
      ...administered,
      hosted: { anonymous: ['team/*'] },
      registries: { [upstream.host]: { plainHttp: true, blobs: 'cache' } },
    },
  });
  const image = upstream.image('team/app', [pattern(40_000, 'upstream')]);
  const hosted = new Repository(sluice, 'team/hosted');
  const layer = pattern(30_000, 'hosted');
  const digest = await hosted.pushImage('1', [layer]);
  const injected = { location: `data:${emptyLayer.toString('base64')}` };
  const requests = [
    { containerImage: image.name, containerConfig: { env: ['A=1'], layers: [injected] } },
    { containerImage: `${sluice.host}/team/hosted:1`, containerConfig: { env: ['A=1'] } },
    { containerImage: `${sluice.host}/team/hosted:1` },
  ];
  const responses = await Promise.all(requests.map(body => sluice.request(body)));
  expect(await hosted.send('DELETE', `manifests/${digest}`), 202);

  const swept = await gc(sluice, '0s');
  assert.deepEqual(swept.removed, [], JSON.stringify(swept));
  for (const { targetImage } of responses) await pullWhole(sluice, targetImage);
  expect(await hosted.get('manifests/1'), 404);

  // The cache itself removes content that was fetched into it.
  const cached = digestOf(pattern(40_000, 'upstream'));
  for (const response of responses) await revoke(sluice, response);
  await gc(sluice, '0s');
  assert.deepEqual(await kept(sluice), new Set([cached]));
});

test('a request that is repeated after a sweep works, also after a restart', async () => {
  await using upstream = await startScriptedUpstream();
  const config = {
    ...administered,
    sweep: { grace: '0s' },
    registries: { [upstream.host]: { plainHttp: true } },
  };
  const image = upstream.image('team/app', [pattern(40_000, 'again')]);
  const injected = { location: `data:${emptyLayer.toString('base64')}` };
  const body = {
    containerImage: image.name,
    containerConfig: { env: ['A=1'], layers: [injected] },
  };
  await using first = await startSluice({ config, port: await freePort() });
  await revoke(first, await first.request(body));
  assert.ok((await gc(first, '0s')).removed.length > 0, 'the token has ended');
  // All of it is still in the server's memory, which is not enough.
  const { targetImage } = await first.request(body);
  await gc(first, '0s');
  await first.kill();
  await using second = await startSluice({ config, data: first.data, port: first.port });
  // A 404 would have ended the right.
  upstream.on('/v2/', (_request, response) => response.writeHead(503).end());
  await pullWhole(second, targetImage, ['config', 'injected']);
});

test('sweeps during pushes and pulls remove nothing from them', async () => {
  const shared = pattern(200_000, 'shared');
  const push = async (sluice: Sluice, worker: number, images: number) => {
    const repository = new Repository(sluice, `team/app${worker}`);
    for (let at = 0; at < images; at += 1) {
      // With no grace a blob is gone before its manifest comes: the push of the manifest says so.
      for (let tries = 0; ; tries += 1) {
        assert.ok(tries < 200, 'it never succeeds');
        try {
          const digest = await repository.pushImage(`${at}`, [
            shared,
            pattern(9000, `${worker} ${at}`),
          ]);
          const manifest = JSON.parse(
            expect(await repository.get(`manifests/${digest}`), 200).body.toString(),
          );
          for (const part of [manifest.config, ...manifest.layers]) {
            const blob = expect(await repository.get(`blobs/${part.digest}`), 200);
            assert.equal(digestOf(blob.body), part.digest);
          }
          break;
        } catch (error) {
          assert.match(
            String(error),
            /MANIFEST_BLOB_UNKNOWN|was removed while it was pushed|is being removed .* send it again/,
          );
        }
      }
    }
  };
  /** Pushes from six clients at once. Returns the duration for each image, in ms. */
  const pushMany = async (sluice: Sluice, images: number): Promise<number> => {
    const began = performance.now();
    await Promise.all(Array.from({ length: 6 }, (_, worker) => push(sluice, worker, images)));
    return (performance.now() - began) / images;
  };

  await using calm = await startSluice({ config: administered });
  // As often as some pushes survive, on a slow machine too.
  const interval = `${Math.round((await pushMany(calm, 3)) / 2)}ms`;
  await using sluice = await startSluice({
    config: { ...administered, sweep: { interval, grace: '0s' } },
  });
  await pushMany(sluice, 15);
  const verified = await sluiceCommand(['verify', '--data', sluice.data]);
  assert.match(verified.stdout, / 0 damaged, 0 missing/);
  assert.match(sluice.output(), /"msg":"swept"/);
  assert.doesNotMatch(sluice.output(), /the sweep failed/);
});

async function revoke(sluice: Sluice, { containerToken }: ContainerResponse): Promise<void> {
  const url = `${sluice.url}/container-token/${containerToken}`;
  expect(await call(url, { method: 'DELETE', headers: admin }), 200);
}

/** Fetches the manifest of a served name and the blobs of it that Sluice holds. */
async function pullWhole(
  sluice: Sluice,
  name: string,
  which: readonly ('config' | 'layers' | 'injected')[] = ['config', 'layers'],
): Promise<void> {
  const reply = await call(sluice.at(name, `manifests/${name.split(':').at(-1)}`));
  const manifest = JSON.parse(expect(reply, 200).body.toString());
  const parts = {
    config: [manifest.config],
    layers: manifest.layers,
    injected: manifest.layers.slice(-1),
  };
  for (const part of which.flatMap(kind => parts[kind])) {
    const blob = await call(sluice.at(name, `blobs/${part.digest}`));
    assert.equal(digestOf(expect(blob, 200).body), part.digest);
  }
}
