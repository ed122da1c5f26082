/** Connections through a real proxy: forwarded, tunnelled and direct ones. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { postJson, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import {
  pattern,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Certificates, makeCertificates } from '../world/certificates.ts';
import { freePort } from '../world/free-port.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { startTinyproxy, type Tinyproxy } from '../world/tinyproxy.ts';

const login = { username: 'cluster', password: 'pass-word.1' };
let directory: TempDir;
let certificates: Certificates;
let secured: ScriptedUpstream;
let plain: ScriptedUpstream;
let proxy: Tinyproxy;
let sluice: Sluice;

/** The variables that name the proxy. */
function variables({ host }: Pick<Tinyproxy, 'host'>, more: Record<string, string> = {}) {
  const url = `http://${login.username}:${encodeURIComponent(login.password)}@${host}`;
  return { HTTPS_PROXY: url, http_proxy: url, ...more };
}

function configFor(blobs: string): object {
  return {
    registries: {
      [secured.host]: { blobs, ca: certificates.authority },
      [plain.host]: { blobs, plainHttp: true },
    },
  };
}

before(async () => {
  directory = await makeTempDir('proxies');
  certificates = await makeCertificates(directory.join('tls'));
  secured = await startScriptedUpstream({
    cert: await readFile(certificates.certificate),
    key: await readFile(certificates.key),
  });
  plain = await startScriptedUpstream();
  proxy = await startTinyproxy(login);
  sluice = await startSluice({ config: configFor('relay'), env: variables(proxy) });
});

after(async () => {
  await Promise.all([sluice?.stop(), proxy?.stop(), secured?.stop(), plain?.stop()]);
  await directory?.remove();
});

for (const kind of ['https', 'http'] as const) {
  test(`manifests and blobs of a registry pass through the proxy (${kind})`, async () => {
    const upstream = kind === 'https' ? secured : plain;
    const big = pattern(20_000_000, `proxied ${kind}`);
    const image = upstream.image('proxied/app', [big, pattern(1000, 'small')]);
    const { targetImage } = await sluice.request({ containerImage: image.name });
    assert.equal((await call(sluice.at(targetImage, 'manifests/latest'))).status, 200);
    for (const { digest, bytes } of image.layers) {
      const reply = await call(sluice.at(targetImage, `blobs/${digest}`));
      assert.ok(reply.isWhole);
      assertBytes(reply.body, bytes);
      const range = { range: 'bytes=100-299' };
      const part = await call(sluice.at(targetImage, `blobs/${digest}`), { headers: range });
      assertBytes(part.body, bytes.subarray(100, 300));
    }
    const seen = proxy.requests.filter(request => request.includes(upstream.host));
    if (kind === 'https') {
      assert.deepEqual(new Set(seen), new Set([`CONNECT ${upstream.host}`]));
      assert.ok(seen.length < upstream.requests.length, 'connections are used again');
    } else {
      // This proxy opens a connection for every request, and all requests used it.
      assert.equal(seen.length, upstream.requests.length);
      assert.ok(
        seen.includes(
          `GET http://${upstream.host}/v2/proxied/app/blobs/${image.layers[0]?.digest}`,
        ),
      );
    }
    const { headers } = upstream.requests.at(-1) ?? {};
    assert.equal(headers?.['proxy-authorization'], undefined, 'only the proxy gets the login');
  });
}

test('an interrupted blob is resumed behind the proxy, and a slow client slows the transfer', async () => {
  const big = pattern(30_000_000, 'mended');
  const image = secured.image('mended/app', [big]);
  const path = `/blobs/${image.layers[0]?.digest}`;
  let asked = 0;
  secured.on(path, (_request, response, serve) => {
    asked += 1;
    if (asked > 1) return serve();
    response.writeHead(200, { 'content-length': big.length });
    response.write(big.subarray(0, 10_000_000), () => setTimeout(() => response.destroy(), 20));
  });
  const { targetImage } = await sluice.request({ containerImage: image.name });
  const reply = await fetch(sluice.at(targetImage, path.slice(1)));
  const parts: Uint8Array[] = [];
  for await (const part of reply.body ?? []) {
    parts.push(part);
    if (parts.length % 100 === 0) await new Promise(resolve => setTimeout(resolve, 5));
  }
  assertBytes(Buffer.concat(parts), big);
  assert.ok(asked > 1);
});

test('a real registry and its token service', async () => {
  await using registry = await startRegistry({ auth: 'bearer', tls: certificates });
  await pushCorpus(registry, ['cfg:full']);
  const { host, username, password, tokenService } = registry;
  const tokens = new URL(tokenService?.realm ?? '').host;
  const own = { username, password, anonymous: true, ca: certificates.authority };
  await using server = await startSluice({
    config: {
      registries: {
        [host]: { ...own, tokenHosts: [tokens], blobs: 'cache' },
        [tokens]: { ca: certificates.authority },
      },
    },
    env: variables(proxy),
  });
  const { targetImage } = await server.request({ containerImage: `${host}/corpus/cfg:full` });
  const manifest = await call(server.at(targetImage, 'manifests/full'));
  const [layer] = JSON.parse(String(manifest.body)).layers;
  assert.ok((await call(server.at(targetImage, `blobs/${layer.digest}`))).isWhole);
  for (const seen of [host, tokens]) assert.ok(proxy.requests.includes(`CONNECT ${seen}`), seen);
});

