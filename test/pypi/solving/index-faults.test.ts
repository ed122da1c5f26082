import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { createLoopbackIndex } from '../../../src/pypi/index.ts';
import { eventually } from '../../world/eventually.ts';
import { wheelOf } from '../wheels/made-wheel.ts';
import { listing, startIndex } from './scripted-index.ts';
import { condaProject, indexAt, solverFor } from './solving-world.ts';

const publicIndex = 'https://pypi.org/simple';
const tool = { versions: { '1.0': ['lib>=2'], '2.0': ['lib>=3'] } };
const lib = { versions: { '2.5': [], '3.1': [] } };

test('the newest wheels that fit together are chosen, and their addresses are those of the index', async t => {
  const index = await startIndex(t, listing({ tool, lib }));
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const names = async (...given: Parameters<typeof solve>) =>
    (await solve(...given)).map(({ name, version }) => `${name} ${version}`);
  assert.deepEqual(await names(['tool']), ['lib 3.1', 'tool 2.0']);
  assert.deepEqual(await names(['tool'], [condaProject('lib', '2.5')]), ['tool 1.0']);
  const [wheel] = await solve(['lib<3']);
  assert.equal(wheel?.url, `${index.origin}/files/lib-2.5-py3-none-any.whl`);
});

test('a page is kept, and used while its index is down', async t => {
  const index = await startIndex(t, listing({ lib }));
  const { solve, lines } = await solverFor(t, [indexAt(index.url, publicIndex)], { freshMs: 0 });
  await solve(['lib']);
  const { answer } = index;
  index.answer = (request, response) => {
    if (!request.url?.startsWith('/simple/')) return answer(request, response);
    response.writeHead(503).end();
  };
  assert.equal((await solve(['lib'])).length, 1);
  assert.match(lines.join('\n'), /answered 503 for .*\. Its list of the files of lib of 0 minutes/);
  index.answer = (request, response) => {
    if (!request.url?.startsWith('/simple/')) return answer(request, response);
    response.writeHead(200, { 'content-length': 500 });
    response.write('{', () => response.destroy());
  };
  assert.equal((await solve(['lib'])).length, 1);
  assert.match(lines.join('\n'), /sent less than it announced \(asked for the page of lib\)/);
  index.answer = (_, response) => void response.writeHead(503).end();
  await assert.rejects(solve(['tool']), /answered 503 for \/simple\/tool\/: try later/);
});

test('credentials go to their index alone, and are in no message', async t => {
  const elsewhere = await startIndex(t, listing({ lib }));
  const files = elsewhere.origin;
  const index = await startIndex(t, listing({ tool, lib: { ...lib, files } }));
  const credentials = { kind: 'password', username: 'me', password: 'sesame-1' } as const;
  const { solve } = await solverFor(t, [
    indexAt(index.url, publicIndex, { credentials }),
    indexAt(files, files),
  ]);
  await solve(['lib']);
  const login = `Basic ${Buffer.from('me:sesame-1').toString('base64')}`;
  assert.deepEqual([...new Set(index.requests.map(it => it.authorization))], [login]);
  assert.ok(elsewhere.requests.length > 0);
  assert.ok(elsewhere.requests.every(it => it.authorization === undefined));
  index.answer = (_, response) => void response.writeHead(401).end();
  await assert.rejects(solve(['absent']), (error: Error) => {
    assert.match(error.message, /answered 401 for .*: the operator can give it credentials/);
    assert.doesNotMatch(error.message, /sesame|127\.0\.0\.1:\d+\/[0-9a-f]{64}/);
    return true;
  });
});

