/** A whole server stays small while it makes an image of many and large packages. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { archiveLimits } from '../../../src/conda/archives/archive-checks.ts';
import { type CondaChannels, startCondaChannels } from '../../world/conda-channels.ts';
import type { CondaPackage } from '../../world/conda-package.ts';
import { pushDebianImage } from '../../world/debian-image.ts';
import { startRegistry } from '../../world/registry.ts';
import { startMeasuredSluice } from '../../world/sluice.ts';
import { listed, madeArchive, rawTar } from '../archives/made-archive.ts';

const mebibyte = 1024 * 1024;
const mostBytes = 300 * mebibyte;
// Those of the package with many files, and what is above them.
const directories = 510;

/** A package with files of a size each. */
function packageOf(name: string, files: number, size: number): CondaPackage {
  const content = Buffer.alloc(size);
  for (let at = 0; at < size; at += 1) content[at] = (at * at) >>> (at % 13);
  const nameOf = (at: number) => `lib/${name}/file-${at}`;
  return {
    ...{ name, version: '1.0' },
    files: Array.from({ length: files }, (_, at) => ({ name: nameOf(at), content })),
  };
}

/** A package with a window of 128 MiB, and copies from nearly as far. */
function windowPackage(name: string): CondaPackage {
  const content = randomBytes(66 * mebibyte);
  const copy = Buffer.concat([content.subarray(mebibyte), content.subarray(0, mebibyte)]);
  const files = [content, copy].map((bytes, at) => ({ name: `lib/${name}/${at}`, content: bytes }));
  return { name, version: '1.0', windowLog: 27, files };
}

test('a server makes an image of 100 packages, large ones and many files, within 300 MiB', async () => {
  await assertSmall([
    packageOf('one-large-file', 1, 48 * mebibyte),
    packageOf('many-files', 26_000, 20),
    ...Array.from({ length: 98 }, (_, at) => packageOf(`usual-${at}`, 8, 40_000)),
  ]);
});

test('a server makes an image of a package with a zstd window of 128 MiB within 300 MiB', async () => {
  await assertSmall([windowPackage('wide')]);
});

test('a server makes 50 environments at once, one with as many files as a package may have, within 300 MiB', async () => {
  const packages = Array.from({ length: 30 }, (_, at) => packageOf(`usual-${at}`, 20, 20_000));
  await using served = await startCondaChannels({ memory: packages });
  const made = await addFiles(served, archiveLimits.entries - directories);
  const environments = Array.from({ length: 50 }, (_, at) => {
    const own = packages.filter((__, position) => (position * 7 + at) % 30 < 10);
    return [...own.map(({ name }) => name), ...(at === 20 ? [made] : [])];
  });
  await assertSmallFor(served, environments);
});

/** Adds a package with so many small files to a channel; returns its name. */
async function addFiles({ files }: CondaChannels, count: number): Promise<string> {
  const names = Array.from({ length: count }, (_, at) => `share/made/${at % 500}/file-${at}`);
  const tar = rawTar(names.map(name => ({ name, body: 'x' })));
  const paths = names.map(name => listed(name));
  const { fileName, subdir, bytes, record } = await madeArchive({ files: tar, paths });
  files.set(`/memory/${subdir}/${fileName}`, bytes);
  const place = `/memory/${subdir}/repodata.json`;
  const repodata = JSON.parse(String(Buffer.from(files.get(place) ?? '')));
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const about = { ...record, build_number: 0, depends: [], subdir, size: bytes.length, sha256 };
  repodata['packages.conda'][fileName] = about;
  files.set(place, Buffer.from(JSON.stringify(repodata)));
  return 'made';
}

/** Makes one image of all packages. */
async function assertSmall(packages: readonly CondaPackage[]): Promise<void> {
  await using served = await startCondaChannels({ memory: packages });
  await assertSmallFor(served, [packages.map(({ name }) => name)]);
}

/** Makes an image of each environment at once, and checks the memory of the server, which starts no other process. */
async function assertSmallFor(
  served: CondaChannels,
  environments: readonly (readonly string[])[],
): Promise<void> {
  await using registry = await startRegistry();
  await pushDebianImage(registry, 'debian');
  await using sluice = await startMeasuredSluice({
    config: {
      builds: { conda: 'native' },
      channels: served.settings,
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  await Promise.all(
    environments.map(async entries => {
      const { buildId } = (await sluice.request({
        packages: {
          ...{ type: 'CONDA', entries, channels: ['memory'] },
          condaOpts: { baseImage: `${registry.host}/debian:1`, basePackages: '' },
        },
      })) as unknown as { readonly buildId: string };
      const path = `/v1alpha1/builds/${buildId}`;
      const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
      const { succeeded } = (await (await sluice.fetch(`${path}/status`)).json()) as {
        readonly succeeded?: boolean;
      };
      assert.equal(succeeded, true, log);
    }),
  );
  const status = readFileSync(`/proc/${sluice.process.pid}/status`, 'utf8');
  const peak = Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
  assert.equal(
    readFileSync(`/proc/${sluice.process.pid}/task/${sluice.process.pid}/children`, 'utf8'),
    '',
  );
  assert.ok(peak > 0 && peak < mostBytes, `${Math.round(peak / mebibyte)} MiB`);
}
