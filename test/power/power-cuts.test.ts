import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { digestOf } from '../../src/oci/digest.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { admin, administered, expect, Repository } from '../hosted/push-client.ts';
import { eventually } from '../world/eventually.ts';
import { type DiskCopy, makePowerDisk } from '../world/power-disk.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { type Acknowledged, brokenOf } from './promises.ts';

const run = promisify(execFile);
const betweenCuts = 4;
const chunksOfUpload = 30;
const chunkBytes = 5001;

type Work = (sluice: Sluice, at: number, note: (entry: Acknowledged) => void) => Promise<void>;

/** Pushes images, each under a tag that is overwritten, and one that is deleted soon after. */
const push =
  (name: string): Work =>
  async (sluice, at, note) => {
    const repository = new Repository(sluice, name);
    const layer = pattern(20_000 + at, `${name} ${at}`);
    const config = Buffer.from(JSON.stringify({ version: at, name }));
    for (const blob of [layer, config]) {
      expect(await repository.pushBlob(blob), 201);
      note({ kind: 'blob', repository: name, digest: digestOf(blob) });
    }
    expect(await repository.pushManifest('latest', config, [layer]), 201);
    note({ kind: 'tag', repository: name, tag: 'latest', version: at });
    expect(await repository.pushManifest(`v${at}`, config, [layer]), 201);
    if (at % 3 === 0) {
      expect(await repository.send('DELETE', `manifests/v${at}`), 202);
      note({ kind: 'deleted', repository: name, tag: `v${at}` });
    } else {
      note({ kind: 'tag', repository: name, tag: `v${at}`, version: at });
    }
  };

/** Appends chunks to an upload that does not end, and sometimes begins another one. */
const sendChunks = (name: string): Work => {
  let location = '';
  return async (sluice, at, note) => {
    const repository = new Repository(sluice, name);
    const chunk = at % chunksOfUpload;
    const bytes = pattern(chunksOfUpload * chunkBytes, `${name} ${at - chunk}`);
    if (chunk === 0) location = await repository.begin();
    const [from, to] = [chunk * chunkBytes, (chunk + 1) * chunkBytes];
    const range = { 'content-range': `${from}-${to - 1}` };
    expect(await repository.send('PATCH', location, bytes.subarray(from, to), range), 202);
    note({ kind: 'chunks', id: location.split('/').at(-1) ?? '', size: to, bytes });
  };
};

/** Makes new container requests, and revokes some. */
const request =
  (image: string, worker: number): Work =>
  async (sluice, at, note) => {
    const containerConfig = { env: [`AT=${worker}.${at}`] };
    const response = await sluice.request({ containerImage: image, containerConfig });
    const token = response.containerToken;
    if (at % 3 > 0) return note({ kind: 'request', token, digest: response.digest });
    const init = { method: 'DELETE', headers: admin };
    assert.equal((await sluice.fetch(`/container-token/${token}`, init)).status, 200);
    note({ kind: 'revoked', token });
  };

/** Creates access tokens, sometimes of a new user: each user has a maximum. */
const addToken: Work = async (sluice, at, note) => {
  const ask = async (path: string, body: object) => {
    const headers = { ...admin, 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: JSON.stringify(body) };
    const response = await sluice.fetch(`/platform/${path}`, init);
    assert.equal(response.status, 200);
    return (await response.json()) as { accessKey: string };
  };
  const user = `user-${Math.floor(at / 100)}@example.org`;
  if (at % 100 === 0) await ask('users', { email: user });
  const { accessKey } = await ask('tokens', { user, name: `token ${at}` });
  note({ kind: 'access token', value: accessKey });
};

const places: readonly (readonly [string, number, typeof openPlainly])[] = [
  ['a disk', 40, openPlainly],
  // As in a container without a volume. All writes of it are in its upper directory.
  ['an overlay', 10, openOverlay],
];
for (const [place, cuts, openPlace] of places) {
  test(`acknowledged content on ${place} survives a power failure, at ${cuts} moments`, () =>
    cutPower(cuts, openPlace));
}

