/** The search for a Python package, in an index that really answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createProjectSearch } from '../../../src/pypi/index.ts';
import { newestProjectVersions } from '../../../src/pypi/pep440-order.ts';
import { startIndex } from '../solving/scripted-index.ts';
import { indexAt, solverFor } from '../solving/solving-world.ts';

const page = (name: string, files: readonly object[]) =>
  JSON.stringify({ meta: { 'api-version': '1.1' }, name, files });
const file = (filename: string, yanked: boolean | string = false) => ({
  filename,
  url: `/files/${filename}`,
  hashes: { sha256: 'a'.repeat(64) },
  yanked,
});

test('more searches than wait for an index are late, and fail no search', async t => {
  const hold = Promise.withResolvers<void>();
  const index = await startIndex(t, async (_, response) => {
    await hold.promise;
    response.writeHead(404).end();
  });
  const { pages, thread } = await solverFor(t, [indexAt(index.url, 'https://pypi.org/simple')]);
  const search = createProjectSearch({ pages, thread, isOffered: () => true });
  const names = Array.from({ length: 70 }, (_, at) => `project-${at}`);
  const found = await Promise.all(names.map(name => search.find(name, t.signal)));
  assert.ok(found.every(({ isLate, problem }) => isLate && problem === undefined));
  hold.resolve();
});

test('versions are in the order of the specification, without pre-releases where there are others', () => {
  const all = [
    '1.0',
    '1.10',
    '1!0.1',
    '1.9.post1',
    '1.9',
    '2.0rc1',
    '2.0.dev1',
    'nonsense',
    '1.0+cpu',
  ];
  const stable = ['1!0.1', '1.10', '1.9.post1', '1.9', '1.0+cpu', '1.0'];
  assert.deepEqual(newestProjectVersions(all), stable);
  const before = ['1.0a1', '1.0.dev2', '1.0rc1', '1.0b2', '1.0a1.dev3', '1.0a1.post1'];
  const sorted = ['1.0rc1', '1.0b2', '1.0a1.post1', '1.0a1', '1.0a1.dev3', '1.0.dev2'];
  assert.deepEqual(newestProjectVersions(before), sorted);
});

test('a project is found by its name alone, and an index that is slow, down or closed keeps nobody waiting', async t => {
  let hold = Promise.resolve();
  const index = await startIndex(t, async ({ url = '' }, response) => {
    const [, name = ''] = /^\/simple\/([^/]+)\/$/.exec(url) ?? [];
    if (name === 'slow') await hold;
    if (name === 'broken') return void response.writeHead(500).end();
    const files = [
      file('My_Tool-1.9-py3-none-any.whl'),
      file('my_tool-1.10.tar.gz'),
      file('my_tool-2.0-py3-none-any.whl', 'broken'),
      file('my_tool-2.1-cp311-cp311-win_amd64.whl'),
    ];
    if (name !== 'my-tool' && name !== 'slow') return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' });
    response.end(page(name, name === 'slow' ? [file('slow-1.0-py3-none-any.whl')] : files));
  });
  const { pages, thread } = await solverFor(t, [indexAt(index.url, 'https://pypi.org/simple')]);
  let isOffered = true;
  const search = createProjectSearch({ pages, thread, isOffered: () => isOffered });
  const look = (text: string) => search.find(text, t.signal);
  // On a busy machine, this index is late also.
  const find = async (text: string) => {
    for (;;) {
      const found = await look(text);
      if (!found.isLate) return found;
    }
  };
  const paths = () => index.requests.splice(0).map(({ path }) => path);

  assert.deepEqual((await find(' My.Tool ')).project, {
    name: 'my-tool',
    versions: [
      { version: '1.10', hasWheel: false },
      { version: '1.9', hasWheel: true },
    ],
    hasMore: false,
  });
  await find('my_tool');
  assert.deepEqual(paths(), ['/simple/my-tool/'], 'it is asked once');
  for (const text of ['..', 'a/b', 'a b', '-e', 'a?b', 'x'.repeat(101), 'http://127.0.0.1', '']) {
    assert.equal((await find(text)).project, undefined, text);
  }
  assert.deepEqual(paths(), [], 'what is not a name is not asked for');
  assert.deepEqual(await find('missing'), {
    project: undefined,
    problem: undefined,
    isLate: false,
  });
  assert.match((await find('broken')).problem ?? '', /index of Python packages/);
  const { promise, resolve } = Promise.withResolvers<void>();
  hold = promise;
  const began = performance.now();
  assert.equal((await look('slow')).isLate, true);
  assert.ok(performance.now() - began < 5000);
  resolve();
  assert.equal((await find('slow')).project?.versions[0]?.version, '1.0');
  paths();
  isOffered = false;
  assert.equal((await find('other')).project, undefined);
  assert.deepEqual(paths(), []);

  // An index at a closed address, which the operator has not allowed.
  const closed = { ...indexAt(index.url, 'https://pypi.org/simple'), allowPrivateAddress: false };
  const guarded = await solverFor(t, [closed]);
  const refused = createProjectSearch({ ...guarded, isOffered: () => true });
  assert.match((await refused.find('my-tool', t.signal)).problem ?? '', /private|closed|loopback/i);
  assert.deepEqual(paths(), []);
});
