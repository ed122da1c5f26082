import {
  type BuildError,
  type BuildkitClient,
  type BuildOptions,
  type BuildResult,
  type BuildRun,
  build,
  connect,
  plainLog,
} from '../../src/buildkit/index.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, type BuildkitdOptions, startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';

/** A builder, a registry with a small system image, and a client. */
export interface BuildWorld extends AsyncDisposable {
  readonly registry: Registry;
  readonly buildkitd: Buildkitd;
  readonly client: BuildkitClient;
  /** Reference of an image that has a shell. */
  readonly base: string;
  build(options: BuildOptions, run?: LoggedRun): Promise<BuildResult>;
  /** Returns the descriptor of an image of the registry that was pushed as `repository:tag`. */
  manifest(repository: string, tag: string): Promise<Manifest>;
  close(): Promise<void>;
}

export interface LoggedRun extends BuildRun {
  /** Receives the plain text of the build in pieces. */
  readonly log?: string[];
}

export interface Manifest {
  readonly mediaType: string;
  readonly config: { readonly digest: string };
  readonly manifests?: readonly { readonly digest: string; readonly platform: object }[];
  readonly layers: readonly { readonly mediaType: string; readonly digest: string }[];
}

const oci = 'application/vnd.oci.image';
export const baseImage = 'busybox:oci';

export async function startBuildWorld(options: BuildkitdOptions = {}): Promise<BuildWorld> {
  await using stack = new AsyncDisposableStack();
  const registry = stack.use(await startRegistry());
  const buildkitd = stack.use(await startBuildkitd(options));
  const pushed = await pushCorpus(registry, [baseImage]);
  const client = stack.adopt(connect(buildkitd.address), opened => opened.close());
  const whole = stack.move();
  const close = () => whole.disposeAsync();
  return {
    ...{ registry, buildkitd, client, base: pushed.get(baseImage)?.reference ?? '' },
    async build(buildOptions, run: LoggedRun = {}) {
      const log = plainLog(text => run.log?.push(text));
      try {
        return await build(client, buildOptions, {
          ...run,
          onProgress(progress) {
            log.onProgress(progress);
            run.onProgress?.(progress);
          },
        });
      } finally {
        log.end();
      }
    },
    async manifest(repository, tag) {
      const response = await fetch(`${registry.url}/v2/${repository}/manifests/${tag}`, {
        headers: { accept: ['manifest', 'index'].map(kind => `${oci}.${kind}.v1+json`).join(', ') },
      });
      return (await response.json()) as Manifest;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Returns the error that the promise rejects with. Throws when it does not reject. */
export async function failureOf(promise: Promise<unknown>): Promise<BuildError> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error as BuildError;
  }
  throw new Error(`It did not fail but was ${JSON.stringify(value)}`);
}