test('an entry is for its index and the files beside it, not for all else of its host', async t => {
  const index = await startIndex(t, (_, response) => void response.end('ok'));
  const credentials = { kind: 'password', username: 'me', password: 'sesame-1' } as const;
  const entry = (path: string, key: string) =>
    indexAt(`${index.origin}${path}`, key, { credentials });
  const reads = async (paths: readonly string[], ...entries: ReturnType<typeof entry>[]) => {
    const { access } = await solverFor(t, entries);
    for (const path of paths) {
      index.requests.length = 0;
      const opened = access.open(`${index.origin}${path}`, { signal: t.signal });
      await opened.then(({ body }) => body.destroy()).catch(() => {});
      const [request] = index.requests;
      assert.equal(request?.authorization !== undefined, true, path);
    }
  };
  const refuses = async (paths: readonly string[], ...entries: ReturnType<typeof entry>[]) => {
    const { access } = await solverFor(t, entries);
    index.requests.length = 0;
    for (const path of paths) {
      const opened = access.open(`${index.origin}${path}`, { signal: t.signal });
      await assert.rejects(opened, /otherwise closed network address/);
    }
    assert.deepEqual(index.requests, []);
  };
  const one = entry('/simple', publicIndex);
  await reads(['/simple/a/', '/packages/a.whl', '/files/a.whl'], one);
  await refuses(['/admin', '/api/v4/a.whl', '/simpler/a.whl', '/simple/%2e%2e/admin'], one);
  const deep = entry('/team/pypi/simple', publicIndex);
  await reads(['/team/pypi/simple/a/', '/team/pypi/+f/a.whl'], deep);
  await refuses(['/other/pypi/+f/a.whl', '/team/a.whl'], deep);
  const files = entry('/team/pypi/extra', 'https://extra.test/files');
  await refuses(['/team/pypi/+f/a.whl', '/packages/a.whl'], files);
  const other = entry('/team/pypi/+simple', 'https://extra.test/simple');
  await refuses(['/team/pypi/+f/a.whl'], deep, other);
  const { access } = await solverFor(t, [deep]);
  for (const path of [
    '..%2f..%2Fadmin',
    'a/%2e%2e%5cadmin',
    '..%2fadmin/%zz',
    '..;/..;a=b/admin',
  ]) {
    const url = `${index.origin}/team/pypi/simple/${path}`;
    await assert.rejects(access.open(url, { signal: t.signal }), /leads out of its folder/, path);
  }
  assert.deepEqual(index.requests, []);
});

test('an index, its redirects and its files reach no closed address that is not listed', async t => {
  const closed = await startIndex(t, listing({ lib }));
  const index = await startIndex(t, listing({ lib: { ...lib, files: closed.origin } }));
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const refusal = /at a loopback, private or otherwise closed network address .* with pypi and/;
  await assert.rejects(solve(['lib']), refusal);
  index.answer = (request, response) =>
    void response.writeHead(302, { location: `${closed.origin}${request.url}` }).end();
  await assert.rejects(solve(['tool']), refusal);
  assert.deepEqual(closed.requests, []);
});

test('answers that are not those of an index are refused with the reason', async t => {
  const index = await startIndex(t, () => {});
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const cases: readonly (readonly [string, string, RegExp])[] = [
    [
      'text/html',
      '<html><h1>Log in</h1><a href="/login">here</a></html>',
      /not a page of an index/,
    ],
    ['application/json', '{"files": 3}', /JSON without a list of files/],
    ['application/json', '{"files": [', /JSON that cannot be read/],
    [
      'text/html',
      '<a href="/f/p4-1.0-py3-none-any.whl">p4-1.0-py3-none-any.whl</a>',
      /states no SHA-256 for the files of p4/,
    ],
  ];
  for (const [at, [type, body, expected]] of cases.entries()) {
    index.answer = (_, response) => {
      response.writeHead(200, { 'content-type': type }).end(body);
    };
    await assert.rejects(solve([`p${at + 1}`]), expected);
  }
});

