/** Files of a layer by the API and the command line: a page of the same data is tested in test/pages. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { type Image, imageOf } from '../corpus/image.ts';
import { type Entry, layerOf, tarOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

interface FilesResponse {
  readonly state: string;
  readonly reason?: string;
  readonly digest: string;
  readonly number: number;
  readonly count: number;
  readonly pages: number;
  readonly bytes: number;
  readonly files: readonly Record<string, unknown>[];
  readonly privileged: readonly string[];
  readonly waste: { readonly image: { readonly wastedBytes: number; readonly wasted: unknown } };
}

const admin = { name: 'admin', password: 'open sesame' };
const kilo = (letter: string) => letter.repeat(1000);
const lower: readonly Entry[] = [
  { name: 'bin/' },
  { name: 'bin/su', content: kilo('s'), mode: 0o4755 },
  { name: 'etc/' },
  { name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\n' },
  { name: 'var/cache/one', content: kilo('1') },
];
const upper: readonly Entry[] = [
  { name: 'etc/passwd', content: 'changed\n', uid: 7 },
  { name: 'etc/\u001b[31m%?', content: 'odd' },
  { name: 'bin/sh', link: 'su' },
  { name: 'var/.wh.cache', content: '' },
  ...Array.from({ length: 250 }, (_, at) => ({ name: `many/file-${at}`, content: 'x' })),
];

let registry: Registry;
let closed: Registry;
let sluice: Sluice;
let image: Image;
let name: string;

before(async () => {
  [registry, closed] = await Promise.all([startRegistry(), startRegistry({ auth: 'basic' })]);
  image = imageOf({ layers: [await layerOf(lower), await layerOf(upper, 'zstd')] });
  for (const one of [registry, closed]) {
    await using pusher = await opened(one);
    await pusher.push(image, 'files');
  }
  name = `${registry.host}/layers:files`;
  sluice = await startSluice({
    config: {
      accounts: { admin: admin.password },
      registries: Object.fromEntries(
        [registry, closed].map(({ host }) => [host, { plainHttp: true }]),
      ),
    },
  });
});
after(async () => {
  await sluice?.stop();
  await Promise.all([registry?.stop(), closed?.stop()]);
});

async function opened(to: Registry): Promise<Pusher & AsyncDisposable> {
  const pusher = await Pusher.open(to, 'layers');
  return Object.assign(pusher, { [Symbol.asyncDispose]: () => pusher.close() });
}

async function ask(
  query: Readonly<Record<string, string>> = {},
  containerImage = name,
  headers: Readonly<Record<string, string>> = {},
) {
  const search = new URLSearchParams({ wait: '20', ...query });
  const response = await sluice.fetch(`/v1alpha1/inspect/files?${search}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ containerImage }),
  });
  return {
    status: response.status,
    body: (await response.json()) as FilesResponse & { message: string },
  };
}
/** Returns a response to which nothing is added any more. */
async function files(query: Readonly<Record<string, string>> = {}): Promise<FilesResponse> {
  for (;;) {
    const { status, body } = await ask(query);
    assert.equal(status, 200, body.message);
    if (body.state !== 'reading') return body;
  }
}

test('every file of a layer is listed once, as tar lists it', async () => {
  const tar = execFileSync('tar', ['-t', '--quoting-style=literal'], { input: await tarOf(lower) });
  const listed = tar.toString().trim().split('\n');
  const found: string[] = [];
  const walk = async (path: string): Promise<void> => {
    for (const file of (await files({ layer: '1', path, sort: 'name' })).files) {
      const isDirectory = file.kind === 'directory';
      found.push(isDirectory ? `${file.path}/` : String(file.path));
      if (isDirectory) await walk(String(file.path));
    }
  };
  await walk('');
  // tar does not list directories that the layer does not contain.
  const implied = ['var/', 'var/cache/'];
  assert.deepEqual(found.sort(), [...listed, ...implied].sort());
});

