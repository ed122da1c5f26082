import { mkdir, mkdtemp, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect, type PruneOptions } from '../../../buildkit/index.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import type { Logger } from '../../../foundation/telemetry/index.ts';
import {
  type BuilderProcess,
  builderConfiguration,
  type OwnBuilder,
  runBuilder,
} from '../own/builder-process.ts';
import { type Containment, type ContainmentOptions, prepareContainment } from './containment.ts';

export interface ContainedBuilderOptions {
  /** Path of buildkitd. */
  readonly program: string;
  /** Folders in which programs are looked up, in the format of the variable PATH. */
  readonly path: string;
  /** Directory for its state; absolute. */
  readonly directory: string;
  readonly containment: ContainmentOptions;
  readonly plainHttp: readonly string[];
  readonly log: Logger;
}

const refreshMs = 10_000;
const pruneMs = 60_000;
// When less than this share of the required free space is left, the cache is pruned before a build.
const roomShare = 0.8;
const leastFreeFiles = 0.4;

/**
 * Starts buildkitd in its own network, with limits. All its processes end with the first one, which ends with this
 * process. Throws if it does not start.
 */
export async function startContained({
  program,
  path,
  directory,
  containment,
  plainHttp,
  log,
}: ContainedBuilderOptions): Promise<OwnBuilder> {
  await mkdir(directory, { recursive: true });
  const folder = await makeFolder();
  const prepared = await prepareContainment(containment, { directory, folder, path, log }).catch(
    async error => {
      await rm(folder, { recursive: true, force: true });
      throw error;
    },
  );
  try {
    const { root, workerConfig } = prepared;
    const config = join(directory, 'buildkitd.toml');
    await writeFile(config, builderConfiguration({ root, folder, plainHttp }, workerConfig));
    const command = [...prepared.command, program, '--config', config];
    const env = { ...process.env, ...prepared.env, PATH: path };
    const daemon = await runBuilder({
      command,
      env,
      folder,
      log,
      isDetached: true,
      onEnd: prepared.clear,
    });
    log.info({ program, address: daemon.address }, 'buildkitd started, in its own network');
    let refreshed = performance.now();
    const refreshing = new SingleFlight<void>();
    const adaptNetwork = async () => {
      if (await prepared.writeRules()) daemon.write('rules\n');
    };
    const refresh = async () => {
      if (performance.now() - refreshed > refreshMs) {
        refreshed = performance.now();
        adaptNetwork().catch(err =>
          log.warn(
            { err },
            'cannot adapt the network of the builder to the addresses of this machine',
          ),
        );
      }
      await makeRoom(daemon, prepared, log);
    };
    // The state of an uncontained builder that took its place.
    rm(join(directory, 'state'), { recursive: true, force: true }).catch(() => {});
    return {
      ...daemon,
      isContained: true,
      refresh: () => refreshing.run(refresh),
      async shrink(bytes) {
        await prune(daemon, { maxUsedSpace: bytes }, log);
      },
      async isWhole() {
        return (await daemon.isWhole()) && (await hasDisk(daemon, prepared));
      },
      async stop() {
        await daemon.stop(() => daemon.write('stop\n'));
        await prepared.clear();
      },
    };
  } catch (error) {
    await prepared.clear();
    throw error;
  }
}

/**
 * Makes a folder with a short path: the path of a socket is limited to about a hundred bytes. The folder is not in a
 * place where old files are cleaned up: removing the mount point, even from outside, would take the disk away from the
 * builder.
 */
function makeFolder(): Promise<string> {
  const make = (place: string) => mkdtemp(join(place, 'sluice-buildkit-'));
  return make('/run').catch(() => make(tmpdir()));
}

/**
 * Returns the mounted state of the builder as a path that this process can open; undefined if the builder has ended.
 */
async function stateOf(
  { pid }: Pick<BuilderProcess, 'pid'>,
  { root }: Pick<Containment, 'root'>,
): Promise<string | undefined> {
  const first = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return first.trim() === '' ? undefined : join('/proc', first.trim(), 'root', root);
}

/** Returns whether the state of the builder is a mounted file system. */
async function hasDisk(daemon: BuilderProcess, prepared: Containment): Promise<boolean> {
  const inside = await stateOf(daemon, prepared);
  if (inside === undefined) return false;
  const [state, around] = await Promise.all(
    [inside, dirname(inside)].map(path => stat(path).catch(() => undefined)),
  );
  return state !== undefined && around !== undefined && state.dev !== around.dev;
}

/** Prunes the builder's cache now. The builder itself would prune it up to a minute later. */
async function makeRoom(daemon: BuilderProcess, prepared: Containment, log: Logger): Promise<void> {
  const { freeBytes, keptBytes } = prepared;
  const inside = await stateOf(daemon, prepared);
  const disk = inside === undefined ? undefined : await statfs(inside).catch(() => undefined);
  if (!disk) return;
  const isShortOfBytes = disk.bavail * disk.bsize < freeBytes * roomShare;
  const isShortOfFiles = disk.ffree < disk.files * leastFreeFiles;
  if (!isShortOfBytes && !isShortOfFiles) return;
  // Few bytes may be many files.
  const what = isShortOfFiles ? {} : { maxUsedSpace: keptBytes, minFreeSpace: freeBytes };
  await prune(daemon, what, log);
}

async function prune(daemon: BuilderProcess, what: PruneOptions, log: Logger): Promise<void> {
  const client = connect(daemon.address);
  try {
    const gone = await client.prune(what, { timeoutMs: pruneMs });
    const bytes = gone.reduce((sum, { size }) => sum + size, 0);
    log.info({ records: gone.length, bytes }, 'the builder freed disk space');
  } finally {
    client.close();
  }
}
