/** Python packages of an index that lies or is down, 50 requests at once, kill -9 at each step, and a full disk. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir, readlink } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ScriptedIndex, startIndex } from '../pypi/solving/scripted-index.ts';
import { wheelOf } from '../pypi/wheels/made-wheel.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { boundMs } from '../world/longest-block.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { serverCommand } from '../world/server-command.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireUv } from '../world/tools.ts';
import { startWatchedSluice } from '../world/watched-sluice.ts';

const mebibyte = 1024 * 1024;
const mostBytes = 300 * mebibyte;
const olderVersions = 3000;
const code = randomBytes(mebibyte).map(byte => byte & 15);
const python = {
  ...{ name: 'python', version: '3.12.4' },
  files: [{ name: 'bin/python3.12', content: 'python', mode: 0o755 }],
};

let registry: Registry;
let served: CondaChannels;
before(async () => {
  registry = await startRegistry();
  await pushDebianImage(registry, 'debian');
  served = await startCondaChannels({ 'conda-forge': [python] });
});
after(async () => {
  await served?.stop();
  await registry?.stop();
});

/** An index with some projects of one wheel each, whose answers a test changes. */
async function worldOf(t: TestContext, projects: Readonly<Record<string, MadeProject>>) {
  const wheels = new Map(
    Object.entries(projects).map(([name, { bytes = 1000, requires = [], isLarge = false }]) => {
      const content = isLarge ? Buffer.concat(new Array(8).fill(code)) : randomBytes(bytes);
      const members = [{ name: `${name}.bin`, content, isDeflated: isLarge }];
      const metadata = requires.map(it => `Requires-Dist: ${it}\n`).join('');
      return [name, { ...wheelOf({ name, members, metadata }), metadata, isLarge }] as const;
    }),
  );
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const { url = '' } = request;
    const [, page = ''] = /^\/simple\/([^/]+)\/$/.exec(url) ?? [];
    const [, of = '', isMetadata] = /^\/files\/([^/-]+)-.*\.whl(\.metadata)?$/.exec(url) ?? [];
    const wheel = wheels.get(page || of);
    if (wheel === undefined) return void response.writeHead(404).end();
    const { fileName, bytes, metadata, isLarge } = wheel;
    if (isMetadata) {
      response.end(`Metadata-Version: 2.1\nName: ${of}\nVersion: 1.0\n${metadata}`);
    } else if (page === '') response.end(bytes);
    else {
      const hashes = { sha256: createHash('sha256').update(bytes).digest('hex') };
      const url = `/files/${fileName}`;
      const older = Array.from({ length: isLarge ? olderVersions : 0 }, (_, at) => ({
        ...{ filename: fileName.replace('-1.0-', `-0.0.${at}-`), url: `${url}-${at}`, hashes },
      }));
      const files = [
        ...older,
        { filename: fileName, url, hashes, size: bytes.length, 'core-metadata': true },
      ];
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ files }));
    }
  };
  const index: ScriptedIndex = await startIndex(t, serve);
  const config = {
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true } },
    channels: served.settings,
    buildkit: 'off',
    builds: { uv: requireUv() },
    pypi: { 'https://pypi.org/simple': { url: index.url, allowPrivateAddress: true } },
  };
  return { index, config, serve };
}

interface MadeProject {
  readonly bytes?: number;
  /** True for the page of a project with thousands of files, and a wheel with 8 MiB that is packed as machine code is. Default: false. */
  readonly isLarge?: boolean;
  readonly requires?: readonly string[];
}

function ask(sluice: Sluice, pip: readonly string[]): Promise<ContainerResponse> {
  const lines = ['channels: [conda-forge]', 'dependencies:', '  - pip:'];
  const text = [...lines, ...pip.map(it => `      - '${it}'`), ''].join('\n');
  return sluice.request({
    packages: {
      type: 'CONDA',
      environment: Buffer.from(text).toString('base64'),
      condaOpts: { baseImage: `${registry.host}/debian:1`, basePackages: '' },
    },
  });
}

