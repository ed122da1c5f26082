import { type FileHandle, open, rm } from 'node:fs/promises';
import type { Transport, UpstreamResponse } from '../../upstream/index.ts';
import { PacketProblem, readPackets, unexpectedResponse } from './packets.ts';
import { tooSlow, unreadable } from './repository-faults.ts';

/** Which objects of a repository are fetched. */
export interface PackOrder {
  /** The address that is cloned. */
  readonly url: string;
  /** Names of objects. */
  readonly wants: readonly string[];
  /** Leaves out the history of the commits. */
  readonly isShallow?: boolean;
  /** Leaves out other objects, where the server can do that: `tree:0` has commits and tags alone. Source: git, `rev-list`. */
  readonly filter: 'tree:0' | 'tree:1' | 'blob:none' | undefined;
  /** Where the objects are written. */
  readonly path: string;
  readonly signal: AbortSignal;
}

/** What one fetch may take. */
export interface PackLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** Thrown for objects that are larger than the limit: a caller may do without them. */
export class PackTooLarge extends Error {}

/** Thrown where a server does not send objects in this way: a caller may do without them. */
export class PackRefused extends Error {}

/** A response in small packets has more of them than one in large ones. */
const smallestMean = 500;
const spareBytes = 64 * 1024;

/**
 * Fetches objects of a repository into a file, as git does. Throws a `Fault` for a repository that cannot be read,
 * {@link PackTooLarge} and {@link PackRefused}. Source: git, `gitprotocol-v2`.
 */
export async function fetchPack(
  transport: Transport,
  order: PackOrder,
  { timeoutMs, maxBytes }: PackLimits,
): Promise<void> {
  const { url, path, signal } = order;
  const stop = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const place = await serviceOf(transport, url, stop);
    const { body } = await ask(transport, place.address, requestOf(order, place.canFilter), stop);
    const file = await open(path, 'wx', 0o600);
    try {
      await receive(body, file, maxBytes, stop);
    } finally {
      body.destroy();
      await file.close();
    }
  } catch (error) {
    await rm(path, { force: true });
    if (signal.aborted || error instanceof PackTooLarge) throw error;
    if (stop.aborted) throw tooSlow(url, 'send its history', timeoutMs);
    if (!(error instanceof PacketProblem)) throw unreadable(url, error, 'its history');
    throw new PackRefused(`its server ${error.message}`);
  }
}

const wordsBytes = 64 * 1024;
const mostRedirects = 3;

/** Returns where a repository answers, and what its server can do. */
async function serviceOf(
  transport: Transport,
  url: string,
  signal: AbortSignal,
): Promise<{ address: URL; canFilter: boolean }> {
  const suffix = '/info/refs?service=git-upload-pack';
  let address = new URL(`${url}${suffix}`);
  for (let redirects = 0; ; redirects += 1) {
    const { status, headers, body } = await transport.sendBlob({
      url: address,
      from: redirects === 0 ? undefined : new URL(url),
      method: 'GET',
      headers: { 'git-protocol': 'version=2' },
      signal,
    });
    try {
      const location = headers.get('location');
      if (status >= 300 && status < 400 && location && redirects < mostRedirects) {
        address = new URL(location, address);
        // The commands go to the same place. Source: git, `http.followRedirects`.
        if (address.protocol !== 'https:' || !address.href.endsWith(suffix)) {
          throw new PacketProblem(unexpectedResponse);
        }
        continue;
      }
      if (status !== 200) throw new PacketProblem(`answered ${status}`);
      let isSecond = false;
      let canFilter = false;
      const bounds = { maxBytes: wordsBytes, maxPackets: 1000, what: 'lists abilities with' };
      for await (const { bytes } of readPackets(body, bounds, signal)) {
        const line = bytes.toString('latin1');
        if (line.startsWith('version 2')) isSecond = true;
        // An older server lists its branches instead.
        else if (!isSecond && bytes.length > 0 && !line.startsWith('# ')) break;
        if (line.startsWith('fetch=')) canFilter = /[= ]filter\b/.test(line);
      }
      if (!isSecond) {
        throw new PacketProblem('does not know version 2 of the protocol of git');
      }
      const service = address.href.slice(0, -suffix.length);
      return { address: new URL(`${service}/git-upload-pack`), canFilter };
    } finally {
      body.destroy();
    }
  }
}

function requestOf({ wants, isShallow, filter }: PackOrder, canFilter: boolean): string {
  const lines = [
    ...['ofs-delta', 'no-progress', 'include-tag'],
    ...(isShallow ? ['deepen 1'] : []),
    ...(filter && canFilter ? [`filter ${filter}`] : []),
    ...wants.map(id => `want ${id}`),
    'done',
  ];
  const head = ['command=fetch', 'agent=sluice', 'object-format=sha1'];
  return `${head.map(packet).join('')}0001${lines.map(packet).join('')}0000`;
}

function packet(line: string): string {
  return `${(line.length + 5).toString(16).padStart(4, '0')}${line}\n`;
}

async function ask(
  transport: Transport,
  url: URL,
  body: string,
  signal: AbortSignal,
): Promise<UpstreamResponse> {
  const headers = {
    'git-protocol': 'version=2',
    'content-type': 'application/x-git-upload-pack-request',
    accept: 'application/x-git-upload-pack-result',
  };
  const response = await transport.send({ url, method: 'POST', headers, body, signal });
  if (response.status === 200) return response;
  response.body.destroy();
  throw new PacketProblem(`answered ${response.status}`);
}

const bands = { data: 1, progress: 2, failure: 3 };

async function receive(
  body: UpstreamResponse['body'],
  file: FileHandle,
  maxBytes: number,
  signal: AbortSignal,
): Promise<void> {
  const maxPackets = 1000 + Math.ceil(maxBytes / smallestMean);
  // The limit of the objects is reached first.
  const bounds = { maxBytes: maxBytes * 2 + spareBytes, maxPackets, what: 'sends objects with' };
  let isPack = false;
  let written = 0;
  for await (const { kind, bytes } of readPackets(body, bounds, signal)) {
    if (kind !== 'data') continue;
    if (!isPack) {
      const line = bytes.toString('utf8', 0, 1000).trimEnd();
      if (line.startsWith('ERR ')) throw failure(line.slice('ERR '.length));
      isPack = line === 'packfile';
      continue;
    }
    const [band] = bytes;
    if (band === bands.failure) throw failure(bytes.toString('utf8', 1, 500).trimEnd());
    if (band === bands.progress) continue;
    if (band !== bands.data) throw new PacketProblem(unexpectedResponse);
    written += bytes.length - 1;
    if (written > maxBytes) throw new PackTooLarge();
    await file.write(bytes, 1);
  }
  if (written === 0) throw new PacketProblem('sends no objects');
}

function failure(words: string): PacketProblem {
  return new PacketProblem(`refuses to send its history: ${JSON.stringify(words.slice(0, 300))}`);
}
