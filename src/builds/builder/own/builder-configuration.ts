import { join } from 'node:path';

/** Name of a builder's socket, in the folder that is made for it. */
export const socketName = 'buildkitd.sock';

/**
 * Name of the socket that takes traces, in the same folder. BuildKit would mount it into each step, and keep all that steps
 * send in memory that no limit of builds counts. It mounts none that does not exist.
 */
export const traceSocketName = 'otel.sock';

interface ConfigurationOptions {
  readonly root: string;
  readonly folder: string;
  readonly plainHttp: readonly string[];
}

/**
 * Returns the text of buildkitd.toml. All options are in this file, not in flags: other versions and builds of
 * buildkitd support fewer flags.
 *
 * @param worker lines below `[worker.oci]`
 */
export function builderConfiguration(
  { root, folder, plainHttp }: ConfigurationOptions,
  worker: readonly string[],
): string {
  return [
    `root = ${quoted(root)}`,
    `[grpc]\n  address = [${quoted(`unix://${join(folder, socketName)}`)}]`,
    `[otel]\n  socketPath = ${quoted(join(folder, traceSocketName))}`,
    `[worker.oci]\n  ${worker.join('\n  ')}`,
    '[worker.containerd]\n  enabled = false',
    // A device of the machine may be marked for all builds.
    '[cdi]\n  disabled = true',
    ...plainHttp.map(host => `[registry.${quoted(host)}]\n  http = true`),
    '',
  ].join('\n');
}

// Every JSON string is a basic string of TOML. Source: TOML 1.0.0, String.
function quoted(text: string): string {
  return JSON.stringify(text);
}
