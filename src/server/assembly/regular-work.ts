import { dayMs } from '../../foundation/telemetry/counted.ts';
import { type createMetricsRegistry, createWorkMetrics } from '../../foundation/telemetry/index.ts';
import { atMost, type ClosingPart, closeInTurn } from '../../foundation/work.ts';
import { purgeContexts } from '../../hosted/index.ts';
import { sessionIdleMs } from '../../pages/index.ts';
import { createRunWatch } from '../../request/tokens/index.ts';
import { purgeFigures, startChores, startScrub, startSweeping } from '../upkeep/index.ts';
import { createClockCheck, sweep } from '../upkeep/sweep/index.ts';
import type { Containers } from './containers.ts';
import type { People } from './people.ts';
import type { RegistryAccess } from './registry-clients.ts';
import type { AppDeps, State } from './server-state.ts';

const flushMs = 1000;
const figuresMs = 10_000;
const sampleMs = 2000;
const samplesMs = 600_000;
const diskUseMs = 600_000;
const lookMs = 1000;
const accountsMs = 1000;
const purgeMs = 3_600_000;
const longestExpireMs = 60_000;
const longestRoundMs = 10_000;
// A request to an object store may take 30 s. The next leader and the supervisor of the server wait for this stop.
const stopMs = 5000;
const layersKeptMs = 7 * dayMs;
// A verified layer is verified for ever. Rows of images that nobody builds on any more go.
const verifiedKeptMs = 180 * dayMs;
// A use dated further in the future comes from a wrong clock.
const futureMs = 3_600_000;

/**
 * Starts regular work. `stop` ends the running work, which continues after the next start. It resolves when all work has
 * ended, or after a few seconds: each piece of work is safe when its process dies.
 */
export function startRegularWork(
  { config, log, publicUrl }: AppDeps,
  state: State,
  registries: RegistryAccess,
  people: People,
  { tokens, lives, building }: Containers,
  metrics: ReturnType<typeof createMetricsRegistry>,
): { stop(): Promise<void> } {
  const { content, space, rows } = state;
  const { cachedBlobs, usage } = rows;
  const { accountFiles } = registries;
  const { uploads } = registries.hosted;
  const { uploadLife } = config.hosted;
  const workMetrics = createWorkMetrics(metrics);
  const isSteady = createClockCheck(state.clock, log);
  const runWatch = createRunWatch({
    runs: rows.runs,
    statusOf: people.identities.runStatus,
    ...lives,
    note: workMetrics.noteRunCheck,
    isSteady,
  });
  const ownHost = new URL(publicUrl).host;
  /** Deletes old entries, unless the clock is unreliable. */
  const purge = (name: string, run: (signal: AbortSignal) => Promise<unknown>) => ({
    name,
    everyMs: purgeMs,
    atStart: true,
    run: async (signal: AbortSignal) => {
      if (await isSteady()) await run(signal);
    },
  });
  const chores = startChores(
    [
      { name: 'write usage counts', everyMs: flushMs, run: usage.flush },
      { name: 'write figures', everyMs: figuresMs, run: rows.dayCounts.flush },
      { name: 'write pulls', everyMs: figuresMs, run: rows.pulls.flush },
      {
        name: 'sample the queue of builds',
        everyMs: sampleMs,
        run: () => rows.queue.note(Date.now(), building.builds.load()),
      },
      { name: 'write samples of the queue', everyMs: samplesMs, run: rows.queue.flush },
      { name: 'check the account files', everyMs: accountsMs, run: accountFiles.look },
      { name: 'check the disk space', everyMs: lookMs, run: space.look },
      {
        name: 'measure what takes the disk',
        everyMs: diskUseMs,
        atStart: true,
        run: state.diskUse.look,
      },
      // Each platform has its own turn, so that one that is slow delays no other.
      ...people.client.endpoints.hosts
        .filter(host => host !== ownHost)
        .map(host => ({
          name: `ask ${host} about runs`,
          everyMs: Math.min(longestRoundMs, lives.runLeaseMs / 8),
          atStart: true,
          run: (signal: AbortSignal) => runWatch.round(host, signal),
        })),
      {
        name: 'remove abandoned uploads',
        everyMs: Math.min(longestExpireMs, uploadLife),
        run: () => uploads.expire(uploadLife),
      },
      purge('delete old entries of the audit log', async signal => {
        const { keep, maxEntries } = config.audit;
        for (const audit of Object.values(state.audits)) {
          await audit.purge(Date.now() - keep, maxEntries, signal);
        }
      }),
      purge('delete old messages', signal =>
        rows.messages.purge(Date.now() - config.messages.keep, signal),
      ),
      purge('delete old scans', signal =>
        rows.scans.purge(
          // A scan with the result of another one is younger than that by at most this age.
          Date.now() - Math.max(config.scans.keep, lives.maxLifeMs) - config.scans.maxAge,
          signal,
        ),
      ),
      purge('delete ended container requests', tokens.purge),
      purge('delete ended runs', runWatch.purge),
      purge('delete old figures', signal => purgeFigures(rows, signal)),
      purge('delete old platform tokens', people.client.purges.pairs),
      purge('delete old pairing keys', people.client.purges.keys),
      purge('delete ended access tokens', people.platform.tokens.purge),
      purge('delete ended sessions of browsers', signal =>
        rows.sessions.purge(Date.now() - sessionIdleMs, signal),
      ),
      purge('delete finished builds and their logs', building.builds.purge),
      purge('delete the logs of unknown builds', building.builds.removeStrayLogs),
      {
        name: 'delete the staged images of ended builds',
        everyMs: purgeMs,
        atStart: true,
        run: building.removeStagedImages,
      },
      purge('delete old build contexts', signal =>
        purgeContexts(rows.contexts, Date.now() - config.hosted.contextLife, signal),
      ),
      purge('remove records of fetched layers', signal =>
        rows.fetchedLayers.purge(Date.now() - layersKeptMs, Date.now() + futureMs, signal),
      ),
      purge('forget layers of Conda packages', signal =>
        rows.packageLayers.purge(
          Date.now() - config.conda.packages.keep,
          Date.now() + futureMs,
          signal,
        ),
      ),
      purge('forget verified layers', signal =>
        rows.verifiedLayers.purge(Date.now() - verifiedKeptMs, Date.now() + futureMs, signal),
      ),
      purge('remove listings of layers by last use', signal => state.listings.tidy(signal)),
      purge('correct the use of cached blobs', signal =>
        cachedBlobs.redate(Date.now() + futureMs, signal),
      ),
      purge('return free space of the database', signal => rows.upkeep.returnFreeSpace(signal)),
    ],
    log,
    workMetrics.note,
  );
  const sweeping = startSweeping(
    signal => sweep({ content, ...rows }, { graceMs: config.sweep.grace, signal }),
    config.sweep.interval,
    isSteady,
    log,
    workMetrics,
  );
  const { interval: intervalMs, bytesPerSecond } = config.scrub;
  const scrubbing =
    bytesPerSecond === undefined
      ? undefined
      : startScrub(content, { intervalMs, bytesPerSecond }, log);
  return {
    async stop() {
      const parts: ClosingPart[] = [
        ['chores', chores.stop],
        ['scrub', () => scrubbing?.stop()],
        ['sweep', sweeping.stop],
      ];
      const ending = Promise.all(parts.map(part => closeInTurn([part], log)));
      if (!(await atMost(stopMs, ending))) {
        log.warn(
          { ms: stopMs },
          'regular work still waits for its storage: the server stops without it',
        );
      }
    },
  };
}