type Place = { readonly path: string } & AsyncDisposable;

async function openPlainly(path: string): Promise<Place> {
  return { path, async [Symbol.asyncDispose]() {} };
}

/** Mounts an overlay whose upper directory is on the disk. */
async function openOverlay(path: string): Promise<Place> {
  const directory = await makeTempDir('overlay');
  const [lower, merged] = [directory.join('lower'), directory.join('merged')];
  const [upper, work] = [join(path, 'upper'), join(path, 'work')];
  for (const one of [lower, merged, upper, work]) await mkdir(one, { recursive: true });
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  await run('mount', ['-t', 'overlay', '-o', options, 'overlay', merged]);
  return {
    path: merged,
    async [Symbol.asyncDispose]() {
      await run('umount', ['--lazy', merged]);
      await directory.remove();
    },
  };
}

async function cutPower(cuts: number, openPlace: typeof openPlainly): Promise<void> {
  await using disk = await makePowerDisk();
  await using used = await openPlace(disk.path);
  await using registry = await startRegistry();
  await pushCorpus(registry, ['cfg:full']);
  const image = `${registry.host}/corpus/cfg:full`;
  const config = { ...administered, registries: { [registry.host]: { plainHttp: true } } };
  const data = join(used.path, 'data');
  const taken: { readonly copy: DiskCopy; readonly acknowledged: readonly Acknowledged[] }[] = [];
  {
    await using sluice = await startSluice({ config, data });
    const added = await sluiceCommand(['user', 'add', 'ada@example.org', '--data', data]);
    assert.equal(added.code, 0, added.stderr);
    const acknowledged: Acknowledged[] = [];
    const stopping = new AbortController();
    const goOn = async (work: Work) => {
      for (let at = 0; !stopping.signal.aborted; at += 1) {
        await work(sluice, at, entry => acknowledged.push(entry));
      }
    };
    const byCommand: Work = async (_, at, note) => {
      const args = ['token', 'add', '--user', 'ada@example.org', '--name', `by command ${at}`];
      const { code, stdout, stderr } = await sluiceCommand([...args, '--data', data]);
      assert.equal(code, 0, stderr);
      note({ kind: 'access token', value: stdout.trim() });
    };
    const works = [
      ...[push('team/one'), push('team/two'), request(image, 1), request(image, 2)],
      ...[addToken, byCommand, sendChunks('team/chunks')],
    ];
    const running = Promise.all(works.map(goOn));
    const cut = async () => {
      for (let at = 0; at < cuts; at += 1) {
        const before = acknowledged.length;
        await eventually('more is acknowledged', () => acknowledged.length >= before + betweenCuts);
        const sure = [...acknowledged];
        taken.push({ copy: await disk.copy(), acknowledged: sure });
      }
      stopping.abort();
    };
    await Promise.all([running, cut()]);
  }
  const kinds = new Set(taken.at(-1)?.acknowledged.map(({ kind }) => kind));
  assert.equal(kinds.size, 7, [...kinds].join());
  const broken: string[] = [];
  for (const [at, { copy, acknowledged }] of taken.entries()) {
    await using mounted = await copy.open();
    await using opened = await openPlace(mounted.path);
    for (const entry of await brokenOf(join(opened.path, 'data'), acknowledged)) {
      broken.push(`cut ${at}, ${acknowledged.length} acknowledged: ${entry}`);
    }
    if (at < taken.length - 1) continue;
    const verified = await sluiceCommand(['verify', '--data', join(opened.path, 'data')]);
    assert.match(
      verified.stdout,
      / 0 damaged, 0 missing/,
      `something else lacks its content: ${verified.stdout}${verified.stderr}`,
    );
  }
  assert.deepEqual(broken, [], `${broken.length} promises are broken`);
}
