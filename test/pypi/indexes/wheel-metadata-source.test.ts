/** Metadata of wheels whose index has none beside them: they are read in parts of the wheel, once. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  createWheelMetadataSource,
  MetadataMissing,
} from '../../../src/pypi/indexes/wheel-metadata-source.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { type ScriptedIndex, startIndex } from '../solving/scripted-index.ts';
import { indexAt, solverFor } from '../solving/solving-world.ts';
import { wheelOf } from '../wheels/made-wheel.ts';

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
  // The list of the large one is not within its end, and the size of the other one is wrong.
  const three = (name: string) => Array.from({ length: 3 }, () => `${name} part`);
  assert.deepEqual(parts, [...three('lib'), ...three('tool')]);
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

test('a list made to be searched for long does not hold the event loop', async t => {
  const list = Buffer.from('.dist-info/METADATA'.repeat(600_000));
  const tail = Buffer.alloc(22);
  tail.writeUInt32LE(0x06054b50, 0);
  tail.writeUInt32LE(list.length, 12);
  const wheel = Buffer.concat([list, tail]);
  const index = await startIndex(t, serving([{ ...tool, bytes: wheel }]).answer);
  const { access } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const kept = { pathOf: () => '/nonexistent', write: async () => {} };
  const source = createWheelMetadataSource({ access, kept });
  const url = `${index.origin}/files/${tool.fileName}`;
  const file = { url, fileName: tool.fileName, size: wheel.length, digest: '' };
  const { cpuMs } = await longestBlock(() =>
    assert.rejects(
      source.read({ ...file, metadata: 'inside' }, { signal: t.signal, onBytes() {} }),
      MetadataMissing,
    ),
  );
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});