async function logOf(sluice: Sluice, { buildId }: ContainerResponse): Promise<string> {
  return (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
}

/** Returns the log of a build that has ended, or why there is none. */
async function outcome(sluice: Sluice, pip: readonly string[]): Promise<string> {
  try {
    return await logOf(sluice, await ask(sluice, pip));
  } catch (error) {
    return (error as Error).message;
  }
}

async function digestOf(sluice: Sluice, { targetImage }: ContainerResponse) {
  const tag = targetImage.split(':').at(-1);
  const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
  assert.equal(response.status, 200);
  return response.headers.get('docker-content-digest');
}

/** Returns the names of all that is unfinished in a data directory. */
async function unfinished(data: string): Promise<string[]> {
  const list = (path: string) => readdir(`${data}/${path}`).catch(() => []);
  const names = (await list('content/tmp')).filter(name => !name.startsWith('ready-'));
  const pages = (await list('pypi/pages')).filter(name => name.endsWith('.new'));
  return [...names, ...pages, ...(await list('pypi/solving'))];
}

function nothingUnfinished(data: string): Promise<unknown> {
  return eventually('nothing is unfinished', async () => (await unfinished(data)).length === 0);
}

/** Returns the most that a server has had in memory, in bytes. */
function peakOf({ process: { pid } }: Sluice): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** Returns the programs that solve for a data directory. */
async function solvers(data: string): Promise<string[]> {
  const found = await Promise.all(
    (await readdir('/proc'))
      .filter(name => /^\d+$/.test(name))
      .map(async pid => {
        const place = await readlink(`/proc/${pid}/cwd`).catch(() => '');
        return place.startsWith(`${data}/pypi/solving`) ? [pid] : [];
      }),
  );
  return found.flat();
}

test('a wheel that is not what its page says is refused, and made when the index is right again', async t => {
  const { index, config, serve } = await worldOf(t, { lib: { bytes: 50_000 } });
  const closed = await startIndex(t, (_, response) => void response.end('x'));
  await using sluice = await startSluice({ config });
  const isWheel = ({ url = '' }: IncomingMessage) => url.endsWith('.whl');
  const faults: readonly (readonly [string, typeof serve, RegExp])[] = [
    [
      'other bytes',
      (_, response) => void response.end(randomBytes(50_500)),
      /digest|size|sha256|bytes/i,
    ],
    ['fewer bytes', (_, response) => void response.end('x'), /digest|size|sha256|bytes/i],
    [
      'a page to log in',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Log in</html>');
      },
      /digest|size|sha256|bytes/i,
    ],
    [
      'a redirect to a closed address',
      (request, response) => {
        response.writeHead(302, { location: `${closed.origin}${request.url}` }).end();
      },
      /closed network address/,
    ],
    [
      'an end in the middle',
      (_, response) => {
        response.writeHead(200, { 'content-length': 51_000 }).write('x', () => response.destroy());
      },
      /lib-1\.0/,
    ],
    ['no file', (_, response) => void response.writeHead(404).end(), /answered 404 for/],
  ];
  for (const [at, [name, fault, message]] of faults.entries()) {
    index.answer = (request, response) =>
      isWheel(request) ? fault(request, response) : serve(request, response);
    // Each is another request, because a failure is the answer to equal requests for a while.
    const log = await outcome(sluice, [`lib>=0.${at}`]);
    assert.doesNotMatch(log, /The build succeeded/, name);
    assert.match(log, message, name);
    assert.doesNotMatch(log, /solving|127\.0\.0\.1:\d+\/[0-9a-f]{64}/, name);
    await nothingUnfinished(sluice.data);
  }
  assert.deepEqual(closed.requests, []);
  index.answer = serve;
  assert.match(await logOf(sluice, await ask(sluice, ['lib'])), /The build succeeded/);
});

