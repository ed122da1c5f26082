import type { Shares } from '../../../builds/index.ts';
import type { Config } from '../settings-schema.ts';
import { accessRules } from './access-in-force.ts';

/**
 * Returns what the callers of builds share, and how much of it anonymous callers and one caller may use. By default
 * anonymous callers leave a permit and half of the queue to users. Where only this machine can reach the server,
 * callers without a login are its own people: they may use everything.
 */
export function configuredShares(
  config: Pick<Config, 'access' | 'listen' | 'tls' | 'trustedProxies' | 'builds'>,
  publicUrl: URL,
): { readonly concurrent: Shares; readonly waiting: Shares } {
  const { concurrent, maxWaiting, ...limits } = config.builds;
  // Without `access.builds`, builds are open on a local server only.
  const isLocal =
    config.access.builds === undefined && accessRules(config, publicUrl).builds === 'open';
  const kept = (all: number, usual: number) => (isLocal ? all : Math.max(1, usual));
  return {
    concurrent: {
      inAll: concurrent,
      ofOne: limits.concurrentPerCaller ?? concurrent,
      ofAnonymous: limits.concurrentAnonymous ?? kept(concurrent, concurrent - 1),
    },
    waiting: {
      inAll: maxWaiting,
      ofOne: limits.maxWaitingPerCaller,
      ofAnonymous: limits.maxWaitingAnonymous ?? kept(maxWaiting, Math.floor(maxWaiting / 2)),
    },
  };
}
