import { createHash } from 'node:crypto';
import type { DocumentedSolution } from '../../../src/conda/bills/bill.ts';
import type { LayeredPackage } from '../../../src/conda/layers/package-layers.ts';

export const channel = 'https://conda.anaconda.org/conda-forge';

/** What a package of a test states about itself. */
export interface PackageFacts {
  readonly depends?: readonly string[];
  readonly index?: Readonly<Record<string, unknown>>;
  readonly about?: Readonly<Record<string, unknown>>;
  readonly build?: string;
  readonly md5?: undefined;
}

/** Returns a package of a channel; its digests are derived from its address. */
export function layered(
  name: string,
  version: string,
  subdir: string,
  { depends = [], index = {}, about = {}, build = '0', ...more }: PackageFacts = {},
): LayeredPackage {
  const fileName = `${name}-${version}-${build}.conda`;
  const url = `${channel}/${subdir}/${fileName}`;
  const sum = (algorithm: string) => createHash(algorithm).update(url).digest('hex');
  return {
    package: {
      ...{ name, version, build, subdir, fileName, url, depends },
      ...{ buildNumber: 0, size: 1000, md5: sum('md5'), sha256: sum('sha256'), ...more },
    },
    ...{ index, about, linkScripts: [] },
  };
}

function packagesFor(subdir: string): readonly LayeredPackage[] {
  return [
    layered('python', '3.12.3', subdir, {
      depends: ['bzip2 >=1.0.8,<2.0a0', '__glibc >=2.17,<3.0.a0', 'tzdata'],
      index: { timestamp: 1713577361234, license: 'Python-2.0' },
      about: {
        summary: 'A "programming" \u0007 language:\nfor all',
        home: 'https://www.python.org',
      },
      build: 'hab00c5b_0_cpython',
    }),
    layered('bzip2', '1.0.8', subdir, { index: { license: 'bzip2-1.0.6' } }),
    layered('tzdata', '2024a', 'noarch', {
      index: { noarch: 'generic', license: 'LicenseRef-Public-Domain' },
    }),
    layered('requests', '2.31.0', 'noarch', {
      depends: ['python >=3.7', 'python <4', 'urllib3[version=">=1.21"]', 'other::odd'],
      index: { noarch: 'python', license: 'Apache-2.0', constrains: ['chardet >=3.0.2,<6'] },
      build: 'pyhd8ed1ab_0',
    }),
    layered('odd', '1!2.0+x', 'noarch', {
      depends: ['python', 'requests'],
      index: { noarch: 'python', license: "The author's own license, version 2" },
    }),
    layered('null', '1e5', subdir, { index: { license: 'GPL-2.0-or-later AND MIT' } }),
  ];
}

/** Returns a solution whose packages state what is unusual: a circle, an epoch, a license without a name. */
export function solutionFor(...subdirs: readonly string[]): DocumentedSolution {
  return {
    platforms: subdirs.map(subdir => ({ subdir, packages: packagesFor(subdir) })),
    channels: [channel],
    requested: ['requests', 'null ==1e5'],
    image: `registry.example.com/team/build@sha256:${'0123'.repeat(16)}`,
  };
}