test('a page in HTML is read', async t => {
  const sha256 = 'b'.repeat(64);
  const link = `<a href="../../files/lib-2.5-py3-none-any.whl#sha256=${sha256}" data-requires-python="&gt;=3.8" data-core-metadata="true">x</a>`;
  const other = listing({ lib });
  const index = await startIndex(t, (request, response) => {
    if (!request.url?.startsWith('/simple/')) return other(request, response);
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<!DOCTYPE html>${link}`);
  });
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const [wheel] = await solve(['lib']);
  assert.equal(wheel?.sha256, sha256);
  assert.equal(wheel?.url, `${index.origin}/files/lib-2.5-py3-none-any.whl`);
});

test('a solve ends with its time or memory, and leaves nothing behind', async t => {
  const index = await startIndex(t, () => {});
  const indexes = [indexAt(index.url, publicIndex)];
  const slow = await solverFor(t, indexes, { timeout: 1000 });
  await assert.rejects(slow.solve(['lib']), /were not solved within 1 s/);
  assert.deepEqual(await readdir(`${slow.directory}/solving`), []);
  const small = await solverFor(t, indexes, { memory: 1024 });
  await assert.rejects(small.solve(['lib']), /requires more than 0 MiB of memory/);
});

test('the index on the loopback answers only the solver that it was opened for', async t => {
  const index = await startIndex(t, listing({ lib }));
  const { loopback } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const session = { indexes: [publicIndex], installed: new Map(), log() {}, signal: t.signal };
  const opened = await loopback.open(session);
  const page = `${opened.url}lib/`;
  assert.equal((await fetch(page)).status, 200);
  assert.equal((await fetch(page, { method: 'POST' })).status, 404);
  assert.equal((await fetch(page.replace(/[0-9a-f]{64}/, '0'.repeat(64)))).status, 404);
  assert.equal((await fetch(new URL('/simple/lib/', page))).status, 404);
  opened[Symbol.dispose]();
  assert.equal((await fetch(page)).status, 404);
});

test('a solver does not wait for pages of slow indexes that another one asks for', async t => {
  const index = await startIndex(t, listing({ lib }));
  const silent = await startIndex(t, () => {});
  const slowIndex = 'https://slow.test/simple';
  const settings = [indexAt(index.url, publicIndex), indexAt(silent.url, slowIndex)];
  const { loopback } = await solverFor(t, settings);
  const session = { installed: new Map(), log() {}, signal: t.signal };
  using theirs = await loopback.open({ ...session, indexes: [slowIndex] });
  using own = await loopback.open({ ...session, indexes: [publicIndex] });
  const stop = new AbortController();
  const pages = Array.from({ length: 30 }, (_, at) => `${theirs.url}lib${at}/`);
  let over = 0;
  const waiting = pages.map(async url => {
    await fetch(url, { signal: stop.signal }).catch(() => {});
    over += 1;
  });
  await eventually('some are asked for', () => silent.requests.length >= 8);
  assert.equal((await fetch(`${own.url}lib/`)).status, 200);
  assert.equal(over, 0);
  stop.abort();
  await Promise.all(waiting);
});

test('the metadata of a wheel are read in parts where an index does not list them', async t => {
  const file = Buffer.alloc(5000, 'x');
  const ranges: string[] = [];
  const pages = listing({ lib });
  const index = await startIndex(t, (request, response) => {
    if (request.url?.startsWith('/simple/')) return pages(request, response);
    const [, first = '0', last = ''] =
      /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    ranges.push(request.headers.range ?? 'all');
    const part = file.subarray(Number(first), Number(last) + 1);
    response.writeHead(206, { 'content-range': `bytes ${first}-${last}/${file.length}` }).end(part);
  });
  const { loopback } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const session = { indexes: [publicIndex], installed: new Map(), log() {}, signal: t.signal };
  using opened = await loopback.open(session);
  const [url = ''] = await addressesIn(`${opened.url}lib/`);
  const head = await fetch(url, { method: 'HEAD' });
  assert.equal(head.headers.get('accept-ranges'), 'bytes');
  assert.equal(head.headers.get('content-length'), '5000');
  const part = await fetch(url, { headers: { range: 'bytes=4000-4009' } });
  assert.equal(part.status, 206);
  assert.equal((await part.arrayBuffer()).byteLength, 10);
  assert.deepEqual(ranges, ['bytes=0-0', 'bytes=4000-4009']);
});

/** Returns the addresses of the files on a page. */
async function addressesIn(page: string): Promise<string[]> {
  const { files } = (await (await fetch(page)).json()) as { files: { url: string }[] };
  return files.map(({ url }) => new URL(url, page).href);
}

test('metadata count for the limit of a solve, however few bytes of the index they are', async t => {
  const index = await startIndex(t, listing({ lib }));
  const { access, pages, key } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const huge = { length: 2 ** 31 } as Buffer;
  const loopback = createLoopbackIndex({
    ...{ access, pages, key },
    metadata: { read: async () => huge },
  });
  t.after(loopback.close);
  const session = { indexes: [publicIndex], installed: new Map(), log() {}, signal: t.signal };
  using opened = await loopback.open(session);
  const [url = ''] = await addressesIn(`${opened.url}lib/`);
  const failed = assert.rejects(opened.failed, /required more than 1024 MiB of the index/);
  assert.equal((await fetch(`${url}.metadata`)).status, 404);
  await failed;
});

test('only files that a page has listed for this solver are fetched', async t => {
  const index = await startIndex(t, listing({ lib, tool }));
  const { loopback } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const session = { indexes: [publicIndex], installed: new Map(), log() {}, signal: t.signal };
  using opened = await loopback.open(session);
  using other = await loopback.open(session);
  const [url = ''] = await addressesIn(`${opened.url}lib/`);
  assert.equal((await fetch(`${url}.metadata`)).status, 200);
  assert.ok(opened.fileAt(url));
  const asked = index.requests.length;
  const secret = (of: string) => /[0-9a-f]{64}/.exec(of)?.[0] ?? '';
  const elsewhere = Buffer.from(`${index.origin}/admin/x`).toString('base64url');
  const others = [
    // Another solver, which has not got the page.
    url.replace(secret(url), secret(other.url)),
    url.replace(/\/files\/lib\//, '/files/tool/'),
    url.replace(/[^/]+(?=\/[^/]+$)/, elsewhere),
    url.replace(/lib-[\d.]+-/, 'lib-9-'),
    new URL(`../files/${elsewhere}/x.whl`, opened.url).href,
  ];
  for (const one of others) {
    assert.notEqual(one, url);
    assert.equal((await fetch(`${one}.metadata`)).status, 404, one);
    assert.equal(opened.fileAt(one) ?? other.fileAt(one), undefined, one);
  }
  assert.equal(index.requests.length, asked);
});

test('metadata that an index promises and does not show are read in the wheel', async t => {
  const wheels = [
    wheelOf({ name: 'lib', version: '3.1', metadata: 'Requires-Dist: tool\n' }),
    wheelOf({ name: 'tool' }),
  ];
  const pages = listing({ lib: { versions: { '3.1': [] } }, tool: { versions: { '1.0': [] } } });
  let status = 403;
  const index = await startIndex(t, (request, response) => {
    const { url = '', headers } = request;
    if (url.endsWith('.metadata')) return void response.writeHead(status).end();
    const bytes = wheels.find(({ fileName }) => url.endsWith(`/${fileName}`))?.bytes;
    if (bytes === undefined) return pages(request, response);
    const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(headers.range ?? '') ?? [];
    const end = first === '' || last === '' ? Infinity : Number(last);
    const part = bytes.subarray(first === '' ? -Number(last) : Number(first), end + 1);
    const start = first === '' ? bytes.length - part.length : Number(first);
    const range = `bytes ${start}-${start + part.length - 1}/${bytes.length}`;
    response.writeHead(206, { 'content-range': range }).end(part);
  });
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  for (status of [403, 404, 401]) {
    const names = (await solve(['lib'])).map(({ name }) => name);
    assert.deepEqual(names, ['lib', 'tool'], `${status}`);
  }
});

test('the signature of an address is in no address of a wheel', async t => {
  const files = [
    {
      filename: 'lib-2.5-py3-none-any.whl',
      url: '/files/lib-2.5-py3-none-any.whl?X-Amz-Signature=sesame-1&X-Amz-Date=2',
      hashes: { sha256: 'b'.repeat(64) },
      'core-metadata': true,
    },
  ];
  const other = listing({ lib });
  const index = await startIndex(t, (request, response) => {
    if (!request.url?.startsWith('/simple/')) return other(request, response);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ files }));
  });
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const [wheel] = await solve(['lib']);
  assert.equal(wheel?.url, `${index.origin}/files/lib-2.5-py3-none-any.whl`);
});
