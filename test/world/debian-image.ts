import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { amd64, arm64, type Image, imageOf, indexOf } from '../corpus/image.ts';
import { Pusher, type PushTarget } from '../corpus/push.ts';
import { type FileLayer, fileLayer, writeLayer } from '../sif/distribution-layer.ts';
import { sharedFolder } from './run-folder.ts';
import { requireCommand, requireConda } from './tools.ts';

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
    const options = ['-C', system, '--numeric-owner', '--owner=0', '--group=0', '-c', '.'];
    const tar = spawn(requireCommand('tar'), options, { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(tar, 'close');
    await writeFile(join(into, 'diff-id'), await writeLayer(tar.stdout, join(into, 'layer')));
    await ended;
    if (tar.exitCode !== 0) throw new Error(`tar ended with exit code ${tar.exitCode}`);
  });
  return fileLayer(join(folder, 'layer'), await readFile(join(folder, 'diff-id'), 'utf8'));
}
