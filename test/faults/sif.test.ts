/** Failures during the making of Singularity images, and their leftovers. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { imageOf } from '../corpus/image.ts';
import { Pusher } from '../corpus/push.ts';
import { tarLayer } from '../sif/tar-file.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const mebibyte = 1024 * 1024;

/** Begins to make a Singularity image of an image of so many bytes; returns the id of the build. */
async function begin(sluice: Sluice, registry: Registry, size: number): Promise<string> {
  const pusher = await Pusher.open(registry, 'image');
  const layers = [tarLayer([{ name: 'noise', content: randomBytes(size) }], 'none')];
  await pusher.push(imageOf({ layers }), '1');
  await pusher.close();
  const response = await sluice.request({
    containerImage: `${registry.host}/image:1`,
    ...{ format: 'sif', freeze: true, buildRepository: `${registry.host}/sif` },
  });
  return response.buildId ?? '';
}

test('a disk that is too small for the image is reported', async () => {
  await using registry = await startRegistry();
  await using sluice = await startSluice({
    config: { registries: { [registry.host]: { plainHttp: true } } },
    diskBytes: 16 * mebibyte,
  });
  const id = await begin(sluice, registry, 32 * mebibyte);
  const log = await (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
  assert.match(log, /disk of the service is full/);
  const build = await (await sluice.fetch(`/v1alpha1/builds/${id}`)).json();
  const { succeeded, reason } = build as { succeeded: boolean; reason: string };
  assert.equal(succeeded, false);
  assert.match(reason, /disk of the service is full/);
  assert.deepEqual(await readdir(`/proc/${sluice.process.pid}/root${sluice.data}/sif`), []);
});

test('after a crash, the next start removes leftovers of a Singularity image', async () => {
  await using directory = await makeTempDir('sif-crash');
  const data = directory.join('data');
  // Of a forgotten build, or of one that fails before it reaches its files when it is resumed.
  const left = join(data, 'sif', `${'0a'.repeat(16)}_1`);
  await mkdir(join(left, 'layers'), { recursive: true });
  await writeFile(join(left, 'image.sif'), 'half of it');
  // The directory may be a separate disk, with what is on every disk.
  await mkdir(join(data, 'sif', 'lost+found'));
  await using sluice = await startSluice({ data });
  assert.equal((await sluice.fetch('/readyz')).status, 200);
  assert.deepEqual(await readdir(join(data, 'sif')), ['lost+found']);
});
