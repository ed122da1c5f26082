import '../../foundation/gated-zlib.ts';
import { parentPort, workerData } from 'node:worker_threads';
import type { Platform, SolvedPackage } from '@conda-org/rattler';
import { nearestName } from '../../foundation/nearest-name.ts';
import { plainBase } from '../channels/channel-address.ts';
import { type CondaPackage, hasPlainNames } from '../conda-package.ts';
import { RepodataError } from '../repodata/shards/json-records.ts';
import { DamagedPack } from '../repodata/shards/shard-pack.ts';
import { loadRattler } from './load-rattler.ts';
import { isVirtual } from './locked-records.ts';
import { ServedSubdir } from './served-subdir.ts';
import type {
  ShardResponse,
  SolveOrder,
  ThreadMessage,
  ThreadSettings,
  UnsolvedCause,
} from './solve-thread.ts';

const { memoryBytes: maxBytes } = workerData as ThreadSettings;
/** Characters of the records of a solution, which go to the main thread: usual records have 1000 each. */
const mostRecordLength = 4 * 2 ** 20;
// Memory that is taken in steps ends a little below its maximum.
const nearlyAll = 0.8;

const waiting = new Map<number, (response: ShardResponse) => void>();
let lastShard = 0;
let subdirs: readonly ServedSubdir[] = [];
/** Why repository data could not be served: the solver reports only that a request failed. */
let trouble: Error | undefined;
let panic: string | undefined;
let current = 0;

const tell = (message: ThreadMessage) => parentPort?.postMessage(message);

// The solver calls the global fetch for each file of a channel. Only kept files are served.
globalThis.fetch = async request => {
  const url = request instanceof Request ? request.url : String(request);
  const bytes = await fileOf(url).catch((error: Error) => {
    trouble ??= error;
    throw error;
  });
  const response = new Response(bytes ? new Uint8Array(bytes) : null, {
    status: bytes ? 200 : 404,
  });
  // The solver reads the address of the response, which a constructed response does not have.
  Object.defineProperty(response, 'url', { value: url });
  return response;
};

// The solver writes the reason here before it breaks down.
console.error = (...words: unknown[]) => {
  panic ??= words.join(' ');
};

// When the solver breaks down in its own task, its response never comes.
process.on('uncaughtException', error => tell(failureOf(current, error, true)));

const { rattler, memoryBytes } = loadRattler(maxBytes);

parentPort?.on('message', (message: SolveOrder | ShardResponse) => {
  if ('shard' in message) {
    waiting.get(message.shard)?.(message);
    waiting.delete(message.shard);
    return;
  }
  solve(message).then(
    packages => tell({ solved: message.solve, packages, memoryBytes: memoryBytes() }),
    (error: unknown) => tell(failureOf(message.solve, error)),
  );
});

async function solve(order: SolveOrder): Promise<readonly CondaPackage[]> {
  current = order.solve;
  trouble = undefined;
  panic = undefined;
  const { specs, channels, platforms, locked } = order;
  const opened: ServedSubdir[] = [];
  try {
    for (const subdir of order.subdirs) opened.push(new ServedSubdir(subdir, fetchShard));
    subdirs = opened;
    const solved = await rattler.simpleSolve(
      [...specs],
      [...channels],
      platforms as Platform[],
      locked,
    );
    const packages = solved.map(plainOf);
    checkRecords(packages);
    return packages;
  } catch (error) {
    throw trouble === undefined ? withSuggestion(error, specs) : error;
  } finally {
    for (const subdir of opened) subdir.close();
    subdirs = [];
  }
}

