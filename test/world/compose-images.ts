import { join } from 'node:path';
import { startBuildkitd } from './buildkitd.ts';
import {
  buildkitImageName,
  makeBuildkitImage,
  makeBusyboxImage,
  makeSluiceImage,
} from './image-files.ts';
import { pushNodeImage } from './node-image.ts';
import { startRegistry } from './registry.ts';
import { sharedFolder } from './run-folder.ts';

/** The name of the image that the project's Dockerfile makes. */
export const sluiceImageName = 'sluice-sluice';

/**
 * Returns files for `docker load`: Sluice as compose would build it, the image of BuildKit, and a base for builds.
 * Their names are {@link sluiceImageName}, that in the project's files, and `busybox`.
 */
export async function composeImages(): Promise<string[]> {
  const names = ['sluice', 'buildkit', 'busybox'];
  const folder = await sharedFolder('compose-images', async into => {
    await using registry = await startRegistry();
    await using buildkitd = await startBuildkitd();
    const { address } = buildkitd;
    const node = `${registry.host}/node`;
    const makeSluice = async () => {
      await pushNodeImage(address, node);
      await makeSluiceImage(address, node, sluiceImageName, join(into, 'sluice'));
    };
    await Promise.all([
      makeSluice(),
      makeBuildkitImage(address, await buildkitImageName(), join(into, 'buildkit')),
      makeBusyboxImage(address, 'busybox', join(into, 'busybox')),
    ]);
  });
  return names.map(name => join(folder, name));
}
