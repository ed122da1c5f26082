import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startBuildkitd } from './buildkitd.ts';
import { pushNodeImage } from './node-image.ts';
import { startRegistry } from './registry.ts';
import { openRoot } from './root.ts';
import { sharedFolder } from './run-folder.ts';
import { startSluice } from './sluice.ts';
import { sluiceCommand } from './sluice-command.ts';

/** The name in the file of {@link sluiceImage}, which is also that of compose for what it builds in `sluice/`. */
export const sluiceImageName = 'sluice-sluice';

export interface SluiceImage {
  /** For `docker load`. */
  readonly file: string;
  /** What the command that built it wrote. */
  readonly log: string;
}

/** Returns Sluice's own image. Sluice builds it, once in a run of the tests. */
export async function sluiceImage(): Promise<SluiceImage> {
  const folder = await sharedFolder('sluice-image', buildInto);
  return { file: join(folder, 'image'), log: await readFile(join(folder, 'log'), 'utf8') };
}

const project = fileURLToPath(new URL('../..', import.meta.url));

async function buildInto(folder: string): Promise<void> {
  await using registry = await startRegistry();
  await using buildkitd = await startBuildkitd();
  await pushNodeImage(registry, 'node', '24-bookworm-slim');
  const base = `${registry.host}/node:24-bookworm-slim`;
  await using sluice = await startSluice({
    config: {
      buildkit: [buildkitd.address],
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  const { code, stdout, stderr } = await sluiceCommand(
    [
      ...['build', '-f', `${project}/Dockerfile`, project, '--await'],
      ...['--build-context', `node:24-bookworm-slim=docker-image://${base}`],
      ...['--platform', `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`],
    ],
    { SLUICE_SERVER: sluice.url },
  );
  if (code !== 0) throw new Error(stderr);
  await writeFile(join(folder, 'log'), stderr);
  await using root = await openRoot('forky');
  const to = `docker-archive:/tmp/image:${sluiceImageName}:latest`;
  const from = `docker://${stdout.trim()}`;
  const copied = await root.exec(['skopeo', 'copy', '--src-tls-verify=false', from, to]);
  if (copied.code !== 0) throw new Error(copied.stderr);
  await rename(join(root.directory, 'tmp/image'), join(folder, 'image'));
}
