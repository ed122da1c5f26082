/** Metadata of wheels whose index has none beside them: they are read in parts of the wheel, once. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createKeptFiles, type IndexSettings } from '../../../src/pypi/index.ts';
import type { PublishedFile } from '../../../src/pypi/indexes/index-page.ts';
import {
  createWheelMetadataSource,
  MetadataMissing,
} from '../../../src/pypi/indexes/wheel-metadata-source.ts';
import { eventually } from '../../world/eventually.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { type ScriptedIndex, startIndex } from '../solving/scripted-index.ts';
import { indexAt, solverFor } from '../solving/solving-world.ts';
import { rawZip, wheelOf } from '../wheels/made-wheel.ts';

const publicIndex = 'https://pypi.org/simple';
const sha256Of = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');

interface Served {
  readonly fileName: string;
  readonly bytes: Buffer;
  /** More fields of the page. */
  readonly listed?: object;
  /** What is at the address of its metadata. */
  readonly beside?: string;
  /** Status of a part. Default: 206. */
  readonly partStatus?: number;
}

/** Serves wheels as an index with ranges does, and notes what is read. */
function serving(wheels: readonly Served[]) {
  const parts: string[] = [];
  const answer: ScriptedIndex['answer'] = ({ url = '', method, headers }, response) => {
    const [, name] = /^\/simple\/([^/]+)\/$/.exec(url) ?? [];
    if (name !== undefined) {
      const files = wheels
        .filter(({ fileName }) => fileName.startsWith(`${name}-`))
        .map(({ fileName, bytes, listed }) => ({
          filename: fileName,
          url: `/files/${fileName}`,
          hashes: { sha256: sha256Of(bytes) },
          size: bytes.length,
          ...listed,
        }));
      if (files.length === 0) return void response.writeHead(404).end();
      response.writeHead(200, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify({ files }));
    }
    const wheel = wheels.find(({ fileName }) => url.startsWith(`/files/${fileName}`));
    if (wheel === undefined) return void response.writeHead(404).end();
    const { bytes, beside, partStatus = 206 } = wheel;
    if (url.endsWith('.metadata')) {
      return void response.writeHead(beside === undefined ? 404 : 200).end(beside);
    }
    if (method === 'HEAD') {
      return void response.writeHead(200, { 'content-length': bytes.length }).end();
    }
    const [, first = '', last = ''] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    parts.push(`${wheel.fileName.split('-')[0]} ${first === '' ? 'all' : 'part'}`);
    if (first === '' || partStatus !== 206) {
      response.writeHead(partStatus === 206 ? 200 : partStatus, {
        'content-length': bytes.length,
      });
      return void response.end(bytes);
    }
    const part = bytes.subarray(Number(first), Number(last) + 1);
    const range = `bytes ${first}-${Number(first) + part.length - 1}/${bytes.length}`;
    response.writeHead(206, { 'content-range': range, 'content-length': part.length }).end(part);
  };
  return { parts, answer };
}

async function emptyDirectory(t: TestContext): Promise<string> {
  const { path, remove } = await makeTempDir('metadata');
  t.after(remove);
  return path;
}

const large = Array.from({ length: 1500 }, (_, at) => ({
  name: `lib/${'d'.repeat(40)}/${at}.py`,
  content: '',
}));
const lib = wheelOf({
  name: 'lib',
  metadata: 'Requires-Dist: tool\n',
  // Another package inside has metadata of its own.
  members: [{ name: 'lib/vendored/x-1.dist-info/METADATA', content: 'Name: x\n' }, ...large],
});
const tool = wheelOf({ name: 'tool' });

test('parts of a wheel are read once, also for a solve while the index is down', async t => {
  const directory = await emptyDirectory(t);
  const { parts, answer } = serving([lib, { ...tool, listed: { size: 3 } }]);
  const index = await startIndex(t, answer);
  const settings = [indexAt(index.url, publicIndex)];
  const namesFrom = async (from = directory) => {
    const { solve } = await solverFor(t, settings, { directory: from });
    return (await solve(['lib'])).map(({ name }) => name);
  };
  assert.deepEqual(await namesFrom(), ['lib', 'tool']);
  // The list of the large one begins before its end, which has the entry. The size of the other one is wrong.
  const read = (name: string, times: number) => Array.from({ length: times }, () => `${name} part`);
  assert.deepEqual(parts, [...read('lib', 2), ...read('tool', 3)]);
  index.answer = (_, response) => void response.writeHead(503).end();
  assert.deepEqual(await namesFrom(), ['lib', 'tool']);
  // A file that a power failure cut is read again.
  index.answer = answer;
  const before = parts.length;
  const folder = join(directory, 'pages');
  for (const name of await readdir(folder)) {
    const bytes = await readFile(join(folder, name));
    if (bytes.subarray(32).includes('Metadata-Version')) {
      await writeFile(join(folder, name), bytes.subarray(0, -1));
    }
  }
  assert.deepEqual(await namesFrom(), ['lib', 'tool']);
  assert.ok(parts.length > before);
});

