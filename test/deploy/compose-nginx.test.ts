/** nginx of deploy/compose, with its own files: which hosts it passes on, and what it says to browsers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import { call, raw } from '../faults/http-client.ts';
import { makeCertificates } from '../world/certificates.ts';
import { firstChild, startDaemon, waitForLine } from '../world/daemon.ts';
import { freePort } from '../world/free-port.ts';
import { runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

const settings: Readonly<Record<string, string>> = {
  SLUICE_URL: 'https://Images.example.com:8443',
  SLUICE_HOSTS: 'sluice, sluice.internal,10.0.0.0/8',
};
const folder = 'deploy/compose';
let site: Awaited<ReturnType<typeof startSite>>;

/** Starts nginx with the files of the folder in front of a server that answers with the host of each request. */
async function startSite() {
  const directory = await makeTempDir('compose-nginx');
  const [plain, secure] = [await freePort(), await freePort()];
  const replica = createServer(({ headers }, response) => response.end(headers.host));
  await once(replica.listen(0, '127.0.0.1'), 'listening');
  const { port } = replica.address() as AddressInfo;
  const { authority, certificate, key } = await makeCertificates(directory.join('tls'));
  const replaced = (text: string, places: Readonly<Record<string, string>>) =>
    Object.entries(places).reduce((before, [from, to]) => {
      assert.ok(before.includes(from), from);
      return before.replaceAll(from, to);
    }, text);
  const { configs } = parse(await readFile(`${folder}/compose.yaml`, 'utf8'), { merge: true });
  const hosts = (configs.hosts.content as string)
    .replaceAll('$$', '$')
    .replace(/\$\{(\w+):-[^}]*\}/g, (_, name) => settings[name] ?? '');
  await writeFile(directory.join('hosts.conf'), hosts);
  const tls = replaced(await readFile(`${folder}/tls.conf`, 'utf8'), {
    'listen 8443': `listen 127.0.0.1:${secure}`,
    '/etc/nginx/certificates/tls.crt': certificate,
    '/etc/nginx/certificates/tls.key': key,
  });
  await writeFile(directory.join('tls.conf'), tls);
  const main = replaced(await readFile(`${folder}/nginx/nginx.conf`, 'utf8'), {
    'user nginx;': 'user root;',
    'pid /run/nginx.pid': `pid ${directory.join('pid')}`,
    'error_log /dev/stderr warn': 'error_log stderr notice',
    'http {': `http {\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      .map(kind => `${kind}_temp_path ${directory.join(kind)};`)
      .join('\n')}`,
    '/etc/nginx/hosts.conf': directory.join('hosts.conf'),
    '/etc/nginx/tls/*.conf': directory.join('tls.conf'),
    'listen 8080': `listen 127.0.0.1:${plain}`,
    'set $replicas replicas:9090': `set $replicas 127.0.0.1:${port}`,
  });
  await writeFile(directory.join('nginx.conf'), main);
  const daemon = startDaemon('unshare', [
    ...['--pid', '--fork', '--kill-child', requireCommand('nginx'), '-e', 'stderr'],
    ...['-c', directory.join('nginx.conf'), '-g', 'daemon off;'],
  ]);
  await waitForLine(daemon, /start worker process /);
  return {
    ...{ plain, secure, authority },
    async [Symbol.asyncDispose]() {
      process.kill(await firstChild(daemon.process), 'SIGTERM');
      await daemon.ended;
      replica.closeAllConnections();
      replica.close();
      await directory.remove();
    },
  };
}

before(async () => {
  site = await startSite();
});
after(() => site?.[Symbol.asyncDispose]());

const ask = (host: string, path = '/service-info') =>
  call(`http://127.0.0.1:${site.plain}${path}`, { headers: { host } });

test('the hosts of the settings pass with any port, and the replicas decide about addresses', async () => {
  for (const name of [
    'images.example.com',
    'IMAGES.EXAMPLE.COM',
    'localhost',
    'sluice',
    'sluice.internal',
    '127.0.0.1',
    '192.0.2.7',
    '[::1]',
  ]) {
    for (const host of [name, `${name}:443`]) {
      const reply = await ask(host);
      assert.deepEqual([reply.status, String(reply.body)], [200, host]);
    }
  }
});

test('other names get 421 in the dialect of the path', async () => {
  for (const host of [
    'evil.example',
    'evil.example:8443',
    'images.example.com.evil.example',
    'example.com',
    'mages.example.com',
    'images',
    'internal',
    'slui',
    'https',
    '10.0.0.0.evil.example',
    '1.2.3.4.5',
    '8',
    '*',
  ]) {
    const reply = await ask(host);
    assert.equal(reply.status, 421, host);
    assert.equal(reply.headers['content-type'], 'application/json');
    assert.match(JSON.parse(String(reply.body)).message, /does not answer to this host/);
    const { errors } = JSON.parse(String((await ask(host, '/v2/x/manifests/y')).body));
    assert.equal(errors[0].code, 'DENIED');
  }
  const upgrade =
    'GET /pairing/x HTTP/1.1\r\nhost: evil.example\r\nupgrade: websocket\r\nconnection: upgrade';
  assert.match(await raw(site.plain, `${upgrade}\r\n\r\n`, 500), /^HTTP\/1\.1 421 /);
  assert.match(await raw(site.plain, 'GET / HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 421 /);
});

test('browsers use https only, where they came by https', async () => {
  const options = ['-sS', '--cacert', site.authority, '-D', '-', '-o', '/dev/null'];
  for (const [url, host, isStrict] of [
    [`https://127.0.0.1:${site.secure}/`, 'images.example.com', true],
    [`https://127.0.0.1:${site.secure}/`, 'evil.example', true],
    [`http://127.0.0.1:${site.plain}/`, 'images.example.com', false],
  ] as const) {
    const program = [requireCommand('curl'), ...options, '-H', `host: ${host}`, url];
    const { stdout, stderr } = await runProgram(program, { env: {} });
    const isFound = /^strict-transport-security: max-age=31536000\r$/im.test(stdout);
    assert.equal(isFound, isStrict, url + stdout + stderr);
  }
});
