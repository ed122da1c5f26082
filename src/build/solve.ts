import { BuildError, type BuildkitClient, build, memoryTree, plainLog } from '../buildkit/index.ts';
import { Fault } from '../fault.ts';
import type { Digest } from '../oci/digest.ts';
import { mediaTypes } from '../oci/media-type.ts';
import { parseReference } from '../oci/reference.ts';
import type { CredentialSource } from '../upstream/credentials.ts';
import type { BuildPlan } from './build-plan.ts';
import { BuilderLost, type Builders } from './builders.ts';
import type { Solve } from './builds.ts';
import { readLockFile } from './lock-file.ts';

export interface SolveDeps {
  readonly builders: Builders;
  /** Credentials of registries; for the own host those of this one build. */
  readonly credentialsOf: (plan: BuildPlan) => CredentialSource;
  readonly isPlainHttp: (registry: string) => boolean;
}

// The same recipe gives the same bytes: what a build makes is dated by this.
const sourceDateEpoch = 0;

/** Does a build on BuildKit: base images, layers, push; then the lock file, where there is one. */
export function createSolve({ builders, credentialsOf, isPlainHttp }: SolveDeps): Solve {
  return async ({ plan, log, signal }) => {
    if (builders.isComing()) log.write('Waiting for BuildKit, which is being installed.\n');
    try {
      return await builders.use(signal, async client => {
        const image = await makeImage(client, plan);
        const lockFile =
          plan.lockStage === undefined
            ? undefined
            : await readLockFile(sink =>
                build(
                  client,
                  { ...common(plan), target: plan.lockStage, exporters: [{ type: 'tar', sink }] },
                  { signal },
                ),
              );
        return { succeeded: true, ...image, lockFile };
      });
    } catch (error) {
      throw error instanceof BuildError ? faultOf(error) : error;
    }

    function common({ dockerfile, files, platforms }: BuildPlan) {
      const credentials = credentialsOf(plan);
      return {
        dockerfile,
        context: memoryTree(files),
        platforms,
        sourceDateEpoch,
        credentials: async (host: string) => {
          const known = await credentials(host);
          if (!known) return undefined;
          return known.kind === 'password'
            ? { username: known.username, password: known.password }
            : { identityToken: known.token };
        },
      };
    }

    async function makeImage(client: BuildkitClient, { target, cache }: BuildPlan) {
      const text = plainLog(line => log.write(line));
      const { registry } = parseReference(target);
      const caches = cache === undefined ? [] : [{ type: 'registry' as const, ref: cache }];
      try {
        const { digest, descriptor } = await build(
          client,
          {
            ...common(plan),
            exporters: [
              { type: 'image', name: target, push: true, insecure: isPlainHttp(registry) },
            ],
            cacheImports: caches,
            cacheExports: caches,
          },
          { signal, onProgress: text.onProgress },
        );
        const mediaType = descriptor?.mediaType ?? mediaTypes.ociManifest;
        return { digest: digest as Digest, mediaType };
      } finally {
        text.end();
      }
    }
  };
}

const lastLines = 5;

/** The failure as its user is told it: what happened, where, and the last lines of the log. */
function faultOf(error: BuildError): Fault {
  const { kind, message, exitCode, step, source, lastLogLines } = error;
  const where = source ? ` (${source.file}, line ${source.line})` : '';
  const what = {
    exec: `'${step ?? 'a step'}' ended with exit code ${exitCode ?? 'unknown'}${where}`,
    dockerfile: `the Dockerfile is wrong${where}: ${message}`,
    base: `a base image cannot be had${where}: ${message}`,
    push: `the image cannot be pushed: ${message}`,
    session: `the builder lost its connection: ${message}`,
    unavailable: `the builder is away: ${message}`,
    cancelled: 'it was cancelled',
    timeout: 'it took too long',
    other: message,
  }[kind];
  const tail =
    kind === 'exec' && lastLogLines?.length ? `. ${lastLogLines.slice(-lastLines).join('\n')}` : '';
  if (kind === 'unavailable' || kind === 'session') return new BuilderLost(what, error);
  return new Fault('bad-request', `${what}${tail}`, {
    phase: kind === 'push' ? 'push' : 'build',
    cause: error,
  });
}
