import type { BuildkitClient } from './client.ts';
import type { BuildOptions, BuildRun } from './options.ts';
import type { BuildResult } from './run-build.ts';

/**
 * Builds a Dockerfile and passes the result to the exporters. Rejects with a `BuildError`, or with a `TypeError` for
 * options that contradict each other. Settles when the builder has ended the build too, unless the builder no longer
 * responds. The processes of the build end within a moment.
 */
export async function build(
  client: BuildkitClient,
  options: BuildOptions,
  run: BuildRun = {},
): Promise<BuildResult> {
  const { runBuild } = await import('./run-build.ts');
  return runBuild(client, options, run);
}
