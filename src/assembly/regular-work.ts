import { sweep } from '../upkeep/sweep.ts';
import { startSweeping } from '../upkeep/sweeping.ts';
import type { AppDeps } from './app-deps.ts';
import type { Containers } from './containers.ts';
import type { People } from './people.ts';
import type { RegistryAccess } from './registries.ts';
import type { State } from './state.ts';

const flushMs = 1000;
const purgeMs = 3_600_000;
const longestExpireMs = 60_000;

/** Starts what is done from time to time; `stop` waits for what is under way. */
export function startRegularWork(
  { config, log }: AppDeps,
  { content, cachedBlobs, hosted, requests, builds, usage }: State,
  registries: RegistryAccess,
  people: People,
  { tokens, building }: Containers,
): { stop(): Promise<void> } {
  const purge = () => {
    try {
      tokens.purge();
      people.client.purge();
      building.builds.purge(Date.now() - config.builds.keep);
    } catch (err) {
      log.error({ err }, 'what has ended is not forgotten yet: the next time will do');
    }
  };
  const expire = () => {
    const { uploads } = registries.hosted;
    const since = Date.now() - config.hosted.uploadLife;
    uploads.expire(since).catch(err => log.error({ err }, 'uploads'));
  };
  purge();
  const timers = [
    setInterval(() => usage.flush(), flushMs),
    setInterval(purge, purgeMs),
    setInterval(expire, Math.min(longestExpireMs, config.hosted.uploadLife)),
  ];
  for (const timer of timers) timer.unref();
  const sweeping = startSweeping(
    signal =>
      sweep(
        { content, hosted, cachedBlobs, requests, builds },
        { graceMs: config.sweep.grace, signal },
      ),
    config.sweep.interval,
    log,
  );
  return {
    async stop() {
      for (const timer of timers) clearInterval(timer);
      await sweeping.stop();
    },
  };
}
