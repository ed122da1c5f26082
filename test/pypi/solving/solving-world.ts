import type { TestContext } from 'node:test';
import type { CondaPackage } from '../../../src/conda/index.ts';
import {
  createIndexAccess,
  createKeptFiles,
  createLoopbackIndex,
  createPageStore,
  createPageThread,
  createPythonSolver,
  createUvProgram,
  createWheelMetadataSource,
  hostsOfIndexes,
  type IndexSettings,
  type PythonTarget,
} from '../../../src/pypi/index.ts';
import type { PageStore } from '../../../src/pypi/indexes/page-store.ts';
import { type PipLine, readPipLine } from '../../../src/pypi/requirements/index.ts';
import { createTransport, withoutReach } from '../../../src/upstream/index.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireUv } from '../../world/tools.ts';

export const target: PythonTarget = { version: '3.12.4', machine: 'x86_64', glibc: '2.36' };

/** Returns the settings of an index at another address than the one that requests mean. */
export function indexAt(
  url: string,
  key: string,
  more: Partial<IndexSettings> = {},
): IndexSettings {
  return { keys: [key], url, mirrors: [], allowPrivateAddress: true, ...more };
}

/** A package of Conda that has a Python project of its name. */
export function condaProject(name: string, version: string): CondaPackage {
  return {
    name,
    version,
    build: 'py312_0',
    buildNumber: 0,
    subdir: 'linux-64',
    fileName: `${name}-${version}-py312_0.conda`,
    url: `https://example.org/linux-64/${name}-${version}-py312_0.conda`,
    depends: ['python >=3.12,<3.13.0a0'],
  };
}

interface SolverOptions {
  readonly freshMs?: number;
  readonly timeout?: number;
  readonly memory?: number;
  /** Another program in place of uv. */
  readonly uv?: string;
  /** Default: a new one. */
  readonly directory?: string;
  readonly maxPageBytes?: number;
  readonly take?: () => void;
}

/** Starts a solver whose only network is the given indexes. */
export async function solverFor(
  t: TestContext,
  indexes: readonly IndexSettings[],
  {
    freshMs = 60_000,
    timeout = 60_000,
    memory = 512 * 1024 * 1024,
    uv: program = requireUv(),
    directory: given,
    maxPageBytes = 64 * 1024 * 1024,
    take = () => {},
  }: SolverOptions = {},
) {
  const hosts = hostsOfIndexes(indexes);
  const timeouts = { connectMs: 5000, headersMs: 10_000, idleMs: 10_000 };
  const transport = createTransport(hosts, timeouts);
  const guarded = createTransport(withoutReach(hosts), timeouts);
  const retry = { attempts: 1, firstDelayMs: 10, longestDelayMs: 10 };
  const access = createIndexAccess({ indexes, transport, guarded, retry });
  const thread = createPageThread();
  const key = Buffer.alloc(32, 'k');
  const { path, remove } = await makeTempDir('python');
  const directory = given ?? path;
  const place = `${directory}/pages`;
  const kept = createKeptFiles({ key, directory: place, space: { take }, maxBytes: maxPageBytes });
  const pages = createPageStore({ access, thread, kept, key, freshMs });
  const metadata = createWheelMetadataSource({ access, kept });
  const index = createLoopbackIndex({ access, pages, metadata, key });
  const uv = createUvProgram({ configured: program, folders: [] });
  const solver = createPythonSolver({
    index,
    findUv: uv.path,
    directory: `${directory}/solving`,
    limits: { timeout, memory, maxWaiting: 10 },
  });
  t.after(async () => {
    await index.close();
    await remove();
    await thread.close();
    await Promise.all([transport.close(), guarded.close()]);
  });
  const lines: string[] = [];
  const request = (
    pip: readonly string[],
    packages: readonly CondaPackage[] = [],
    goal = target,
  ) => ({
    requirements: pip.map(project),
    packages,
    target: goal,
  });
  const solve = (...given: Parameters<typeof request>) =>
    solver.solve(request(...given), { log: line => void lines.push(line), signal: t.signal });
  const openWith = async (other: PageStore) => {
    const replaced = createLoopbackIndex({ access, pages: other, metadata, key });
    t.after(replaced.close);
    const session = { indexes: ['https://pypi.org/simple'], installed: new Map(), log() {} };
    return replaced.open({ ...session, signal: t.signal });
  };
  return {
    solve,
    solver,
    request,
    lines,
    directory,
    access,
    pages,
    thread,
    key,
    loopback: index,
    openWith,
  };
}

function project(line: string): Extract<PipLine, { kind: 'project' }> {
  const read = readPipLine(line);
  if (read.kind !== 'project') throw new Error(`${line}: ${read.kind}`);
  return read;
}
