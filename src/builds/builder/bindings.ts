import { Fault } from '../../foundation/fault.ts';
import type { Builder } from './builder-connections.ts';
import { empty } from './builder-fit.ts';
import { BuilderLost } from './builder-refusals.ts';
import type { WorkerPods } from './worker-pods.ts';

/** Which domain has each builder that serves several, one after the other. */
export interface Bindings {
  /**
   * Gives the builder to a domain, and removes the state of the domain before. Returns false if the builder is gone.
   * While that takes time, other builds of the domain wait for it. Rejects when the state cannot be removed.
   */
  bind(builder: Builder, name: string, signal: AbortSignal): Promise<boolean>;
  /** Removes the state of the builder now. Rejects when it cannot be removed. */
  clear(builder: Builder, signal: AbortSignal): Promise<void>;
}

/**
 * @param drop forgets a builder whose pod is gone
 * @param pods those of workers; absent outside Kubernetes
 */
export function createBindings(drop: (builder: Builder) => void, pods?: WorkerPods): Bindings {
  /**
   * Removes everything that another domain has left. Returns false for a builder that is gone with it.
   *
   * @param isFresh true if this server has not used it yet
   */
  const wipe = async (
    builder: Builder,
    isFresh: boolean,
    signal: AbortSignal,
  ): Promise<boolean> => {
    const { client } = builder;
    if (builder.separation === 'prune') {
      await empty(client, signal);
      return true;
    }
    if (!pods) throw new Fault('unavailable', podsElsewhere, { phase: 'build' });
    // A step may have changed what the worker itself says.
    if (isFresh && (await pods.claim(client.address, signal))) return true;
    await pods.wipe(client.address, signal);
    drop(builder);
    return false;
  };

  /**
   * Gives the builder to the domain. Returns false if it is gone. While that takes time, other builds of the domain
   * wait for it.
   */
  const bind = async (builder: Builder, name: string, signal: AbortSignal): Promise<boolean> => {
    if (builder.own || builder.separation === 'shared') return true;
    if (builder.domain !== name) {
      const isFresh = builder.domain === undefined;
      builder.domain = name;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      builder.emptied = promise;
      promise.catch(() => {});
      try {
        const stays = await wipe(builder, isFresh, signal);
        if (stays) resolve();
        else reject(new BuilderLost('the pod of the builder was replaced', false));
        return stays;
      } catch (error) {
        builder.domain = notEmptied;
        reject(error);
        throw error;
      }
    }
    try {
      await builder.emptied;
      return true;
    } catch {
      return false;
    }
  };

  return {
    bind,
    async clear(builder, signal) {
      await wipe(builder, false, signal);
      builder.domain = undefined;
    },
  };
}

/** Takes the place of a domain's name where the state may have something of another one. */
const notEmptied = 'unknown';

const podsElsewhere =
  "A worker's label says that its pod is to be deleted, but this server does not run in Kubernetes: give the worker the label sluice.wipe=prune";