/** Returns the error of the solver; for a requested package that no channel has, with the most similar name. */
function withSuggestion(error: unknown, specs: readonly string[]): unknown {
  if (isTrap(error) || error instanceof RepodataError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const [line, name] = /No candidates were found for ([\w.-]{1,200}).*/.exec(message) ?? [];
  const isRequested = specs.some(spec => /^[\w.-]+/.exec(spec)?.[0] === name);
  if (line === undefined || name === undefined || !isRequested) return error;
  const names = new Set(subdirs.flatMap(subdir => [...subdir.names()]));
  const meant = names.has(name) ? undefined : nearestName(name, names);
  if (meant === undefined) return error;
  const end = line.endsWith('.') ? '' : '.';
  return new Error(message.replace(line, `${line}${end} Did you mean ${meant}?`));
}

async function fileOf(url: string): Promise<Uint8Array | undefined> {
  for (const subdir of subdirs) {
    const bytes = await subdir.file(url);
    if (bytes) return bytes;
  }
  return undefined;
}

function fetchShard(base: string, hex: string): Promise<Uint8Array> {
  lastShard += 1;
  const shard = lastShard;
  const { promise, resolve } = Promise.withResolvers<ShardResponse>();
  waiting.set(shard, resolve);
  tell({ shard, base, hex });
  return promise.then(({ bytes }) => bytes);
}

/** Copies a package out of the memory of the solver. */
function plainOf(solved: SolvedPackage): CondaPackage {
  const { packageName: name, version, build, filename: fileName, url, sha256, md5 } = solved;
  const { subdir = '' } = solved;
  const record = recordOf(name, subdir, fileName, url);
  const plain = {
    name,
    version,
    build,
    fileName,
    url,
    sha256,
    md5,
    subdir,
    record,
    buildNumber: Number(solved.buildNumber ?? 0n),
    size: solved.size === undefined ? undefined : Number(solved.size),
    // The solver has them in other words.
    depends: (record?.depends as readonly string[] | undefined) ?? solved.depends ?? [],
  };
  solved.free();
  if (!isVirtual(name) && !hasPlainNames(plain)) {
    throw new RepodataError(`${plainBase(url)} has a name that cannot be used`);
  }
  return plain;
}

function checkRecords(packages: readonly CondaPackage[]): void {
  let length = 0;
  for (const { record, depends, fileName, url } of packages) {
    length += JSON.stringify([record, depends]).length;
    if (length <= mostRecordLength) continue;
    throw new RepodataError(
      `${plainBase(url.slice(0, -fileName.length))} has records of more than ${mostRecordLength / 2 ** 20} million characters for these packages`,
    );
  }
}

function recordOf(name: string, subdir: string, fileName: string, url: string) {
  for (const served of subdirs) {
    if (!served.has(subdir, url)) continue;
    try {
      const record = served.record(name, fileName);
      if (record) return record;
    } catch (cause) {
      throw new RepodataError(`${plainBase(url)} has a damaged record`, { cause });
    }
  }
  return undefined;
}

/** @param isBroken true when the solver cannot be used again */
function failureOf(solve: number, error: unknown, isBroken = isTrap(error)): ThreadMessage {
  const message = error instanceof Error ? error.message : String(error);
  const code = codeOf(trouble ?? error);
  return {
    failed: solve,
    cause: causeOf(trouble ?? error, isBroken),
    // Its message has the path of a file of this server.
    reason: code ?? trouble?.message ?? panic ?? message,
    memoryBytes: isBroken ? maxBytes : memoryBytes(),
  };
}

function causeOf(error: unknown, isBroken: boolean): UnsolvedCause {
  if (error instanceof DamagedPack) return 'disk';
  if (codeOf(error) !== undefined) return 'unreadable';
  if (trouble !== undefined || error instanceof RepodataError) return 'channel';
  if (!isBroken) return 'solver';
  return memoryBytes() > maxBytes * nearlyAll ? 'memory' : 'fault';
}

/** Returns the code of an error of the operating system or of Node. */
function codeOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** True for the error of WebAssembly that went wrong inside. */
function isTrap(error: unknown): boolean {
  return error instanceof Error && error.name === 'RuntimeError';
}
