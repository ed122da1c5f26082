/**
 * Pulls an image with many clients: `node bench/crowd.ts CLIENTS AT_ONCE REPOSITORY TAG URL...`. Each client has its
 * own connection to one of the servers, fetches manifest, config and layers over it, follows redirects, and checks all
 * digests. Prints `{"seconds":..., "failures":[...], "servers":[{"requests":..., "bytes":...}]}`, with the bytes of
 * responses that came from the servers themselves. It runs in its own process, so that the load is outside the measured
 * one.
 */
import { createHash } from 'node:crypto';
import { Agent, get, type IncomingMessage } from 'node:http';
import { finished } from 'node:stream/promises';

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string }[];
}

const [clients = '', atOnce = '', repository = '', tag = '', ...urls] = process.argv.slice(2);
const accept = 'application/vnd.oci.image.manifest.v1+json';
const patienceMs = 120_000;
const mostFailures = 5;

const servers = urls.map(url => ({ url, requests: 0, bytes: 0 }));
type Server = (typeof servers)[number];

function ask(url: string | URL, agent: Agent): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = get(url, { agent, headers: { accept }, timeout: patienceMs }, resolve);
    sent.on('timeout', () => sent.destroy(new Error(`${url}: no answer`)));
    sent.on('error', reject);
  });
}

/** Reads a response whole and checks its digest. Returns its bytes only if they are wanted. */
async function read(
  response: IncomingMessage,
  digest: string,
  isKept: boolean,
  note: (bytes: number) => void,
): Promise<Buffer> {
  const hash = createHash('sha256');
  const kept: Buffer[] = [];
  response.on('data', (bytes: Buffer) => {
    hash.update(bytes);
    note(bytes.length);
    if (isKept) kept.push(bytes);
  });
  await finished(response);
  const found = `sha256:${hash.digest('hex')}`;
  if (response.statusCode !== 200 || found !== digest) {
    throw new Error(`${response.statusCode}: ${found} in place of ${digest}`);
  }
  return Buffer.concat(kept);
}

async function pull(server: Server): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const storeAgent = new Agent({ keepAlive: true, maxSockets: 1 });
  const note = (bytes: number) => {
    server.bytes += bytes;
  };
  const fetchBlob = async (digest: string) => {
    const response = await ask(`${server.url}/v2/${repository}/blobs/${digest}`, agent);
    server.requests += 1;
    const { location } = response.headers;
    if (location === undefined) return read(response, digest, false, note);
    response.resume();
    return read(await ask(new URL(location), storeAgent), digest, false, () => {});
  };
  try {
    const response = await ask(`${server.url}/v2/${repository}/manifests/${tag}`, agent);
    server.requests += 1;
    const digest = String(response.headers['docker-content-digest']);
    const manifest = JSON.parse(String(await read(response, digest, true, note))) as Manifest;
    for (const part of [manifest.config, ...manifest.layers]) await fetchBlob(part.digest);
  } finally {
    agent.destroy();
    storeAgent.destroy();
  }
}

const failures: string[] = [];
let next = 0;
const work = async () => {
  while (next < Number(clients) && failures.length < mostFailures) {
    const server = servers[next % servers.length] as Server;
    next += 1;
    await pull(server).catch(error => failures.push(String(error)));
  }
};
const began = performance.now();
await Promise.all(Array.from({ length: Number(atOnce) }, work));
const seconds = (performance.now() - began) / 1000;
console.log(JSON.stringify({ seconds, failures, servers }));
