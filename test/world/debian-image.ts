import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { amd64, arm64, type Image, imageOf, indexOf } from '../corpus/image.ts';
import { Pusher, type PushTarget } from '../corpus/push.ts';
import { type FileLayer, fileLayer, writeFolderLayer } from '../sif/distribution-layer.ts';
import { sharedFolder } from './run-folder.ts';
import { requireConda } from './tools.ts';

/**
 * Pushes a small Debian without Python, without a builder: an index with this machine's files for amd64
 * and for arm64.
 */
export async function pushDebianImage(
  target: PushTarget,
  repository: string,
  tag = '1',
): Promise<void> {
  const layer = await debianLayer();
  const pusher = await Pusher.open(target, repository);
  const images = (['amd64', 'arm64'] as const).map(architecture =>
    imageOf({ layers: [layer], architecture }),
  );
  const [one, other] = images as [Image, Image];
  await pusher.push(indexOf([amd64(one), arm64(other)]), tag);
  await pusher.close();
}

async function debianLayer(): Promise<FileLayer> {
  const folder = await sharedFolder('debian-layer', async into => {
    const system = join(requireConda(), 'system');
    await writeFile(join(into, 'diff-id'), await writeFolderLayer(system, join(into, 'layer')));
  });
  return fileLayer(join(folder, 'layer'), await readFile(join(folder, 'diff-id'), 'utf8'));
}