test('50 requests at once share the pages and wheels of an index, within 300 MiB and turns of 50 ms', async t => {
  const names = Array.from({ length: 8 }, (_, at) => `lib${at}`);
  const { index, config } = await worldOf(t, {
    tool: { requires: names.slice(0, 2) },
    ...Object.fromEntries(names.map(name => [name, { isLarge: true }])),
  });
  await using watched = await startWatchedSluice({ config, command: serverCommand() });
  const { sluice } = watched;
  // The first request loads code.
  await logOf(sluice, await ask(sluice, ['tool']));
  await watched.turns();
  const asked = Array.from({ length: 50 }, (_, at) =>
    ask(sluice, [`tool>=0.${at % 25}`, names[at % names.length] ?? '']),
  );
  const logs = await Promise.all(asked.map(async one => logOf(sluice, await one)));
  for (const log of logs) assert.match(log, /The build succeeded/);
  const peak = peakOf(sluice);
  const { longestMs } = await watched.turns();
  t.diagnostic(`${Math.round(peak / mebibyte)} MiB, longest turn ${longestMs.toFixed(0)} ms`);
  assert.ok(peak > 0 && peak < mostBytes, `${Math.round(peak / mebibyte)} MiB`);
  const bound = boundMs(50);
  assert.ok(longestMs < bound, `${longestMs} of ${bound} ms`);
  const paths = index.requests.map(({ path }) => path);
  assert.equal(new Set(paths).size, 3 * (names.length + 1), paths.join(' '));
  const often = paths.filter(
    (path, at) => !path.endsWith('.metadata') && paths.indexOf(path) !== at,
  );
  assert.deepEqual(often, []);
  await nothingUnfinished(sluice.data);
});

test('kill -9 at each step leaves nothing half made, and no program', async t => {
  // Each with projects of its own: nothing of it is there.
  const steps: readonly (readonly [path: RegExp, delayMs: number])[] = [
    [/^\/simple\/lib0\/$/, 0],
    [/\/tool1-.*\.whl$/, 0],
    [/\/tool2-.*\.whl$/, 20 + Math.random() * 100],
  ];
  const projects = steps.flatMap((_, at) => [
    [`tool${at}`, { bytes: 400_000, requires: [`lib${at}`] }],
    [`lib${at}`, { bytes: 400_000 }],
  ]);
  const { index, config, serve } = await worldOf(t, Object.fromEntries(projects));
  await using directory = await makeTempDir('killed-python');
  const data = directory.join('data');
  const options = { config, data, port: await freePort() };
  await using reference = await startSluice({ config });
  let sluice = await startSluice(options);
  try {
    for (const [at, [path, delayMs]] of steps.entries()) {
      const pip = [`tool${at}`];
      const moment = `${path} and ${delayMs} ms`;
      let isAsked = false;
      index.answer = (request, response) => {
        if (!path.test(request.url ?? '')) return serve(request, response);
        isAsked = true;
        // Held until the kill, or served for the step after it.
        if (delayMs > 0) serve(request, response);
        else if (request.url?.endsWith('.whl')) response.writeHead(200).write('PK');
      };
      const asked = outcome(sluice, pip);
      await eventually(`the index is asked for ${path}`, () => isAsked);
      await sleep(delayMs);
      await sluice.kill();
      await asked;
      index.answer = serve;
      await eventually('uv has ended', async () => (await solvers(data)).length === 0);
      sluice = await startSluice(options);
      await nothingUnfinished(data);
      const [again, expected] = [await ask(sluice, pip), await ask(reference, pip)];
      assert.match(await logOf(sluice, again), /The build succeeded/, moment);
      await logOf(reference, expected);
      assert.equal(await digestOf(sluice, again), await digestOf(reference, expected), moment);
    }
  } finally {
    await sluice.stop();
  }
});

test('a disk that is full fails the build with the reason, and the next one has its room', async t => {
  const { config } = await worldOf(t, { huge: { bytes: 40 * mebibyte }, lib: {} });
  await using sluice = await startSluice({ config, diskBytes: 32 * mebibyte });
  const data = `/proc/${sluice.process.pid}/root${sluice.data}`;
  const log = await outcome(sluice, ['huge']);
  assert.match(log, /disk of the service is full/);
  await nothingUnfinished(data);
  assert.match(await logOf(sluice, await ask(sluice, ['lib'])), /The build succeeded/);
});
