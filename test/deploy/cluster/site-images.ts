/** The images that the pods of a site run, as files. */
import { chmod, copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { directoryTree } from '../../../src/buildkit/index.ts';
import { startBuildkitd } from '../../world/buildkitd.ts';
import { makePostgresImage, makeStoreImage } from '../../world/hub-images.ts';
import { buildImageFile, makeBusyboxImage, makeSluiceImage } from '../../world/image-files.ts';
import { pushNodeImage } from '../../world/node-image.ts';
import { startRegistry } from '../../world/registry.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { requireBusybox } from '../../world/tools.ts';
import { pauseImage } from './node-files.ts';
import { makeRootlessBuildkitImage } from './rootless-buildkit-image.ts';

/** Names of images, in a registry that does not exist: the node has them already. */
export const siteImages = {
  sluice: 'registry.test/sluice',
  postgres: 'registry.test/postgres:1',
  store: 'registry.test/store:1',
  busybox: 'registry.test/busybox:1',
  buildkit: 'registry.test/buildkit:rootless',
} as const;

const files = ['sluice', 'pause', 'postgres', 'store', 'busybox', 'buildkit'] as const;

/** Paths of files with the images. */
export type SiteImageFiles = Readonly<Record<(typeof files)[number], string>>;

/** Makes files with the images in the directory, and returns their paths. */
export async function makeSiteImages(into: string, version: string): Promise<SiteImageFiles> {
  await using registry = await startRegistry();
  await using buildkitd = await startBuildkitd();
  const { address } = buildkitd;
  const node = `${registry.host}/node`;
  const file = (name: string) => join(into, `${name}.tar`);
  const makeSluice = async () => {
    await pushNodeImage(registry, 'node', 'latest');
    await makeSluiceImage(address, node, `${siteImages.sluice}:${version}`, file('sluice'));
  };
  await Promise.all([
    makeSluice(),
    makePauseImage(address, file('pause')),
    makePostgresImage(address, siteImages.postgres, file('postgres')),
    makeStoreImage(address, siteImages.store, file('store')),
    makeBusyboxImage(address, siteImages.busybox, file('busybox')),
    makeRootlessBuildkitImage(address, siteImages.buildkit, file('buildkit')),
  ]);
  return Object.fromEntries(files.map(name => [name, file(name)])) as SiteImageFiles;
}

/** Makes the image of the first container of each pod, which only waits. */
async function makePauseImage(builder: string, file: string): Promise<void> {
  await using files = await makeTempDir('pause-image');
  await copyFile(requireBusybox('amd64'), files.join('busybox'));
  await chmod(files.join('busybox'), 0o755);
  const dockerfile =
    'FROM scratch\nCOPY busybox /\nENTRYPOINT ["/busybox", "sleep", "2147483647"]\n';
  const context = directoryTree(files.path);
  await buildImageFile(builder, { dockerfile, context }, pauseImage, file);
}
