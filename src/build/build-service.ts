import { Fault } from '../fault.ts';
import { tokenName } from '../hosted/keeper.ts';
import type { RegistryTokens } from '../hosted/registry-tokens.ts';
import { parseReference } from '../oci/reference.ts';
import type { BuildStore } from '../store/builds.ts';
import type { Logger } from '../telemetry.ts';
import type { Access } from '../upstream/authorizer.ts';
import type { CredentialSource } from '../upstream/credentials.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import { type BuildLogs, createBuildLogs } from './build-logs.ts';
import type { BuildPlan } from './build-plan.ts';
import { createBuilders } from './builders.ts';
import { type Builds, createBuilds, type Solve } from './builds.ts';
import type { FoundBuilders } from './find-builders.ts';

/** Everything about builds, put together. */
export interface BuildService {
  readonly builds: Builds;
  readonly logs: BuildLogs;
  close(): Promise<void>;
}

export interface BuildServiceDeps {
  readonly store: BuildStore;
  readonly logDirectory: string;
  readonly found: FoundBuilders;
  readonly registry: RegistryClient;
  readonly credentials: CredentialSource;
  readonly tokens: RegistryTokens;
  readonly accessToBuilt: (image: Pick<Access, 'registry' | 'repository'>) => Promise<Access>;
  /** Host and repository that builds are pushed to when nothing is said. */
  readonly ownHost: string;
  readonly isPlainHttp: (registry: string) => boolean;
  readonly limits: {
    readonly concurrent: number;
    /** ms */
    readonly timeLimit: number;
    /** ms */
    readonly retryAfter: number;
  };
  readonly log: Logger;
}

export function createBuildService(deps: BuildServiceDeps): BuildService {
  const { store, registry, tokens, found, log, ownHost, limits } = deps;
  const logs = createBuildLogs(deps.logDirectory);
  const builders = createBuilders(found.find, found.isComing, log);

  /** The builder gets credentials for the hosts of its images, and for the own host a token for this build alone. */
  const credentialsOf = (plan: BuildPlan): CredentialSource => {
    const named = [plan.target, plan.cache, ...plan.baseImages].filter(name => name !== undefined);
    const hosts = new Set(named.map(name => parseReference(name).registry));
    return async host => {
      if (!hosts.has(host)) return undefined;
      const configured = await deps.credentials(host);
      if (configured || host !== ownHost) return configured;
      const password = await tokens.issue(
        { access: ownAccess(plan, ownHost) },
        limits.timeLimit + tokenMarginMs,
      );
      return { kind: 'password', username: tokenName, password };
    };
  };

  // Loaded when it is first needed, as the client of the builder is.
  const solve: Solve = async run => {
    const { createSolve } = await import('./solve.ts');
    return createSolve({ builders, credentialsOf, isPlainHttp: deps.isPlainHttp })(run);
  };

  const builds = createBuilds({
    store,
    logs,
    solve,
    async find(target) {
      const image = parseReference(target);
      try {
        const access = await deps.accessToBuilt(image);
        return await registry.headManifest(access, image.tag ?? 'latest');
      } catch (error) {
        if (error instanceof Fault && error.kind === 'manifest-unknown') return undefined;
        throw error;
      }
    },
    requireBuilder: builders.require,
    log,
    concurrent: limits.concurrent,
    timeLimitMs: limits.timeLimit,
    retryAfterMs: limits.retryAfter,
  });

  return {
    builds,
    logs,
    async close() {
      await builds.close();
      await builders.close();
      await found.close();
    },
  };
}

const tokenMarginMs = 60_000;

/** Pull of the base images that are hosted here, push of the image. */
function ownAccess(plan: BuildPlan, ownHost: string) {
  const pushed = [plan.target, plan.cache].filter(name => name !== undefined);
  const access = (name: string, actions: readonly ('pull' | 'push')[]) => {
    const { registry, repository } = parseReference(name);
    return registry === ownHost ? [{ type: 'repository' as const, name: repository, actions }] : [];
  };
  return [
    ...pushed.flatMap(name => access(name, ['pull', 'push'])),
    ...plan.baseImages.flatMap(name => access(name, ['pull'])),
  ];
}
