import { BuildError, type BuildOptions, build } from '../../buildkit/index.ts';
import { domainHosts, numberedBuild } from '../builder/build-host.ts';
import type { Builders } from '../builder/builders.ts';
import type { LabelOf, TrustDomain } from '../domain.ts';
import type { LogWriter } from '../logs/build-logs.ts';
import type { StepCount } from '../logs/run-step.ts';
import { environmentAt } from './bases/environment-image.ts';
import { buildFault } from './build-fault.ts';
import { type BuilderAccess, loginsOf } from './build-rights.ts';
import { recordedProgress } from './recorded-step.ts';

/** A build, inside another build, of a Dockerfile that this server writes. */
export interface GeneratedRun {
  /** Name of the environment's image at this server, with its digest. */
  readonly environment: string;
  /** `linux/amd64` */
  readonly platform: string;
  readonly access: BuilderAccess;
  readonly domain: TrustDomain;
  readonly log: LogWriter;
  readonly count: StepCount;
  readonly signal: AbortSignal;
}

export interface GeneratedBuildDeps {
  readonly builders: Pick<Builders, 'use'>;
  readonly labelOf: LabelOf;
}

type GeneratedOptions = Pick<
  BuildOptions,
  'dockerfile' | 'context' | 'sourceRules' | 'network' | 'exporters'
>;

/** Has BuildKit build in an environment. Returns what the exporters return. Throws a `BuildError`. */
export async function generatedBuild(
  { builders, labelOf }: GeneratedBuildDeps,
  { environment, platform, access, domain, log, count, signal }: GeneratedRun,
  options: GeneratedOptions,
) {
  const progress = recordedProgress(log, count);
  try {
    return await builders.use({ domain, platforms: [platform] }, signal, client =>
      build(
        client,
        {
          ...options,
          extraHosts: { ...numberedBuild(), ...domainHosts(labelOf(domain.name)) },
          replacedImages: environmentAt(environment),
          platforms: [platform],
          ...loginsOf(access),
        },
        { signal, onProgress: progress.onProgress },
      ),
    );
  } finally {
    progress.end();
  }
}

/**
 * Returns the failure of a {@link generatedBuild} as a `Fault`; other errors as they are.
 *
 * @param name what was built, for messages: `a link script`
 */
export function generatedFault(error: unknown, name: string): unknown {
  if (!(error instanceof BuildError)) return error;
  return buildFault(error, { isGenerated: true, partOf: () => ({ name, advice: '' }) });
}