test('metadata beside a wheel that are not those of the index are read in the wheel', async t => {
  const right = 'Metadata-Version: 2.1\nName: lib\nVersion: 1.0\n';
  const cases = [
    { beside: 'another text', listed: { 'core-metadata': { sha256: sha256Of(right) } }, tools: 1 },
    { beside: right, listed: { 'core-metadata': { sha256: sha256Of(right) } }, tools: 0 },
    { beside: '<html>Log in</html>', listed: { 'core-metadata': true }, tools: 1 },
    { beside: right, listed: { 'core-metadata': true }, tools: 0 },
    { listed: { 'core-metadata': true }, tools: 1 },
  ];
  for (const [at, { tools, ...more }] of cases.entries()) {
    const index = await startIndex(t, serving([{ ...lib, ...more }, tool]).answer);
    const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
    assert.equal((await solve(['lib'])).length, 1 + tools, `case ${at}`);
  }
});

test('a wheel that cannot be read in parts is left to the solver, which reads or refuses it', async t => {
  const changed = (change: (bytes: Buffer) => void): Served => {
    const bytes = Buffer.from(tool.bytes);
    change(bytes);
    return { ...tool, bytes };
  };
  const end = tool.bytes.length - 22;
  const list = tool.bytes.readUInt32LE(end + 16);
  const broken = {
    'no ranges': { ...tool, partStatus: 200 },
    'a range that is none': { ...tool, partStatus: 416 },
    'no end': changed(bytes => bytes.fill(0, end)),
    'a list beyond the end': changed(bytes => bytes.writeUInt32LE(0xfffffff0, end + 16)),
    'a list of 4 GiB': changed(bytes => bytes.writeUInt32LE(0xffffffff, end + 12)),
    'a member beyond the end': changed(bytes => {
      bytes.writeUInt32LE(bytes.length + 5, list + 42);
    }),
    'a member of 4 GiB': changed(bytes => bytes.writeUInt32LE(0xffffffff, list + 24)),
    'content that is none': changed(bytes => bytes.fill(0xff, 30 + 24, 30 + 40)),
  };
  for (const [what, served] of Object.entries(broken)) {
    const { answer, parts } = serving([served]);
    const index = await startIndex(t, answer);
    const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
    const names = await solve(['tool']).then(
      found => found.map(({ name }) => name),
      error => (error as Error).message,
    );
    if (what === 'no ranges') {
      assert.deepEqual(names, ['tool']);
      assert.ok(parts.includes('tool all'));
    } else {
      assert.equal(typeof names, 'string', `${what}: ${names}`);
      assert.doesNotMatch(String(names), /at file:|node:internal/, what);
    }
  }
});

/** Returns what reads the metadata of wheels of one host, for a caller. */
async function readerFor(
  t: TestContext,
  answer: ScriptedIndex['answer'],
  { directory, more }: { readonly directory?: string; readonly more?: Partial<IndexSettings> } = {},
) {
  const index = await startIndex(t, answer);
  const { access } = await solverFor(t, [indexAt(index.origin, 'https://files.test', more)]);
  const kept = createKeptFiles({
    directory: directory ?? (await emptyDirectory(t)),
    space: { take() {} },
    key: Buffer.alloc(32),
    maxBytes: 1e9,
  });
  const source = createWheelMetadataSource({ access, kept });
  const read = async (
    fileName: string,
    {
      caller = 'one',
      signal = t.signal,
      ...about
    }: { caller?: string; signal?: AbortSignal } & Partial<PublishedFile> = {},
  ) => {
    const url = `https://files.test/files/${fileName}`;
    const inside = { url, fileName, size: undefined, digest: '', metadata: 'inside' } as const;
    const file = { ...inside, ...about };
    return String(await source.read(file, { signal, caller, onBytes() {} }));
  };
  return { index, read };
}

const about = (name: string) => `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`;
/** Its metadata are the first of its members: all of its list, which has more than a megabyte, is read. */
const far = {
  fileName: 'far-1.0-py3-none-any.whl',
  bytes: rawZip([
    { name: 'far-1.0.dist-info/METADATA', content: about('far') },
    ...Array.from({ length: 12_000 }, (_, at) => ({ name: `lib/${'d'.repeat(40)}/${at}.py` })),
  ]),
};

test('a caller does not wait for hosts that others name', async t => {
  const stalled = { ...far, fileName: 'stalled-1.0-py3-none-any.whl' };
  const { answer } = serving([tool, far, stalled]);
  let ofStalled = 0;
  const { index, read } = await readerFor(t, (request, response) => {
    const { url = '' } = request;
    if (url.includes('/silent')) return;
    if (url.includes('/stalled')) ofStalled += 1;
    // Its list does not come.
    if (!url.includes('/stalled') || ofStalled < 3) answer(request, response);
  });
  const stop = new AbortController();
  const other = { caller: 'other', signal: stop.signal };
  const waiting = [assert.rejects(read(stalled.fileName, other))];
  await eventually('a list is asked for', () => ofStalled === 3);
  assert.equal(await read(far.fileName), about('far'));
  const silent = Array.from({ length: 50 }, (_, at) => `silent${at}-1-py3-none-any.whl`);
  waiting.push(...silent.map(name => assert.rejects(read(name, other))));
  await eventually('some are asked', () => index.requests.length >= 9);
  assert.match(await read(tool.fileName), /^Metadata-Version: 2\.1\nName: tool\n/);
  stop.abort(new Error('the other one left'));
  await Promise.all(waiting);
});

