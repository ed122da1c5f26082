import { createRequire } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { Platform, SolvedPackage } from '@conda-org/rattler';
import type { FileAnswer, SolvedRecord, SolveOrder, ThreadMessage } from './solve-messages.ts';

const waiting = new Map<number, (answer: FileAnswer) => void>();
let lastFile = 0;

const tell = (message: ThreadMessage) => parentPort?.postMessage(message);

// The solver calls the global fetch for each file of a channel. Its files come from the main thread.
globalThis.fetch = async request => {
  const url = request instanceof Request ? request.url : String(request);
  lastFile += 1;
  const file = lastFile;
  const { promise, resolve } = Promise.withResolvers<FileAnswer>();
  waiting.set(file, resolve);
  tell({ file, url });
  const { status, bytes } = await promise;
  const response = new Response(status === 200 ? new Uint8Array(bytes) : null, { status });
  // The solver reads the address of the answer, which a constructed response does not have.
  Object.defineProperty(response, 'url', { value: url });
  return response;
};

// The entry for `import` expects a bundler.
const { simpleSolve } = createRequire(import.meta.url)(
  '@conda-org/rattler',
) as typeof import('@conda-org/rattler');

parentPort?.on('message', (message: SolveOrder | FileAnswer) => {
  if ('file' in message) {
    waiting.get(message.file)?.(message);
    waiting.delete(message.file);
    return;
  }
  solve(message).catch((error: unknown) => {
    tell({ failed: message.solve, reason: error instanceof Error ? error.message : String(error) });
  });
});

async function solve({ solve, specs, channels, platforms, locked }: SolveOrder): Promise<void> {
  const solved = await simpleSolve([...specs], [...channels], platforms as Platform[], locked);
  const packages = solved.map(plainOf);
  tell({ solved: solve, packages });
}

/** Copies a package out of the memory of the solver. */
function plainOf(solved: SolvedPackage): SolvedRecord {
  const { packageName, version, build, filename, url, sha256, md5, subdir = '' } = solved;
  const plain = {
    ...{ version, build, url, sha256, md5, subdir },
    name: packageName,
    fileName: filename,
    buildNumber: Number(solved.buildNumber ?? 0n),
    size: solved.size === undefined ? undefined : Number(solved.size),
    depends: solved.depends ?? [],
    record: undefined,
  };
  solved.free();
  return plain;
}
