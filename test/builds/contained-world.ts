/** The builder that Sluice starts, for tests, and builds on it. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import {
  BuildError,
  type BuildkitClient,
  build,
  memoryTree,
  plainLog,
} from '../../src/buildkit/index.ts';
import { numberedBuild } from '../../src/builds/builder/build-host.ts';
import type { ContainmentOptions } from '../../src/builds/builder/contained/containment.ts';
import type { TempDir } from '../world/temp-dir.ts';
import { buildkitDirectory, requireBusybox, requireCommand } from '../world/tools.ts';

const mebibyte = 2 ** 20;
export const each = { memoryBytes: 256 * mebibyte, processes: 100, processors: 1 };
const containment: ContainmentOptions = {
  openHosts: { builder: [], steps: [] },
  each,
  all: { memoryBytes: 512 * mebibyte, processes: 200, processors: 2 },
  buildDiskBytes: 2 ** 30,
  stateBytes: 512 * mebibyte,
};

export function optionsFor(directory: TempDir, more: Partial<ContainmentOptions> = {}) {
  for (const name of ['slirp4netns', 'nft', 'ip', 'mkfs.ext4']) requireCommand(name);
  return {
    directory: directory.join('builder'),
    folders: [buildkitDirectory()],
    plainHttp: [],
    containment: { ...containment, ...more },
  };
}

const files = memoryTree({
  busybox: { data: await readFile(requireBusybox('amd64')), mode: 0o755 },
});

export type Outcome = Readonly<{ log: string; failure: BuildError | undefined }>;

/** Builds an image of busybox with these instructions; `RUN` is a script for its shell. */
export function tryBuild(client: BuildkitClient, ...lines: string[]): Promise<Outcome> {
  return followBuild(client, () => {}, ...lines);
}

/** Does the same, and passes the log on while it is written, each time from its start. */
export async function followBuild(
  client: BuildkitClient,
  onLog: (log: string) => void,
  ...lines: string[]
): Promise<Outcome> {
  const dockerfile = [
    'FROM scratch',
    'COPY busybox /bin/busybox',
    'COPY busybox /bin/sh',
    `RUN echo ${randomUUID()} && /bin/busybox --install -s /bin`,
    ...lines,
  ].join('\n');
  let log = '';
  const text = plainLog(piece => {
    log += piece;
    onLog(log);
  });
  const failure = await build(
    client,
    { dockerfile, context: files, extraHosts: numberedBuild() },
    { onProgress: text.onProgress },
  ).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  // The rest of the log, before it is returned.
  text.end();
  if (failure !== undefined && !(failure instanceof BuildError)) throw failure;
  return { log, failure };
}
