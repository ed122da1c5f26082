/** A server whose object store, and the service that gives it credentials, are behind a proxy. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, request } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { openBucket } from '../../src/storage/objects/bucket.ts';
import { readProxies } from '../../src/upstream/transport/proxy.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Certificates, makeCertificates } from '../world/certificates.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { startTinyproxy, type Tinyproxy } from '../world/tinyproxy.ts';
import { admin } from './hosted.ts';

const login = { username: 'cluster', password: 'pass-word.1' };
// The store knows no tokens of sessions.
const roleResponse = (id: string, secret: string) => `
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <Credentials>
      <AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey>
      <Expiration>2099-01-01T00:00:00Z</Expiration>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`;

suite('behind a proxy', () => {
  let directory: TempDir;
  let certificates: Certificates;
  let store: ObjectStore;
  let proxy: Tinyproxy;
  let secured: Server;
  let roles: Server;

  const hostOf = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const variables = () => {
    const url = `http://${login.username}:${login.password}@${proxy.host}`;
    return { HTTPS_PROXY: url, http_proxy: url };
  };
  const seenOf = (host: string) => proxy.requests.filter(line => line.includes(host));

  before(async () => {
    [directory, store, proxy] = await Promise.all([
      makeTempDir('bucket-proxies'),
      startObjectStore(),
      startTinyproxy(login),
    ]);
    certificates = await makeCertificates(directory.join('tls'));
    const { hostname, port } = new URL(store.url);
    const forward: RequestListener = (asked, response) => {
      const { method, url, headers } = asked;
      const onward = request({ hostname, port, method, path: url, headers }, found => {
        response.writeHead(found.statusCode ?? 500, found.headers);
        found.pipe(response);
      });
      asked.pipe(onward);
    };
    secured = createSecureServer(
      { cert: await readFile(certificates.certificate), key: await readFile(certificates.key) },
      forward,
    ).listen(0, '127.0.0.1');
    const { AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = store.env;
    roles = createServer((_, response) => {
      response.setHeader('content-type', 'text/xml');
      response.end(roleResponse(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY));
    }).listen(0, '127.0.0.1');
    await Promise.all([secured, roles].map(server => once(server, 'listening')));
  });
  after(async () => {
    secured?.close();
    roles?.close();
    await Promise.all([proxy?.stop(), store?.[Symbol.asyncDispose](), directory?.remove()]);
  });

  test('a server and its commands reach the store and the service for roles through the proxy', async () => {
    const token = directory.join('token');
    await writeFile(token, 'proof of the account of the pod');
    const env = {
      ...variables(),
      NODE_EXTRA_CA_CERTS: certificates.authority,
      AWS_WEB_IDENTITY_TOKEN_FILE: token,
      AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/site',
      AWS_ENDPOINT_URL_STS: `http://${hostOf(roles)}`,
      SLUICE_CONTENT: `s3://${await store.createBucket()}/site`,
      SLUICE_S3_ENDPOINT: `https://${hostOf(secured)}`,
      SLUICE_S3_REGION: 'us-east-1',
      SLUICE_S3_PATH_STYLE: 'true',
      SLUICE_ACCOUNTS: `${admin.username}:${admin.password}`,
      SLUICE_BUILDKIT: 'off',
    };
    const data = directory.join('data');
    {
      await using sluice = await startSluice({ data, env });
      const { url } = sluice;
      await pushCorpus({ url, ...admin }, ['cfg:full']);
      assert.ok(seenOf(hostOf(secured)).length > 0);
      assert.deepEqual(new Set(seenOf(hostOf(secured))), new Set([`CONNECT ${hostOf(secured)}`]));
      assert.ok(seenOf(hostOf(roles)).some(line => line.startsWith('POST http://')));
    }
    const before = seenOf(hostOf(secured)).length;
    const verified = await sluiceCommand(['verify', '--data', data], env);
    assert.equal(verified.code, 0, verified.stderr);
    assert.ok(seenOf(hostOf(secured)).length > before);
  });

  test('NO_PROXY means the same as for registries', async () => {
    const { accessKeyId, secretAccessKey } = await store.client.config.credentials();
    Object.assign(process.env, {
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    });
    const address = `s3://${await store.createBucket()}/site`;
    const { host } = new URL(store.url);
    const bytes = Buffer.alloc(9_000_000, 'bytes');
    // Node knows no networks.
    for (const [NO_PROXY, isDirect] of [
      ['registry.example.org', false],
      ['127.0.0.0/8', true],
    ] as const) {
      const before = seenOf(host).length;
      const proxyFor = readProxies({ ...variables(), NO_PROXY });
      const bucket = await openBucket({ address, endpoint: store.url, pathStyle: true, proxyFor });
      await bucket.put('some name+1', bytes);
      assertBytes((await bucket.read('some name+1')) ?? Buffer.of(), bytes);
      bucket.close();
      assert.equal(seenOf(host).length === before, isDirect, NO_PROXY);
    }
  });

  test('a proxy that refuses the login is a fault of the store', async () => {
    const url = `http://${login.username}:wrong@${proxy.host}`;
    const proxyFor = readProxies({ HTTPS_PROXY: url });
    const address = `s3://${await store.createBucket()}/site`;
    await assert.rejects(
      openBucket({ address, endpoint: `https://${hostOf(secured)}`, pathStyle: true, proxyFor }),
      /object store of the service does not answer as it should \(ERR_PROXY_TUNNEL\)/,
    );
  });
});
