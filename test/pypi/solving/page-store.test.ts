/** Kept pages of indexes: which index they are of, how many there are, and what a killed server or a full disk leaves. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { createKeptFiles, createPageStore } from '../../../src/pypi/index.ts';
import { eventually } from '../../world/eventually.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { listing, startIndex } from './scripted-index.ts';
import { indexAt, solverFor } from './solving-world.ts';

const publicIndex = 'https://pypi.org/simple';
const lib = { versions: { '2.5': [] } };

async function emptyDirectory(t: TestContext): Promise<string> {
  const { path, remove } = await makeTempDir('pages');
  t.after(remove);
  return path;
}

test('after a change of the configuration the pages of the index before it do not answer', async t => {
  const directory = await emptyDirectory(t);
  const before = await startIndex(t, listing({ lib, gone: lib }));
  const now = await startIndex(t, listing({ lib: { versions: { '9.0': [] } } }));
  const read = async (url: string, project: string, more: object = {}) => {
    const settings = [indexAt(url, publicIndex, more)];
    const { pages } = await solverFor(t, settings, { directory });
    using kept = await pages.page(publicIndex, project, t.signal);
    return kept && Buffer.from(kept.page).toString();
  };
  assert.match((await read(before.url, 'lib')) ?? '', /lib-2\.5-/);
  assert.match((await read(before.url, 'gone')) ?? '', /gone-2\.5-/);
  const asked = before.requests.length;
  assert.match((await read(before.url, 'lib')) ?? '', /lib-2\.5-/);
  assert.equal(before.requests.length, asked, 'a page that is kept is not fetched again');
  assert.match((await read(now.url, 'lib')) ?? '', /lib-9\.0-/);
  assert.equal(await read(now.url, 'gone'), undefined);
  // Another reader may see other files.
  const credentials = { kind: 'password', username: 'me', password: 'sesame-1' } as const;
  await read(before.url, 'lib', { credentials });
  assert.equal(before.requests.length, asked + 1);
});

test('a project that an index does not have is not asked for again at once', async t => {
  const index = await startIndex(t, listing({ lib }));
  const { pages } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const later = await solverFor(t, [indexAt(index.url, publicIndex)], { freshMs: 0 });
  assert.equal(await pages.page(publicIndex, 'none', t.signal), undefined);
  assert.equal(await later.pages.page(publicIndex, 'none', t.signal), undefined);
  const asked = index.requests.length;
  assert.equal(await pages.page(publicIndex, 'none', t.signal), undefined);
  assert.equal(index.requests.length, asked);
  await later.pages.page(publicIndex, 'none', t.signal);
  assert.equal(index.requests.length, asked + 1, 'it can be published');
});

test('a page that was not written to its end, or could not be written, is fetched again', async t => {
  const directory = await emptyDirectory(t);
  const index = await startIndex(t, listing({ lib }));
  const settings = [indexAt(index.url, publicIndex)];
  const { pages } = await solverFor(t, settings, { directory });
  const whole = await pages.page(publicIndex, 'lib', t.signal);
  const [name = '', ...others] = await readdir(join(directory, 'pages'));
  assert.deepEqual(others, []);
  const path = join(directory, 'pages', name);
  const { length } = await readFile(path);
  for (const bytes of [length - 1, 10, 0]) {
    await truncate(path, bytes);
    const again = await solverFor(t, settings, { directory });
    assert.deepEqual((await again.pages.page(publicIndex, 'lib', t.signal))?.page, whole?.page);
  }
  assert.equal(index.requests.length, 4);
  const full = await solverFor(t, settings, {
    directory: await emptyDirectory(t),
    take() {
      throw new Error('no room');
    },
  });
  assert.deepEqual((await full.pages.page(publicIndex, 'lib', t.signal))?.page, whole?.page);
  assert.deepEqual(await readdir(join(full.directory, 'pages')).catch(() => []), []);
});

test('the oldest of many pages are removed without holding the event loop', async t => {
  const directory = await emptyDirectory(t);
  const folder = join(directory, 'pages');
  await mkdir(folder);
  const count = 20_000;
  const names = Array.from({ length: count }, (_, at) => `page-${at}`);
  for (let at = 0; at < count; at += 500) {
    await Promise.all(names.slice(at, at + 500).map(name => writeFile(join(folder, name), 'x')));
  }
  const old = new Date(Date.now() - 7_200_000);
  const oldest = 'page-19999';
  await utimes(join(folder, oldest), old, old);
  const draft = `${'a'.repeat(64)}.1.new`;
  await writeFile(join(folder, draft), 'half');
  await utimes(join(folder, draft), old, old);
  const index = await startIndex(t, listing({ lib }));
  const settings = [indexAt(index.url, publicIndex)];
  const { pages } = await solverFor(t, settings, { directory, maxPageBytes: count });
  const { cpuMs } = await longestBlock(() => pages.page(publicIndex, 'lib', t.signal));
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
  const left = await readdir(folder);
  assert.ok(left.length <= count * 0.9 + 1, `${left.length} pages`);
  assert.ok(!left.includes(oldest));
  assert.ok(!left.includes(draft));
});

test('a page of 60,000 files is read and kept without holding the event loop', async t => {
  const files = Array.from({ length: 60_000 }, (_, at) => ({
    filename: `lib-${at}-py3-none-any.whl`,
    url: `/files/lib-${at}-py3-none-any.whl`,
    hashes: { sha256: 'b'.repeat(64) },
    size: at,
    'core-metadata': true,
  }));
  const body = JSON.stringify({ files });
  const index = await startIndex(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  });
  const { pages } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  for (const _ of ['fetched', 'kept']) {
    const { cpuMs } = await longestBlock(async () => {
      using kept = await pages.page(publicIndex, 'lib', t.signal);
      assert.ok((kept?.page.length ?? 0) > 10_000_000);
    });
    assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
  }
  assert.equal(index.requests.length, 1);
});

test('what pages take counts for the limit of a solve', async t => {
  const index = await startIndex(t, listing({ lib }));
  const { openWith } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const huge = { length: 2 ** 31 } as Uint8Array;
  using opened = await openWith({
    page: async () => ({ page: huge, note: undefined, [Symbol.dispose]() {} }),
  });
  const failed = assert.rejects(opened.failed, /required more than 1024 MiB of the index/);
  assert.equal((await fetch(`${opened.url}lib/`)).status, 404);
  await failed;
});

test('a page that does not end is given up, and pages of the operator do not wait for it', async t => {
  const good = listing({ lib });
  let isSlow = false;
  const index = await startIndex(t, (request, response) => {
    if (!isSlow && !request.url?.startsWith('/slow/')) return good(request, response);
    // Its length is unknown.
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = globalThis.setInterval(() => response.write(' '), 100);
    response.once('close', () => clearInterval(timer));
  });
  const named = 'https://named.test/slow';
  const settings = [indexAt(index.url, publicIndex), indexAt(`${index.origin}/slow`, named)];
  const { access, thread, directory } = await solverFor(t, settings);
  const key = Buffer.alloc(32);
  const kept = createKeptFiles({ directory, space: { take() {} }, key, maxBytes: 1e9 });
  // One that only a request names.
  const settingsOf: typeof access.settingsOf = url =>
    url.startsWith(named) ? undefined : access.settingsOf(url);
  const store = { access: { ...access, settingsOf }, thread, kept, key, freshMs: 0 };
  const pages = createPageStore(store);
  const stop = new AbortController();
  let isOver = false;
  const slow = pages
    .page(named, 'lib', stop.signal)
    .catch(() => {})
    .finally(() => {
      isOver = true;
    });
  await eventually('it is asked', () => index.requests.length === 1);
  (await pages.page(publicIndex, 'lib', t.signal))?.[Symbol.dispose]();
  assert.equal(isOver, false);
  stop.abort();
  await slow;
  isSlow = true;
  const impatient = createPageStore({ ...store, timeoutMs: 200 });
  using old = await impatient.page(publicIndex, 'lib', t.signal);
  assert.match(old?.note ?? '', /did not answer within 0\.2 s.* of 0 minutes ago is used$/);
  await assert.rejects(impatient.page(named, 'tool', t.signal), {
    kind: 'upstream-unusable',
    message:
      /^The index of Python packages at named\.test did not answer within 0\.2 s: try later$/,
  });
});

test('of many large pages few are in memory at the same time', async t => {
  const padding = 'x'.repeat(16 * 1024 * 1024);
  const page = Buffer.from(JSON.stringify({ files: [], padding }));
  let sent = 0;
  let settled = 0;
  let most = 0;
  const index = await startIndex(t, (_, response) => {
    response.once('finish', () => {
      sent += 1;
      most = Math.max(most, sent - settled);
    });
    const headers = { 'content-type': 'application/json', 'content-length': page.length };
    response.writeHead(200, headers).end(page);
  });
  const { pages } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const names = Array.from({ length: 12 }, (_, at) => `lib${at}`);
  const reads = names.map(async name => {
    using kept = await pages.page(publicIndex, name, t.signal);
    settled += 1;
    assert.ok(kept);
  });
  await Promise.all(reads);
  assert.equal(index.requests.length, names.length);
  assert.ok(most <= 3, `${most} pages of 16 MiB at the same time`);
});

test('of many kept pages few bytes are in memory at the same time, however slowly they are read', async t => {
  const padding = 'x'.repeat(10 * 1024 * 1024);
  const page = Buffer.from(JSON.stringify({ files: [], padding }));
  const index = await startIndex(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(page);
  });
  const { pages, directory } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const names = Array.from({ length: 8 }, (_, at) => `lib${at}`);
  const pad = async (name: string) => {
    (await pages.page(publicIndex, name, t.signal))?.[Symbol.dispose]();
  };
  for (const name of names) await pad(name);
  const folder = join(directory, 'pages');
  // What the store writes has no padding.
  for (const name of await readdir(folder)) {
    const [head = '', ...rest] = (await readFile(join(folder, name), 'utf8')).split('\n');
    const body = rest.join('\n') + padding;
    const bytes = Buffer.byteLength(body);
    const longer = JSON.stringify({ ...JSON.parse(head), bytes });
    await writeFile(join(folder, name), `${longer}\n${body}`);
  }
  const held: Disposable[] = [];
  const reads = names.map(async name => {
    const kept = await pages.page(publicIndex, name, t.signal);
    assert.ok(kept && kept.page.length > padding.length);
    held.push(kept);
  });
  let done = 0;
  let most = 0;
  while (done < names.length) {
    while (held.length === 0) await setTimeout(5);
    // The others would come now.
    await setTimeout(50);
    most = Math.max(most, held.length);
    for (const one of held.splice(0)) {
      one[Symbol.dispose]();
      done += 1;
    }
  }
  await Promise.all(reads);
  assert.ok(most <= 3, `${most} pages of 10 MiB at the same time`);
  assert.equal(index.requests.length, names.length);
});
