import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resolveClobbering } from '../../../src/conda/installing/clobbering.ts';
import type { PythonPlace } from '../../../src/conda/installing/installed-package.ts';
import type { RecordedPath } from '../../../src/conda/installing/metadata/package-record.ts';
import { startCondaChannels } from '../../world/conda-channels.ts';
import { type CondaPackage, packPackage } from '../../world/conda-package.ts';
import { installByRattler } from '../../world/rattler.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { installPacked } from './installed.ts';
import { treeOf } from './tree-of.ts';

export interface JudgedEnvironment {
  readonly packages: readonly CondaPackage[];
  /** Default: `/opt/conda`. */
  readonly prefix?: string;
  readonly python?: PythonPlace;
}

/** What is installed: the tree of the environment, and the records of its packages. */
interface Outcome {
  readonly tree: Record<string, string>;
  readonly records: Record<string, unknown>;
}

/** Installs an environment by rattler, and by our own code; returns both outcomes without what the two may do differently. */
export async function judge({
  packages,
  prefix = '/opt/conda',
  python,
}: JudgedEnvironment): Promise<{ rattler: Outcome; ours: Outcome }> {
  await using directory = await makeTempDir('conda-judge');
  await using channels = await startCondaChannels({ channel: packages });
  const packed = await Promise.all(packages.map(packPackage));
  const target = directory.join('rattler');
  const channel = `${channels.url}/channel`;
  await installByRattler(packed, { prefix, target, cache: directory.join('cache'), channel });
  const install = (index: number, lostPaths: readonly string[] = []) => {
    const { subdir, fileName } = one(packed, index);
    const url = `${channel}/${subdir}/${fileName}`;
    return installPacked(one(packed, index), directory, {
      ...{ prefix, lostPaths, package: { url } },
      ...(python ? { python } : {}),
    });
  };
  const alone = await Promise.all(packages.map((_, index) => install(index)));
  const lost = resolveClobbering(
    packages.map(({ name, depends = [], noarch }, index) => ({
      ...{ name, depends, isNoarch: noarch !== undefined, paths: one(alone, index).paths },
    })),
  );
  const root = directory.join('ours');
  mkdirSync(root);
  for (const [index, { name }] of packages.entries()) {
    const { tar } = await install(index, lost.get(name));
    execFileSync('tar', ['-xpC', root], { input: tar });
  }
  const isMoved = lost.size > 0;
  return { rattler: outcomeOf(target, isMoved), ours: outcomeOf(join(root, prefix), isMoved) };
}

const processStart = Date.now() - process.uptime() * 1000;
const fixedTime = 315_532_800;

/** Describes an installed environment without what rattler and our own code may do differently. */
export function outcomeOf(root: string, isMoved: boolean): Outcome {
  // What rattler writes itself, such as an entry point, has the time of the installation; ours has a fixed time.
  const all = Object.entries(treeOf(root, time => (time * 1000 > processStart ? fixedTime : time)));
  // Rattler marks the environment as a cache, and makes an empty history.
  const isOwn = ([path]: [string, string]) => !/^(?:CACHEDIR\.TAG|conda-meta\/history)$/.test(path);
  const isRecord = ([path]: [string, string]) => /^conda-meta\/.*\.json$/.test(path);
  // Which directories stay empty there differs as well.
  const isLeft = ([path, what]: [string, string]) =>
    path.startsWith('__clobbers__') &&
    what.startsWith('directory') &&
    !all.some(([other, kind]) => other.startsWith(`${path}/`) && !kind.startsWith('directory'));
  const own = all.filter(entry => isOwn(entry) && !isLeft(entry));
  const records = own.filter(isRecord).map(([path]) => {
    const record = JSON.parse(readFileSync(join(root, path), 'utf8'));
    delete record.extracted_package_dir;
    record.link.source = '';
    // Paths that were moved stand where they were or where they are: that differs from run to run of rattler.
    if (isMoved) {
      record.files.sort();
      record.paths_data.paths.sort((a: RecordedPath, b: RecordedPath) =>
        a._path < b._path ? -1 : 1,
      );
    }
    // In the order of their members.
    return [path, JSON.stringify(record, null, 1).split('\n')];
  });
  return {
    tree: Object.fromEntries(own.filter(entry => !isRecord(entry))),
    records: Object.fromEntries(records),
  };
}

function one<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`has no item ${index}`);
  return found;
}
