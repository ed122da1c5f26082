import { join } from 'node:path';
import { startBuildkitd } from './buildkitd.ts';
import { buildkitImageName, makeBuildkitImage, makeBusyboxImage } from './image-files.ts';
import { sluiceImage } from './own-image.ts';
import { keptFolder, packagesOf, textsOf } from './run-folder.ts';
import { buildkitDirectory } from './tools.ts';

/**
 * Returns files for `docker load`: Sluice, the image of BuildKit, and a base for builds.
 * Their names are that of the image that Sluice builds, that in the project's files, and `busybox`.
 */
export async function composeImages(): Promise<string[]> {
  const { file } = await sluiceImage();
  const name = await buildkitImageName();
  const texts = textsOf('compose-images.ts', 'image-files.ts', 'debian-files.ts');
  const sources = [name, buildkitDirectory(), packagesOf('forky'), ...texts];
  const folder = await keptFolder('compose-images', sources, async into => {
    await using buildkitd = await startBuildkitd();
    const { address } = buildkitd;
    await Promise.all([
      makeBuildkitImage(address, name, join(into, 'buildkit')),
      makeBusyboxImage(address, 'busybox', join(into, 'busybox')),
    ]);
  });
  return [file, ...['buildkit', 'busybox'].map(name => join(folder, name))];
}