test('hosts of NO_PROXY are connected to directly', async () => {
  const env = variables(proxy, { no_proxy: 'example.org,127.0.0.0/8' });
  await using world = await startFaultWorld({}, {}, { env });
  const before = proxy.requests.length;
  const image = world.upstreams.relay.image('direct/app');
  const pull = await world.serve(image);
  assert.equal((await pull(`blobs/${image.layers[0]?.digest}`)).status, 200);
  assert.equal(proxy.requests.length, before);
});

test('closed addresses are refused behind the proxy too, without a request to the proxy', async () => {
  const before = proxy.requests.length;
  for (const host of ['10.1.2.3', '169.254.169.254', '[::1]:5000', 'localhost:5001']) {
    const reply = await postJson(`${sluice.url}/v1alpha2/container`, {
      containerImage: `${host}/team/app:1`,
    });
    assertApiFault(reply, 400, /otherwise closed network address/);
  }
  const reply = await postJson(`${sluice.url}/v1alpha2/container`, {
    containerImage: 'registry.invalid/team/app:1',
  });
  assert.match(String(reply.body), /cannot resolve .* upstream\.proxyNames/);
  assert.equal(proxy.requests.length, before);
});

test('a redirect to a closed address is refused behind the proxy too', async () => {
  const image = plain.image('redirected/app');
  const digest = image.layers[0]?.digest;
  plain.on(`/v2/redirected/app/blobs/${digest}`, (_request, response) => {
    response.writeHead(307, { location: 'http://localhost:5001/blob' }).end();
  });
  const { targetImage } = await sluice.request({ containerImage: image.name });
  const before = proxy.requests.length;
  const reply = await call(sluice.at(targetImage, `blobs/${digest}`));
  assert.equal(reply.status, 403, String(reply.body));
  const asked = proxy.requests.slice(before).filter(request => request.includes('localhost'));
  assert.deepEqual(asked, []);
});

test('with upstream.proxyNames the proxy gets names that do not resolve here', async () => {
  await using server = await startSluice({
    config: { ...configFor('relay'), upstream: { proxyNames: true } },
    env: variables(proxy),
  });
  const ask = (containerImage: string) =>
    postJson(`${server.url}/v1alpha2/container`, { containerImage });
  assert.match(
    String((await ask('registry.invalid/team/app:1')).body),
    /The proxy .* answered \d+/,
  );
  assert.ok(proxy.requests.includes('CONNECT registry.invalid:443'));
  assertApiFault(await ask('localhost:5001/team/app:1'), 400, /closed network address/);
});

test('an unavailable proxy, and one that requires another login, are named', async () => {
  const image = secured.image('failing/app');
  const other = plain.image('failing/app');
  for (const [url, message] of [
    [
      `http://127.0.0.1:${await freePort()}`,
      /The proxy 127\.0\.0\.1:\d+ could not be used \(ECONNREFUSED\)/,
    ],
    [`http://${proxy.host}`, /The proxy 127\.0\.0\.1:\d+ requires a login/],
  ] as const) {
    const env = { https_proxy: url, HTTP_PROXY: url };
    await using server = await startSluice({ config: configFor('relay'), env });
    const reply = await postJson(`${server.url}/v1alpha2/container`, {
      containerImage: image.name,
    });
    assertApiFault(reply, 502, message);
    if (url.includes(proxy.host)) {
      const forwarded = await postJson(`${server.url}/v1alpha2/container`, {
        containerImage: other.name,
      });
      assertApiFault(forwarded, 502, message);
    }
  }
});

test('the command line uses the proxy too, except for a server on the same machine', async () => {
  const image = plain.image('commanded/app');
  const env = variables(proxy);
  const inspect = (server: string) =>
    sluiceCommand(['inspect', '--server', server, image.name], env);
  const before = proxy.requests.length;
  const own = await inspect(sluice.url);
  assert.equal(own.code, 0, own.stderr);
  const asked = proxy.requests.slice(before);
  assert.ok(!asked.some(request => request.includes(sluice.host)));
  // Another address of this machine, at which nothing listens: the proxy says so.
  const elsewhere = `127.0.0.2:${await freePort()}`;
  assert.equal((await inspect(`http://${elsewhere}`)).code, 1);
  assert.ok(
    proxy.requests.some(request => request.includes(elsewhere)),
    'the proxy was asked',
  );
  const wrong = await sluiceCommand(['inspect', image.name], { HTTPS_PROXY: 'nonsense:secret@' });
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /^HTTPS_PROXY or HTTP_PROXY is not/);
});
