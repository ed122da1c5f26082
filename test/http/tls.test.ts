/** The server speaks TLS itself, beside the plain listener. */
import assert from 'node:assert/strict';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { connect as connectPlain } from 'node:net';
import { after, before, test } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import { readLog } from '../faults/fault-world.ts';
import { call } from '../faults/http-client.ts';
import { type Certificates, makeCertificates, makeKeyPair } from '../world/certificates.ts';
import { eventually } from '../world/eventually.ts';
import { runProgram } from '../world/program.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';

let directory: TempDir;
let first: Certificates;
let second: Certificates;

before(async () => {
  directory = await makeTempDir('tls');
  first = await makeCertificates(directory.join('first'));
  second = await makeCertificates(directory.join('second'));
});

after(() => directory.remove());

interface Secure {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

function secureOf(sluice: Sluice): Secure {
  const host = /"tls":"([^"]+)"/.exec(sluice.output())?.[1] ?? '';
  return { host, port: Number(host.split(':').at(-1)), url: `https://${host}` };
}

const startSecure = (tls: object = {}, config: object = {}) =>
  startSluice({
    config: {
      tls: { listen: '127.0.0.1:0', certificate: first.certificate, key: first.key, ...tls },
      ...config,
    },
  });

const curl = (args: readonly string[]) =>
  runProgram([requireCommand('curl'), '-sS', '--max-time', '20', ...args], { env: {} });

test('curl gets answers over TLS 1.2 and 1.3, and over plain HTTP', async () => {
  await using sluice = await startSecure();
  const { url, host } = secureOf(sluice);
  const trusted = ['--cacert', first.authority];
  for (const version of ['--tls-max 1.2', '--tlsv1.3']) {
    const { code, stdout, stderr } = await curl([
      ...[...trusted, ...version.split(' '), '--http2', '--write-out', ' %{http_version}'],
      `${url}/healthz`,
    ]);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, '{"status":"ok"} 1.1');
  }
  assert.equal((await curl([`${url}/healthz`])).code, 60, 'an unknown authority');
  const old = await curl([...trusted, '--ciphers', 'DEFAULT@SECLEVEL=0', '--tls-max', '1.1', url]);
  assert.equal(old.code, 35, 'TLS 1.1');
  assert.equal((await sluice.fetch('/healthz')).status, 200);
  assert.match(sluice.output(), new RegExp(`"url":"https://${host}"`), 'names begin with it');
});

test('answers over TLS have browsers use https only, if clients use the server by https', async () => {
  const headersOf = async (url: string) => {
    const { stdout } = await curl(['--cacert', first.authority, '-D', '-', '-o', '/dev/null', url]);
    return stdout;
  };
  const strict = /^strict-transport-security: max-age=31536000\r$/im;
  await using sluice = await startSecure({}, { url: 'https://images.example.com' });
  for (const path of ['/healthz', '/', '/nowhere', '/v2/']) {
    assert.match(await headersOf(secureOf(sluice).url + path), strict, path);
    // RFC 6797, section 7.2.
    assert.doesNotMatch(await headersOf(sluice.url + path), strict, path);
  }
  for (const url of ['https://localhost:9090', 'http://images.example.com']) {
    await using other = await startSecure({}, { url });
    assert.doesNotMatch(await headersOf(`${secureOf(other).url}/healthz`), strict, url);
  }
});

test('the command line trusts the given authority', async () => {
  await using sluice = await startSecure();
  const { url } = secureOf(sluice);
  const inspect = (environment: Record<string, string>) =>
    sluiceCommand(['inspect', '127.0.0.1:1/a/b:c', '--server', url], environment);
  assert.match(
    (await inspect({})).stderr,
    /The certificate of https.* is not trusted .*Set SLUICE_CA/,
  );
  assert.match((await inspect({ SLUICE_CA: first.authority })).stderr, /127\.0\.0\.1:1/);
  const wrong = await inspect({ SLUICE_CA: directory.join('none.pem') });
  assert.match(wrong.stderr, /SLUICE_CA: .*none\.pem as a PEM file of a certificate/);
});

test('changed files are used without a restart; unusable files are not', async () => {
  const [certificate, key] = [directory.join('now.crt'), directory.join('now.key')];
  const use = async (from: Certificates) => {
    await copyFile(from.certificate, certificate);
    await copyFile(from.key, key);
  };
  await use(first);
  await using sluice = await startSecure({ certificate, key });
  const { url } = secureOf(sluice);
  const isServing = async ({ authority }: Certificates) =>
    (await curl(['--cacert', authority, `${url}/healthz`])).code === 0;
  assert.ok(await isServing(first));
  await copyFile(second.certificate, certificate);
  await eventually('it is reported', () =>
    /cannot use the changed TLS files: the previous/.test(sluice.output()),
  );
  assert.ok(await isServing(first), 'the key does not fit yet');
  await use(second);
  await eventually('the new one is served', () => isServing(second));
  await writeFile(certificate, 'nonsense');
  await eventually('it is reported', () => sluice.output().split('the previous').length === 3);
  assert.ok(await isServing(second));
  await use(first);
  await eventually('it is served again', () => isServing(first));
  const { length } = sluice.output().split('cannot use the changed TLS files');
  assert.equal(length - 1, 2, 'each once');
  assert.doesNotMatch(sluice.output(), /PRIVATE KEY/);
});

