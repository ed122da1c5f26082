import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { amd64, arm64, type Image, imageOf, indexOf } from '../corpus/image.ts';
import { Pusher, type PushTarget } from '../corpus/push.ts';
import { fileLayer, writeLayer } from '../sif/distribution-layer.ts';
import { makeTempDir } from './temp-dir.ts';
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
  await using directory = await makeTempDir('debian');
  const system = join(requireConda(), 'system');
  const options = ['-C', system, '--numeric-owner', '--owner=0', '--group=0', '-c', '.'];
  const tar = spawn(requireCommand('tar'), options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(tar, 'close');
  const path = directory.join('layer');
  const layer = await fileLayer(path, await writeLayer(tar.stdout, path));
  await ended;
  if (tar.exitCode !== 0) throw new Error(`tar ended with exit code ${tar.exitCode}`);
  const pusher = await Pusher.open(target, repository);
  const images = (['amd64', 'arm64'] as const).map(architecture =>
    imageOf({ layers: [layer], architecture }),
  );
  const [one, other] = images as [Image, Image];
  await pusher.push(indexOf([amd64(one), arm64(other)]), tag);
  await pusher.close();
}