test('what is kept and sent to a solver has a megabyte at most, and no description', async t => {
  const text = (bytes: number) => `${about('x')}X: ${'x'.repeat(bytes)}\n`;
  const bytesOf = (content: string) =>
    rawZip([{ name: 'x-1.dist-info/METADATA', content, isDeflated: true }]);
  const { answer } = serving([
    { fileName: 'below-1-py3-none-any.whl', bytes: bytesOf(text(900_000)) },
    { fileName: 'above-1-py3-none-any.whl', bytes: bytesOf(text(1_100_000)) },
    { ...tool, beside: `${about('tool')}\n${'A description. '.repeat(1000)}` },
    { ...lib, beside: `${about('lib')}\n${'A description. '.repeat(100_000)}` },
  ]);
  const { read } = await readerFor(t, answer);
  assert.equal((await read('below-1-py3-none-any.whl')).length, text(900_000).length);
  await assert.rejects(read('above-1-py3-none-any.whl'), MetadataMissing);
  assert.equal(await read(tool.fileName, { metadata: 'beside' }), about('tool'));
  const inside = `${about('lib')}Requires-Dist: tool\n`;
  assert.equal(await read(lib.fileName, { metadata: 'beside' }), inside);
});

test('a server that sends no parts is left to the solver, and one that breaks off is down', async t => {
  const answers: Readonly<Record<string, ScriptedIndex['answer']>> = {
    refuses: (_, response) => void response.writeHead(400).end(),
    'sends-all': ({ headers }, response) => {
      const range = `${headers.range?.replace('=', ' ')}/${tool.bytes.length}`;
      response.writeHead(206, { 'content-range': range }).end(tool.bytes);
    },
    'breaks-off': ({ headers }, response) => {
      const range = `${headers.range?.replace('=', ' ')}/${tool.bytes.length}`;
      response.writeHead(206, { 'content-range': range, 'content-length': 50 });
      response.write('a', () => response.destroy());
    },
  };
  const { read } = await readerFor(t, (request, response) => {
    const [, name = ''] = /^\/files\/([a-z-]+)/.exec(request.url ?? '') ?? [];
    answers[name]?.(request, response);
  });
  for (const name of ['refuses', 'sends-all']) {
    await assert.rejects(read(name, { size: 600 }), MetadataMissing, name);
  }
  await assert.rejects(read('breaks-off', { size: 600 }), {
    name: 'Fault',
    kind: 'upstream-unusable',
    message: /^The index of Python packages at files\.test sent less than it announced/,
  });
});

test('an index without parts leaves those of another one as they are', async t => {
  const app = wheelOf({ name: 'app', metadata: 'Requires-Dist: tool\n' });
  const main = serving([app]);
  const own = serving([{ ...tool, partStatus: 200 }]);
  const [mainIndex, ownIndex] = [await startIndex(t, main.answer), await startIndex(t, own.answer)];
  const url = 'https://wheels.test/simple';
  const settings = [indexAt(mainIndex.url, publicIndex), indexAt(ownIndex.url, url)];
  const { solver, request } = await solverFor(t, settings);
  const wanted = { ...request(['app']), indexes: [{ url, isExtra: true }] };
  const found = await solver.solve(wanted, { log() {}, signal: t.signal });
  assert.equal(found.length, 2);
  assert.deepEqual(main.parts, ['app part', 'app part']);
  assert.ok(own.parts.includes('tool all'));
});

test('metadata of an index are not those of the one that the settings named before', async t => {
  const directory = await emptyDirectory(t);
  for (const [password, name] of [
    ['first', 'wrong'],
    ['second', 'tool'],
  ] as const) {
    const { answer } = serving([{ ...tool, beside: about(name) }]);
    const more = { credentials: { kind: 'password', username: 'a', password } } as const;
    const { read } = await readerFor(t, answer, { directory, more });
    assert.equal(await read(tool.fileName, { metadata: 'beside' }), about(name));
  }
});

test('a list made to be searched for long does not hold the event loop', async t => {
  const list = Buffer.from('.dist-info/METADATA'.repeat(600_000));
  const tail = Buffer.alloc(22);
  tail.writeUInt32LE(0x06054b50, 0);
  tail.writeUInt32LE(list.length, 12);
  const wheel = Buffer.concat([list, tail]);
  const { read } = await readerFor(t, serving([{ ...tool, bytes: wheel }]).answer);
  const { cpuMs } = await longestBlock(() => assert.rejects(read(tool.fileName), MetadataMissing));
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});
