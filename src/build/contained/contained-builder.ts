import { mkdir, mkdtemp, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '../../telemetry.ts';
import { builderConfiguration } from '../builder-configuration.ts';
import { type BuilderProcess, type OwnBuilder, runBuilder } from '../builder-process.ts';
import { type Containment, type ContainmentOptions, prepareContainment } from './containment.ts';

export interface ContainedBuilderOptions {
  /** Path of buildkitd. */
  readonly program: string;
  /** Where programs are looked for, as in the variable PATH. */
  readonly path: string;
  /** Where its state goes; absolute. */
  readonly directory: string;
  readonly containment: ContainmentOptions;
  readonly plainHttp: readonly string[];
  readonly log: Logger;
}

const refreshMs = 10_000;
const pruneMs = 60_000;
// Below this part of what should be free, room is made before a build.
const roomShare = 0.8;
const leastFreeFiles = 0.4;

/**
 * Starts buildkitd in its own network, with limits. All its processes end with the first one, which ends with this
 * process. Throws when it does not start.
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
  const folder = await mkdtemp(join(tmpdir(), 'sluice-buildkit-'));
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
    let refreshing: Promise<void> | undefined;
    const adaptNetwork = async () => {
      if (await prepared.writeRules()) daemon.write('rules\n');
    };
    const refresh = async () => {
      if (performance.now() - refreshed > refreshMs) {
        refreshed = performance.now();
        adaptNetwork().catch(err => log.warn({ err }, 'the network of the builder'));
      }
      await makeRoom(daemon, prepared, log);
    };
    // The state of a builder without its own disk.
    rm(join(directory, 'state'), { recursive: true, force: true }).catch(() => {});
    return {
      ...daemon,
      isContained: true,
      refresh() {
        refreshing ??= refresh().finally(() => {
          refreshing = undefined;
        });
        return refreshing;
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

/** Prunes the builder's cache now; by itself the builder would do so only within a minute. */
async function makeRoom(
  { address, pid }: Pick<BuilderProcess, 'address' | 'pid'>,
  { root, freeBytes, keptBytes }: Containment,
  log: Logger,
): Promise<void> {
  const first = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const inside = join('/proc', first.trim(), 'root', root);
  const disk = first === '' ? undefined : await statfs(inside).catch(() => undefined);
  if (!disk) return;
  const isShortOfBytes = disk.bavail * disk.bsize < freeBytes * roomShare;
  const isShortOfFiles = disk.ffree < disk.files * leastFreeFiles;
  if (!isShortOfBytes && !isShortOfFiles) return;
  const { connect } = await import('../../buildkit/index.ts');
  const client = connect(address);
  try {
    // What takes few bytes may be many files.
    const what = isShortOfFiles ? {} : { maxUsedSpace: keptBytes, minFreeSpace: freeBytes };
    const gone = await client.prune(what, { timeoutMs: pruneMs });
    const bytes = gone.reduce((sum, { size }) => sum + size, 0);
    log.info({ records: gone.length, bytes }, 'the builder made room on its disk');
  } finally {
    client.close();
  }
}
