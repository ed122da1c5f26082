/** Several ranges of a blob at once, wherever the blob is. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { bytesOf } from '../corpus/content.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { call } from '../faults/http-client.ts';
import { admin, administered } from '../hosted/push-client.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

interface Part {
  readonly contentRange: string;
  readonly bytes: Buffer;
}

/** Reads a body as a client does: by its boundary, to its end. */
function partsOf(body: Buffer, contentType: string): Part[] {
  const [, boundary = ''] = /^multipart\/byteranges; boundary=(\S+)$/.exec(contentType) ?? [];
  assert.notEqual(boundary, '', contentType);
  const parts: Part[] = [];
  let rest = body.subarray(`--${boundary}`.length);
  assert.equal(body.indexOf(`--${boundary}`), 0);
  while (rest.subarray(0, 2).toString() === '\r\n') {
    const head = rest.subarray(2, rest.indexOf('\r\n\r\n')).toString();
    const start = rest.indexOf('\r\n\r\n') + 4;
    const end = rest.indexOf(`\r\n--${boundary}`);
    const [, contentRange = ''] = /^Content-Range: (.*)$/m.exec(head) ?? [];
    parts.push({ contentRange, bytes: rest.subarray(start, end) });
    rest = rest.subarray(end + `\r\n--${boundary}`.length);
  }
  assert.equal(rest.toString(), '--\r\n');
  return parts;
}

suite('several ranges', () => {
  let registry: Registry;
  let relaying: Sluice;
  let caching: Sluice;
  let pushed: Pushed;

  before(async () => {
    registry = await startRegistry();
    const found = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci');
    assert.ok(found);
    pushed = found;
    const start = (blobs: string) =>
      startSluice({
        config: { ...administered, registries: { [registry.host]: { plainHttp: true, blobs } } },
      });
    relaying = await start('relay');
    caching = await start('cache');
    const target = { url: relaying.url, username: 'admin', password: 'secret' };
    await pushCorpus(target, ['busybox:oci']);
  });
  after(async () => {
    await caching?.stop();
    await relaying?.stop();
    await registry?.stop();
  });

  const check = async (url: string, whole: Buffer, headers: Record<string, string> = {}) => {
    const size = whole.length;
    const middle = Math.floor(size / 2);
    const asked = [
      [middle, middle + 9],
      [0, 3],
      [4, 5],
      [size - 7, size - 1],
    ] as const;
    const range = `bytes=${middle}-${middle + 9},0-3,4-5,-7,${size}-`;
    const response = await call(url, { headers: { ...headers, range } });
    assert.equal(response.status, 206, url);
    assert.equal(response.headers['content-length'], String(response.body.length));
    const parts = partsOf(response.body, String(response.headers['content-type']));
    assert.deepEqual(
      parts.map(({ contentRange }) => contentRange),
      asked.map(([first, last]) => `bytes ${first}-${last}/${size}`),
    );
    for (const [at, [first, last]] of asked.entries()) {
      assertBytes(parts[at]?.bytes ?? Buffer.alloc(0), whole.subarray(first, last + 1), url);
    }
    const one = await call(url, { headers: { ...headers, range: 'bytes=0-5,3-9' } });
    assert.equal(one.status, 206);
    assert.equal(one.headers['content-range'], `bytes 0-9/${size}`);
    assertBytes(one.body, whole.subarray(0, 10), url);
    const beyond = await call(url, { headers: { ...headers, range: `bytes=${size}-,${size}-` } });
    assert.equal(beyond.status, 416);
    const many = Array.from({ length: 200 }, (_, at) => `${at}-${at}`).join(',');
    const refused = await call(url, { headers: { ...headers, range: `bytes=${many}` } });
    assert.equal(refused.status, 400);
    assert.match(refused.body.toString(), /200 ranges, at most 128/);
  };
  const layer = () => pushed.image.blobs[1] ?? assert.fail('no layer');

  test('of a hosted blob', async () => {
    const url = `${relaying.url}/v2/${pushed.repository}/blobs/${layer().digest}`;
    await check(url, bytesOf(layer()), admin);
  });

  for (const [what, server] of [
    ['relayed', () => relaying],
    ['cached', () => caching],
  ] as const) {
    test(`of a ${what} blob, first and again`, async () => {
      const { targetImage } = await server().request({ containerImage: pushed.reference });
      const url = server().at(targetImage, `blobs/${layer().digest}`);
      for (let turn = 0; turn < 2; turn += 1) await check(url, bytesOf(layer()));
    });
  }

  test('of a generated config', async () => {
    const { targetImage, digest } = await relaying.request({
      containerImage: pushed.reference,
      containerConfig: { env: ['A=1'] },
    });
    const manifest = await call(relaying.at(targetImage, `manifests/${digest}`));
    const { config } = JSON.parse(manifest.body.toString()) as { config: { digest: string } };
    const url = relaying.at(targetImage, `blobs/${config.digest}`);
    await check(url, (await call(url)).body);
  });
});
