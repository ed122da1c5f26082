import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { CondaPackage } from '../../../src/conda/conda-package.ts';
import { createArchiveFetch } from '../../../src/conda/layers/archive-fetch.ts';
import { createPackageLayers } from '../../../src/conda/layers/create-package-layers.ts';
import { createLayerForms } from '../../../src/conda/layers/forms/layer-forms.ts';
import { createKeptLayers } from '../../../src/conda/layers/kept-layers.ts';
import { createLayerThreads } from '../../../src/conda/layers/making/layer-threads.ts';
import type { EnvironmentLayers } from '../../../src/conda/layers/package-layers.ts';
import { noTally } from '../../../src/foundation/telemetry/tally.ts';
import type { InjectedLayer } from '../../../src/images/augment/image-config.ts';
import { digestOf } from '../../../src/oci/digest.ts';
import { openContentDirectory } from '../../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../../src/storage/content/content-store.ts';
import { openRows } from '../../../src/storage/rows/rows.ts';
import type { PackedPackage } from '../../world/conda-package.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { accessTo } from '../solving/solver-world.ts';

export const usualLimits = {
  ...{ maxCount: 1000, maxArchiveBytes: 2 ** 30, maxUnpackedBytes: 2 ** 30, maxFiles: 100_000 },
  ...{ fetchTimeout: 60_000, stallMs: 60_000 },
};

/** The channel of the packages. Its archives come from a mirror, so that all tests have the same addresses. */
export const channelUrl = 'https://conda.example.org/test';

/** What makes layers, with its own data directory, and a channel whose archives come from the mirror. */
export async function layersOf(
  t: TestContext,
  mirror: string,
  limits: Partial<typeof usualLimits> = {},
) {
  const directory = await makeTempDir('conda-layers');
  const rows = openRows(directory.join('sluice.db'), {});
  const content = await openContentDirectory(directory.join('content'), {
    ...{ uses: rows.contentRows, isOwner: true },
  });
  const threads = createLayerThreads();
  t.after(async () => {
    await threads.close();
    await content.close();
    await rows.end();
    await directory.remove();
  });
  const listed = { keys: [], url: channelUrl, mirrors: [mirror], allowPrivateAddress: true };
  const channels = accessTo(t, [listed]);
  const all = { ...usualLimits, ...limits };
  const { cachedBlobs, packageLayers } = rows;
  const kept = createKeptLayers({ content, cachedBlobs, rows: packageLayers, threads });
  const fetchArchive = createArchiveFetch({ channels, content, limits: all });
  const layers = createPackageLayers({
    ...{ content, kept, fetchArchive, limits: all, tally: noTally },
  });
  const log: string[] = [];
  return {
    ...{ directory, rows, content, kept, layers, fetchArchive, log },
    reform: createLayerForms({ content, kept }),
    /** Makes the layers of packages. */
    make(packages: readonly CondaPackage[], signal = new AbortController().signal) {
      const environment = { packages };
      return layers.make(environment, { signal, log: text => log.push(text) });
    },
  };
}

/** The package of a channel, as a solution has it. */
export function solved({ fileName, subdir, record }: PackedPackage): CondaPackage {
  const about = record as Record<string, unknown> &
    Pick<CondaPackage, 'name' | 'version' | 'build'>;
  return {
    ...{ name: about.name, version: about.version, build: about.build, buildNumber: 0 },
    ...{ subdir, fileName, url: `${channelUrl}/${subdir}/${fileName}`, record: about },
    size: about.size as number,
    sha256: about.sha256 as string,
    depends: about.depends as string[],
  };
}

export function digestsOf({ layers }: EnvironmentLayers): string[] {
  return layers.map(({ gzipDigest }) => gzipDigest);
}

/** Unpacks layers one over the other, as a container engine does, and checks their sizes and digests. */
export async function unpackLayers(
  content: ContentStore,
  layers: readonly InjectedLayer[],
  root: string,
): Promise<void> {
  for (const { gzipDigest, gzipSize, tarDigest } of layers) {
    const bytes = (await content.read(gzipDigest)) as Buffer;
    assert.equal(bytes.length, gzipSize);
    assert.equal(digestOf(gunzipSync(bytes)), tarDigest);
    execFileSync('tar', ['-xpz', '--no-same-owner', '-C', root], { input: bytes });
  }
}