test('changes of the layers below, rights and wasted bytes', async () => {
  const top = await files({ path: 'etc', sort: 'name' });
  assert.equal(top.number, 2);
  const { mode, uid, gid, change, bytes } =
    top.files.find(({ path }) => path === 'etc/passwd') ?? {};
  assert.deepEqual(
    { mode, uid, gid, change, bytes },
    { mode: '0644', uid: 7, gid: 7, change: 'changed', bytes: 8 },
  );
  assert.deepEqual(top.waste.image.wasted, [
    { path: 'var/cache/one', bytes: 1000 },
    { path: 'etc/passwd', bytes: 26 },
  ]);
  const [removed] = (await files({ change: 'removed' })).files;
  assert.deepEqual(removed, {
    ...{ path: 'var/cache', kind: 'directory', change: 'removed' },
    ...{ bytes: 0, files: 0, removedFiles: 1, removedBytes: 1000 },
  });
  assert.deepEqual((await files({ layer: '1' })).privileged, ['bin/su']);
  const [link] = (await files({ path: 'bin' })).files;
  assert.equal(link?.target, 'su');
});

test('a list has pages, and a layer is named by number or digest', async () => {
  const first = await files({ path: 'many', sort: 'name' });
  assert.deepEqual([first.count, first.pages, first.files.length], [250, 3, 100]);
  const last = await files({ path: 'many', sort: 'name', page: '3', layer: first.digest });
  assert.equal(last.files.length, 50);
  assert.deepEqual((await files({ path: 'many', page: '4' })).files, []);
  assert.equal((await files({ name: 'FILE-24' })).count, 11);
});

test('a name with other characters is sent back as it came', async () => {
  const [odd] = (await files({ name: '%' })).files;
  assert.equal(odd?.path, 'etc/\u001b[31m%25?');
});

test('wrong questions get an answer that says what is wrong', async () => {
  for (const [query, status, message] of [
    [{ layer: '3' }, 404, /no such layer/],
    [{ layer: '0' }, 404, /no such layer/],
    [{ layer: `sha256:${'0'.repeat(64)}` }, 404, /no such layer/],
    [{ path: 'etc/none' }, 404, /no such directory/],
    [{ page: '0' }, 400, /page/],
    [{ change: 'moved' }, 400, /change/],
    [{ wait: '3600' }, 400, /wait/],
    [{ platform: 'linux/none' }, 200, /^$/],
  ] as const) {
    const response = await ask(query);
    assert.equal(response.status, status, JSON.stringify([query, response.body]));
    assert.match(response.body.message ?? '', message);
  }
  assert.equal((await ask({}, `${registry.host}/layers:none`)).status, 404);
});

test('only a caller who may pull the image sees its files', async () => {
  const image = `${closed.host}/layers:files`;
  const strange = await ask({}, image);
  assert.equal(strange.body.files, undefined);
  assert.ok(strange.status >= 400, String(strange.status));
  const token = await newAccessToken(sluice, admin, 'ada@example.org');
  const authorization = { authorization: `Bearer ${token}` };
  const keys = { registry: closed.host, userName: closed.username, password: closed.password };
  const stored = await sluice.fetch('/platform/credentials', {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ credentials: { provider: 'container-reg', keys } }),
  });
  assert.ok(stored.ok, await stored.text());
  assert.equal((await ask({}, image, authorization)).status, 200);
  assert.equal((await ask({}, image)).status, strange.status);
});

test('sluice files prints a table without control characters, and JSON', async () => {
  const server = ['--server', sluice.url];
  const table = await sluiceCommand(['files', name, '--path', 'etc', '--sort', 'name', ...server]);
  assert.equal(table.code, 0, table.stderr);
  assert.match(table.stdout, /^CHANGE +MODE +OWNER +BYTES +PATH$/m);
  assert.match(table.stdout, /^added +0644 +0:0 +3 +etc\/\?\[31m%25\?$/m);
  assert.match(table.stdout, /^changed +0644 +7:7 +8 +etc\/passwd$/m);
  assert.match(table.stdout, /^Layer 2 of 2: sha256:[0-9a-f]{64}, 261 bytes$/m);
  assert.match(table.stdout, /^The image wastes 1026 of its 2287 bytes$/m);
  const json = await sluiceCommand(['files', name, '--layer', '1', '--json', ...server]);
  assert.equal((JSON.parse(json.stdout) as FilesResponse).number, 1);
  const wrong = await sluiceCommand(['files', name, '--layer', '9', ...server]);
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /no such layer/);
});