/** Status of a response over TLS, or the code of what went wrong. */
function statusOf(secure: Secure, options: object = {}): Promise<number | string> {
  return new Promise(resolve => {
    const sent = request(`${secure.url}/healthz`, { agent: false, ...options }, response => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    sent.end();
  });
}

test('a client certificate is required, or checked if there is one', async () => {
  const own = await makeKeyPair(directory.path, 'clients');
  const foreign = await makeKeyPair(directory.path, 'foreign');
  const ca = await readFile(first.authority);
  const known = { ca, cert: own.certificate, key: own.key };
  const unknown = { ca, cert: foreign.certificate, key: foreign.key };
  const clientCa = directory.join('clients.crt');
  {
    await using sluice = await startSecure({ clientCa });
    const secure = secureOf(sluice);
    assert.equal(await statusOf(secure, known), 200);
    assert.equal(typeof (await statusOf(secure, { ca })), 'string');
    assert.equal(typeof (await statusOf(secure, unknown)), 'string');
    assert.equal((await call(`${sluice.url}/healthz`)).status, 200, 'plain HTTP needs none');
  }
  await using sluice = await startSecure({ clientCa, clientCertificates: 'optional' });
  const secure = secureOf(sluice);
  assert.equal(await statusOf(secure, known), 200);
  assert.equal(await statusOf(secure, { ca }), 200);
  assert.equal(typeof (await statusOf(secure, unknown)), 'string');
});

/** Resolves when the server has closed the connection. */
function closed(port: number, text: string): Promise<void> {
  return new Promise(resolve => {
    const socket = connectPlain(port, '127.0.0.1');
    if (text !== '') socket.write(text);
    socket.resume();
    socket.on('error', () => {});
    socket.on('close', () => resolve());
  });
}

test('failed or missing handshakes are ended, and do not fill the log', async () => {
  await using sluice = await startSecure({}, { limits: { connections: { requestTime: '1s' } } });
  const secure = secureOf(sluice);
  const texts = ['', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'nonsense', '\x16\x03\x01'];
  await Promise.all(
    Array.from({ length: 200 }, (_, at) => closed(secure.port, texts[at % texts.length] ?? '')),
  );
  assert.equal(await statusOf(secure, { ca: await readFile(first.authority) }), 200);
  await sluice.stop();
  const lines = readLog(sluice.output());
  assert.deepEqual(
    lines.filter(({ level }) => level !== 'info'),
    [],
  );
  assert.ok(lines.length < 10, `${lines.length} lines`);
});

test('connections over TLS have the same limits, and a stop ends those without a request', async () => {
  const sluice = await startSecure({}, { limits: { connections: { perAddress: 4 } } });
  const { port } = secureOf(sluice);
  const ca = await readFile(first.authority);
  try {
    const sockets: TLSSocket[] = [];
    let ended = 0;
    for (let count = 0; count < 4; count += 1) {
      const socket = connect({ port, host: '127.0.0.1', ca });
      socket.on('error', () => {});
      socket.on('close', () => {
        ended += 1;
      });
      await new Promise(resolve => socket.once('secureConnect', resolve));
      sockets.push(socket);
    }
    await closed(port, 'the fifth');
    assert.equal(ended, 0);
    sockets[0]?.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await new Promise(resolve => sockets[0]?.once('data', resolve));
    sluice.process.kill('SIGTERM');
    await eventually('all are ended', () => ended === 4, 10_000);
    await eventually('the server ends', () => sluice.process.exitCode === 0, 10_000);
  } finally {
    await sluice.stop();
  }
});

test('unusable TLS files prevent the start, with a remedy', async () => {
  const complete = { listen: '127.0.0.1:0', certificate: first.certificate, key: first.key };
  for (const [tls, message] of [
    [
      { certificate: first.certificate },
      /'tls.listen', 'tls.certificate' and 'tls.key' go together: set all three, or none/,
    ],
    [{ clientCa: first.authority }, /'tls.clientCa' requires 'tls.listen'/],
    [{ ...complete, key: directory.join('none.key') }, /The TLS files cannot be used .*none\.key/],
    [{ ...complete, key: second.key }, /The TLS files cannot be used .*mismatch/],
  ] as const) {
    await assert.rejects(startSluice({ config: { tls } }), message);
  }
});
